#!/usr/bin/env python3
"""Prints the table of docs/testing-your-program.md: how soon an exploration finds each kernel's bug, and how often the
bug shows in ordinary runs.

    ninja -C build/release coir_explore_kernels coir_kernels_ordinary
    tests/explore/kernels/table.py build/release

All kernels take about twenty minutes on a busy machine.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

SEEDS = (1, 2, 3)
TEST = "TheBugIsFoundAndReplays"


def kernels(ordinary):
    lines = subprocess.run([ordinary, "--list"], check=True, capture_output=True, text=True).stdout.splitlines()
    return [line.split("\t") for line in lines]


def schedules_until_found(explored):
    """By kernel, the median over the seeds."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [explored, f"--gtest_filter=*{TEST}*", f"--gtest_output=json:{report}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        suites = json.loads(report.read_text())["testsuites"]
    tests = [test for suite in suites for test in suite["testsuite"]]
    return {
        test["name"].split("/")[1]: statistics.median(int(test[f"schedules_{seed}"]) for seed in SEEDS)
        for test in tests
    }


def hits(ordinary, name, runs):
    command = [ordinary, name, str(runs)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return int(done.stdout)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build", type=pathlib.Path, help="the build folder")
    arguments.add_argument("--runs", type=int, default=1000, help="ordinary runs of each kernel")
    given = arguments.parse_args()
    programs = given.build / "tests" / "explore" / "kernels"
    ordinary = programs / "coir_kernels_ordinary"
    found = schedules_until_found(programs / "coir_explore_kernels")
    print(f"| Kernel | What is wrong | `pct(3)` | {given.runs:,} runs |\n|---|---|---|---|")
    for name, bug in kernels(ordinary):
        print(f"| `{name}` | {bug} | {found[name]:.0f} | {hits(ordinary, name, given.runs)} |", flush=True)


if __name__ == "__main__":
    main()
