"""Rounds: in each one every row is run once in each of its programs, one after the other. So what is compared was
measured within seconds, and what a median is made of comes from different minutes. Another program begins in each round:
where a virtual machine gives free memory back to its host, who comes first pays for getting it again."""

import sys
import time

from . import programs, report

SLOW = 8.0  # seconds; a row that takes longer (at one number of processors) ...
SLOW_ROUNDS = 3  # ... is in so many rounds only


class Place:
    """A row at one number of processors: where its samples are gathered."""

    def __init__(self, row, processors, runners, names):
        self.row, self.processors, self.runners, self.names = row, processors, runners, names
        self.samples = {name: {} for name in names}
        self.notes, self.failures = {}, {}
        self.seconds = 0.0  # of the last round

    def run(self, turn, timeout, progress):
        start = time.monotonic()
        first = turn % len(self.runners)
        for program in self.runners[first:] + self.runners[:first]:
            if program.name in self.failures:
                continue
            progress(f"{self.row} at {self.processors}, {program.name}")
            try:
                values = program.run(self.row, self.processors, timeout)
            except programs.Failed as e:
                self.failures[program.name] = str(e)
                continue
            self.notes[program.name] = "; ".join(dict.fromkeys(note for _, _, note in values.values() if note))
            for name, (value, _, _) in values.items():
                self.samples.setdefault(name, {}).setdefault(program.name, []).append(value)
        self.seconds = time.monotonic() - start

    def entries(self, goals):
        return [report.entry(name, goals[name], self.processors, self.samples[name], self.notes, self.failures)
                for name in self.names]


def places(rows, processors, found, goals):
    """Of each row at each number of processors at which it says something, with the programs that know it."""
    all_places = []
    for row in rows:
        for n in processors:
            names = [name for name, goal in goals.items()
                     if goal["row"] == row and n >= goal.get("least_processors", 1)]
            if names:
                all_places.append(Place(row, n, [p for p in found if row in p.rows()], names))
    return all_places


def run(places, rounds, minutes, timeout, goals):
    """Runs the rounds, prints what each place has given, and returns how many rounds there were: at least one, and as
    many of those wanted as will end in so many minutes."""
    start = time.monotonic()
    for n in range(1, rounds + 1):
        todo = [p for p in places if n <= SLOW_ROUNDS or p.seconds <= SLOW]
        elapsed = time.monotonic() - start
        if not todo:
            return n - 1
        if n > 1 and elapsed + sum(p.seconds for p in todo) > minutes * 60:
            print(f"no time for round {n} within {minutes:g} minutes")
            return n - 1
        print(f"round {n} of {rounds}, after {_clock(elapsed)}")
        for place in todo:
            place.run(n - 1, timeout,
                      lambda text, n=n: _progress(f"{_clock(time.monotonic() - start)}, round {n}: {text}"))
            _progress("")
            for e in place.entries(goals):
                print(_brief(e), flush=True)
    return rounds


def _clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _progress(text):
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)


def _brief(e):
    figures = [f"{p} {report.figure(values[-1])}" for p, values in e["samples"].items()]
    figures += [f"{p} failed ({why})" for p, why in e["failures"].items()]
    return f"  {e['name']} at {e['processors']}, {e['unit']}: {', '.join(figures)}"
