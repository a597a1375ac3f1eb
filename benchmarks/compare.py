#!/usr/bin/env python3
"""Runs the same work in coir, Go and Boost.Fiber, in turn on this machine, and prints medians and ratios.

Absolute figures drift with the machine and the hour, so what counts is the ratio to a peer measured in the same run:
for each row and number of processors every round runs each program once, one after the other. Results are also written
as JSON, Markdown and a chart. Needs the programs of the release build; peers that were not built are left out."""

import argparse
import json
import os
import sys

from comparison import chart, machine, programs, report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(ROOT, "build", "release", "benchmarks"),
                   help="where the benchmarks were built (build/release/benchmarks)")
    p.add_argument("--out", default=os.path.join(ROOT, "build", "compare"), help="for the results (build/compare)")
    p.add_argument("--rounds", type=int, default=5, help="runs of each program for each row (5)")
    p.add_argument("--rows", default="", help="only these, separated by commas: spawn_join,parked,... (all)")
    p.add_argument("--procs", default="1,2", help="numbers of processors (1,2)")
    p.add_argument("--peers", default="",
                   help="only these peers, separated by commas: go,boost.fiber (all; none: coir alone)")
    p.add_argument("--timeout", type=float, default=120, help="seconds for one run of one row (120)")
    p.add_argument("--quick", action="store_true", help="one round, without the row that idles")
    return p.parse_args()


def measure(row, processors, runners, rounds, timeout, goals):
    """One row in all programs, in turn. Returns its entries."""
    samples, notes, failures = {}, {}, {}
    for n in range(rounds):
        for program in runners:
            if program.name in failures:
                continue
            progress(f"{row} at {processors}: round {n + 1} of {rounds}, {program.name}")
            try:
                values = program.run(row, processors, timeout)
            except programs.Failed as e:
                failures[program.name] = str(e)
                continue
            for name, (value, _, note) in values.items():
                samples.setdefault(name, {}).setdefault(program.name, []).append(value)
                notes[program.name] = note
    progress("")
    names = [name for name, goal in goals.items() if goal["row"] == row]
    return [report.entry(name, goals[name], processors, samples.get(name, {}), notes, failures) for name in names]


def progress(text):
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)


def brief(e):
    figures = [f"{p} {report.figure(v)}" for p, v in e["medians"].items()]
    figures += [f"{p} failed ({why})" for p, why in e["failures"].items()]
    return f"{e['name']} at {e['processors']}, {e['unit']}: {', '.join(figures)}"


def write(directory, name, content):
    path = os.path.join(directory, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(content)
    print(f"wrote {os.path.relpath(path)}")


def main():
    options = arguments()
    with open(os.path.join(HERE, "goals.json"), encoding="utf-8") as f:
        goals = json.load(f)
    only = [p.strip().lower() for p in options.peers.split(",") if p.strip()]
    found = programs.find(options.build, only)
    known = {p.name: p.rows() for p in found}
    rows = [r.strip() for r in options.rows.split(",") if r.strip()] or known["coir"]
    unknown = [r for r in rows if r not in known["coir"]]
    if unknown:
        raise SystemExit(f"compare.py: no such row: {', '.join(unknown)}; there are {', '.join(known['coir'])}")
    rounds = options.rounds
    if options.quick:
        rounds, rows = 1, [r for r in rows if r != "idle" or options.rows]
    if rounds < 1:
        raise SystemExit("compare.py: at least one round")

    facts = machine.describe(ROOT)
    for key, value in facts.items():
        print(f"{key}: {value}")
    entries = []
    for row in rows:
        runners = [p for p in found if row in known[p.name]]
        for processors in (int(n) for n in options.procs.split(",")):
            for e in measure(row, processors, runners, rounds, options.timeout, goals):
                print(brief(e), flush=True)
                entries.append(e)

    names = [p.name for p in found]
    rows_of_cells = report.table(entries, names)
    print(f"\n{report.as_text(rows_of_cells)}\n")
    os.makedirs(options.out, exist_ok=True)
    write(options.out, "results.json", report.as_json(entries, facts, rounds))
    write(options.out, "results.md", report.as_markdown(rows_of_cells, entries, facts, rounds, "results.svg"))
    write(options.out, "results.svg", chart.svg(entries, names, facts))
    return 1 if any("coir" in e["failures"] for e in entries) else 0


if __name__ == "__main__":
    sys.exit(main())
