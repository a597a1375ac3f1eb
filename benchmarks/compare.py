#!/usr/bin/env python3
"""Runs the same work in coir, Go, Boost.Fiber, oneTBB and std, in turn on this machine, and prints medians and ratios.

Absolute figures drift with the machine and the hour, so what counts is the ratio to a peer measured in the same run: in
each round every row runs once in each program, one after the other. Results are also written as JSON, Markdown and a
chart. Needs the programs of the release build; peers that were not built are left out.

With --net the rows of the network instead: servers on one core under a load on another."""

import argparse
import json
import os
import sys

from comparison import chart, machine, net, programs, report, rounds

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(ROOT, "build", "release", "benchmarks"),
                   help="where the benchmarks were built (build/release/benchmarks)")
    p.add_argument("--out", default=os.path.join(ROOT, "build", "compare"), help="for the results (build/compare)")
    p.add_argument("--rounds", type=int, default=5,
                   help=f"runs of each program for each row (5; {rounds.SLOW_ROUNDS} of rows over {rounds.SLOW:g} s)")
    p.add_argument("--net", action="store_true", help="the network rows")
    p.add_argument("--minutes", type=float, help="begin no round that would last beyond this (15; with --net 6)")
    p.add_argument("--rows", default="", help="only these, separated by commas: spawn_join,parked,... (all)")
    p.add_argument("--procs", default="1,2", help="numbers of processors (1,2; with --net it is always 1)")
    p.add_argument("--peers", default="", help="only these peers, separated by commas: go,boost.fiber,tbb,std, with "
                   "--net raw epoll,bare stacks,go,asio,boost.fiber,nginx,redis-server (all; none: coir alone)")
    p.add_argument("--timeout", type=float, default=60, help="seconds for one run of one row (60)")
    p.add_argument("--quick", action="store_true", help="one round, without the row that idles")
    return p.parse_args()


def wanted_rows(options, known):
    rows = [r.strip() for r in options.rows.split(",") if r.strip()] or known
    unknown = [r for r in rows if r not in known]
    if unknown:
        raise SystemExit(f"compare.py: no such row: {', '.join(unknown)}; there are {', '.join(known)}")
    if options.quick and not options.rows:
        rows = [r for r in rows if r != "idle"]
    return rows


def write(directory, name, content):
    path = os.path.join(directory, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(content)
    print(f"wrote {os.path.relpath(path)}")


def main():
    options = arguments()
    if options.rounds < 1:
        raise SystemExit("compare.py: at least one round")
    with open(os.path.join(HERE, "net_goals.json" if options.net else "goals.json"), encoding="utf-8") as f:
        goals = json.load(f)
    peers = [p.strip().lower() for p in options.peers.split(",") if p.strip()]
    found = (net if options.net else programs).find(options.build, peers)
    wanted = wanted_rows(options, found[0].rows())
    processors = [1] if options.net else [int(n) for n in options.procs.split(",")]
    places = rounds.places(wanted, processors, found, goals)
    minutes = options.minutes or (6 if options.net else 15)

    facts = machine.describe(ROOT)
    for key, value in facts.items():
        print(f"{key}: {value}")
    done = rounds.run(places, 1 if options.quick else options.rounds, minutes, options.timeout, goals)

    entries = [e for place in places for e in place.entries(goals)]
    names = [p.name for p in found]
    rows_of_cells = report.table(entries, names)
    print(f"\n{report.as_text(rows_of_cells)}\n")
    os.makedirs(options.out, exist_ok=True)
    files = "net_results" if options.net else "results"
    write(options.out, f"{files}.json", report.as_json(entries, facts, done))
    write(options.out, f"{files}.md", report.as_markdown(rows_of_cells, entries, facts, done, f"{files}.svg"))
    write(options.out, f"{files}.svg", chart.svg(entries, names, facts))
    return 1 if any("coir" in e["failures"] for e in entries) else 0


if __name__ == "__main__":
    sys.exit(main())
