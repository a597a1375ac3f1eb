#!/usr/bin/env python3
"""Does a row cost more the more processors a runtime has, on a machine with fewer cores? Runs coir's rows at 2, 4, 8, 16
and 64 processors in turn, and prints medians and their ratios to the figure at the first number of processors. Those
above the limit are marked. Exits with 1 if there are any."""

import argparse
import json
import os
import sys

from comparison import machine, programs, report, rounds

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)

# They fill every processor with work: with more processors than cores it is the operating system that makes them late.
FILL_EVERY_PROCESSOR = ("late_sleep", "late_injected")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", default="", help="only these, separated by commas: skynet,fib27,... "
                                              f"(all but {', '.join(FILL_EVERY_PROCESSOR)})")
    p.add_argument("--procs", default="2,4,8,16,64", help="numbers of processors; ratios are to the first (2,4,8,16,64)")
    p.add_argument("--limit", type=float, default=1.3, help="ratios above it are marked (1.3)")
    p.add_argument("--go", action="store_true", help="Go's figures and ratios beside coir's")
    p.add_argument("--rounds", type=int, default=3, help="runs of each row at each number of processors (3)")
    p.add_argument("--minutes", type=float, default=15, help="begin no round that would last beyond this (15)")
    p.add_argument("--timeout", type=float, default=60, help="seconds for one run of one row (60)")
    p.add_argument("--build", default=os.path.join(ROOT, "build", "release", "benchmarks"),
                   help="where the benchmarks were built (build/release/benchmarks)")
    return p.parse_args()


def growth(values):
    """The ratio of each value to the first one; None where either is missing or the first is not positive."""
    first = values[0]
    return [v / first if v is not None and first and first > 0 else None for v in values]


def table(entries, processors, programs_shown, limit):
    """Rows of cells, the head first; and the names of what is above the limit in coir."""
    head = ["row", "", "unit", *(f"P{n}" for n in processors), *(f"P{n} / P{processors[0]}" for n in processors[1:]), ""]
    rows, above = [head], []
    for name in dict.fromkeys(e["name"] for e in entries):
        found = {e["processors"]: e for e in entries if e["name"] == name}
        for program in programs_shown:
            medians = [found[n]["medians"].get(program) if n in found else None for n in processors]
            if all(m is None for m in medians):
                continue
            ratios = growth(medians)[1:]
            grows = any(r is not None and r > limit for r in ratios)
            if grows and program == "coir":
                above.append(name)
            failed = any(program in e["failures"] for e in found.values())
            rows.append([name, program, found[max(found)]["unit"], *(report.figure(m) for m in medians),
                         *(report.figure(r) + ("*" if r is not None and r > limit else " ") for r in ratios),
                         "failed" if failed else f"above {limit:g}" if grows else ""])
    return rows, above


def main():
    options = arguments()
    processors = [int(n) for n in options.procs.split(",")]
    with open(os.path.join(HERE, "goals.json"), encoding="utf-8") as f:
        goals = {name: goal for name, goal in json.load(f).items() if not name.endswith("_max")}
    found = programs.find(options.build, ["go"] if options.go else ["none"])
    known = found[0].rows()
    rows = [r.strip() for r in options.rows.split(",") if r.strip()] or [
        r for r in known if r not in FILL_EVERY_PROCESSOR]
    unknown = [r for r in rows if r not in known]
    if unknown:
        raise SystemExit(f"growth.py: no such row: {', '.join(unknown)}; there are {', '.join(known)}")
    for key, value in machine.describe(ROOT).items():
        print(f"{key}: {value}")
    places = rounds.places(rows, processors, found, goals)
    rounds.run(places, options.rounds, options.minutes, options.timeout, goals)
    cells, above = table([e for p in places for e in p.entries(goals)], processors, [p.name for p in found],
                         options.limit)
    print(f"\n{report.as_text(cells)}")
    print(f"\nabove {options.limit:g}: {', '.join(above) or 'none'}")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
