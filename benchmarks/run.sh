#!/usr/bin/env bash
# Runs every benchmark program of a build in turn and prints its table.
#   benchmarks/run.sh [DIRECTORY] [OPTION...]     options go to each Google Benchmark program: --benchmark_filter=..., ...
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

# Leaves out the library's warnings that say nothing about these figures. Debian builds libbenchmark without NDEBUG, so
# every program warns of a debug build. The loop that is timed is in the library's header, which is compiled with the
# benchmarks, as they are.
without_warnings() {
  grep -v -e '^\*\*\*WARNING\*\*\* CPU scaling' -e '^\*\*\*WARNING\*\*\* ASLR' \
    -e '^\*\*\*WARNING\*\*\* Library was built as DEBUG'
}

# A line a row and number of processors, from programs that print a line a value.
latency_table() {
  printf '%-14s %2s %12s %12s %12s %12s   us\n' row P median p99 maximum 'CPU time'
  local row processors
  for row in $("$1" --list); do
    for processors in 1 2; do
      timeout 60 "$1" "$row" "$processors" | awk -v row="$row" '
        { kind = $1; sub(/.*_/, "", kind); value[kind] = sprintf("%.1f", $3); note = /#/ ? $0 : ""; sub(/.*# /, "", note) }
        END { printf "%-14s %2d %12s %12s %12s %12s   %s\n", row, $2, value["p50"], value["p99"], value["max"],
                     "cpu" in value ? value["cpu"] : "-", note }' || return 1
    done
  done
}

cold_and_warm_table() {
  printf '%-14s %2s %12s %12s\n' row P cold warm
  local row processors
  for row in spawn_join skynet fib27 sleepers; do
    for processors in 1 2; do
      timeout 60 "$1" "$row" "$processors" | awk '
        /^[a-z0-9_]*_cold / { cold[substr($1, 1, length($1) - 5)] = sprintf("%.1f", $3); next }
        { name[++count] = $1; warm[$1] = sprintf("%.1f", $3); unit[$1] = $4 }
        END { for (i = 1; i <= count; ++i)
                printf "%-14s %2d %12s %12s   %s\n", name[i], $2, cold[name[i]], warm[name[i]], unit[name[i]] }' || return 1
    done
  done
}

failed=()
for program in "${programs[@]}"; do
  name=${program##*/}
  [[ -x $program && -f $program ]] || continue
  case $name in
    bench_rows)  # is for compare.py: here only what the others, which are warmed up, do not show
      printf '\n== cold and warm\n'
      cold_and_warm_table "$program" || failed+=("$name")
      ;;
    bench_latency)
      printf '\n== latency\n'
      latency_table "$program" || failed+=("$name")
      ;;
    *)
      printf '\n== %s\n' "${name#bench_}"
      timeout 120 "$program" --benchmark_min_time=0.5 --benchmark_counters_tabular=true "$@" 2>&1 | without_warnings ||
        failed+=("$name")
      ;;
  esac
done

if [[ ${#failed[@]} -gt 0 ]]; then
  printf '\nfailed: %s\n' "${failed[*]}" >&2
  exit 1
fi
