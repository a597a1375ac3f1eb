"""The programs that know the rows: coir's and the peers'. Each is called as PROGRAM ROW PROCESSORS and prints a line a
value, "name processors value unit [# note]"."""

import os
import subprocess


class Failed(Exception):
    """A program that ended badly, took too long or printed something else."""


class Program:
    """One or more files, each with rows of its own; without the first there is no program."""

    def __init__(self, name, *paths):
        self.name = name
        self.path = paths[0]
        self._paths = paths
        self._of_row = None

    def rows(self):
        if self._of_row is None:
            self._of_row = {}
            for path in self._paths:
                done = subprocess.run([path, "--list"], capture_output=True, text=True, timeout=20, check=True)
                self._of_row.update(dict.fromkeys(done.stdout.split(), path))
        return list(self._of_row)

    def run(self, row, processors, timeout):
        """Returns {name: (value, unit, note)}; raises Failed."""
        self.rows()
        command = [self._of_row[row], row, str(processors)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {timeout:g} s") from None
        if done.returncode != 0:
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise Failed(f"ended with {done.returncode}: {last}")
        values = {}
        for line in done.stdout.splitlines():
            figures, _, note = line.partition(" # ")
            try:
                name, _, value, unit = figures.split()
                values[name] = (float(value), unit, note)
            except ValueError:
                raise Failed(f"printed: {line}") from None
        return values


def find(build, only=None):
    """coir's program first, then each peer that was built. Exits without coir's."""
    candidates = [
        Program("coir", os.path.join(build, "bench_rows"), os.path.join(build, "bench_latency")),
        Program("Go", os.path.join(build, "peers", "go_rows")),
        Program("Boost.Fiber", os.path.join(build, "peers", "boost_fiber_rows")),
        Program("TBB", os.path.join(build, "peers", "tbb_rows")),
        Program("std", os.path.join(build, "peers", "std_rows")),
    ]
    found = [p for p in candidates if os.access(p.path, os.X_OK)]
    if not found or found[0].name != "coir":
        raise SystemExit(f"compare.py: {candidates[0].path} is not there; build the benchmarks first (make build)")
    for p in candidates:
        if p not in found:
            print(f"{p.name}: {os.path.basename(p.path)} was not built, left out")
    if only:
        found = [p for p in found if p.name == "coir" or p.name.lower() in only]
    return found
