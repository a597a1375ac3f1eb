#!/usr/bin/env bash
# Runs every Google Benchmark program of a build in turn and prints its table.
#   benchmarks/run.sh [DIRECTORY] [OPTION...]     options go to each program: --benchmark_filter=..., ...
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
directory=$root/build/release/benchmarks
if [[ $# -gt 0 && $1 != -* ]]; then
  directory=$1
  shift
fi

shopt -s nullglob
programs=("$directory"/bench_*)
if [[ ${#programs[@]} -eq 0 ]]; then
  echo "run.sh: no benchmarks in $directory; build them first (make build)" >&2
  exit 1
fi

failed=()
for program in "${programs[@]}"; do
  name=${program##*/}
  # bench_rows is for compare.py.
  [[ -x $program && -f $program && $name != bench_rows ]] || continue
  printf '\n== %s\n' "${name#bench_}"
  timeout 120 "$program" --benchmark_min_time=0.5 --benchmark_counters_tabular=true "$@" 2>&1 |
    grep -v -e '^\*\*\*WARNING\*\*\* CPU scaling' -e '^\*\*\*WARNING\*\*\* ASLR' || failed+=("$name")
done

if [[ ${#failed[@]} -gt 0 ]]; then
  printf '\nfailed: %s\n' "${failed[*]}" >&2
  exit 1
fi
