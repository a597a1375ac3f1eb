"""Every row of the programs given has a value in goals.json, and every value there is of one of their rows."""

import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

with open(os.path.join(ROOT, "benchmarks", "goals.json"), encoding="utf-8") as f:
    of_values = {goal["row"] for goal in json.load(f).values()}
of_programs = set()
for program in sys.argv[1:]:
    of_programs.update(subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split())

if of_values != of_programs:
    sys.exit(f"only in goals.json: {sorted(of_values - of_programs)}; only in the programs: "
             f"{sorted(of_programs - of_values)}")
