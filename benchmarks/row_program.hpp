// What the programs of rows have in common, coir's (rows.cpp) and those of the peers in C++, for compare.py to run in
// turn:
//
//   PROGRAM ROW PROCESSORS     runs one row once; a line a value: "row processors value unit [# note]"
//   PROGRAM --list             the rows
//
// A row is run `warm_ups` times first, so that stacks and heap are there. One with none is measured cold, from the
// start of the process; one that is `cold_too` also gives the values of its first run, name_cold.
#pragma once

#include <charconv>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/measure.hpp"

namespace bench {

struct value {
  std::string name;
  double number;
  const char* unit;
};

struct row {
  const char* name;
  int warm_ups;
  std::function<std::vector<value>()> run;
  bool cold_too = false;
};

inline row cold_too(row r) {
  r.cold_too = true;
  return r;
}

inline row per_operation(const char* name, double operations, std::function<seconds()> workload) {
  return {name, 1, [=] { return std::vector{value{name, workload().count() / operations * 1e9, "ns"}}; }};
}

inline row in_milliseconds(const char* name, std::function<seconds()> workload) {
  return {name, 1, [=] { return std::vector{value{name, workload().count() * 1e3, "ms"}}; }};
}

/// For what allocates more than it would be fair to have at hand: measured cold.
inline row program_in_milliseconds(const char* name, std::function<seconds()> workload) {
  row r = in_milliseconds(name, std::move(workload));
  r.warm_ups = 0;
  return r;
}

/// Three values: name_create, name_rss, name_wake.
inline row parked_row(const char* name, std::function<parked_result()> workload) {
  return {name, 0, [prefix = std::string(name), workload] {
            const parked_result r = workload();
            return std::vector<value>{{prefix + "_create", r.create.count(), "s"},
                                      {prefix + "_rss", r.resident_bytes, "bytes"},
                                      {prefix + "_wake", r.wake.count(), "s"}};
          }};
}

/// Warmed up more than once: the faster they start, the more of them sleep at a time and need a stack.
inline row sleepers_row(std::function<sleepers_result()> workload) {
  return {"sleepers", 4, [=] {
            const sleepers_result r = workload();
            return std::vector<value>{{"sleepers_wall", r.wall.count() * 1e3, "ms"},
                                      {"sleepers_cpu", r.cpu.count() * 1e3, "ms"}};
          }};
}

inline row idle_row(std::function<usage()> workload) {
  return {"idle", 0, [=] {
            const usage u = workload();
            return std::vector<value>{{"idle_cpu", u.cpu.count() * 1e3, "ms"},
                                      {"idle_switches", static_cast<double>(u.switches), "switches"}};
          }};
}

inline std::vector<value> run_row(const row& r) {
  std::vector<value> cold;
  for (int i = 0; i < r.warm_ups; ++i) {
    std::vector<value> values = r.run();
    if (i > 0 || !r.cold_too) continue;
    for (value& v : values) v.name += "_cold";
    cold = std::move(values);
  }
  std::vector<value> all = r.run();
  all.insert(all.end(), cold.begin(), cold.end());
  return all;
}

struct outcome {
  std::vector<value> values;
  std::string note = {};
};

/// main() of such a program. Row is `row` or derived from it; `run(row, processors)` returns an outcome.
template <class Row, class Run>
int row_program(int argc, char** argv, const std::vector<Row>& rows, Run run) {
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const Row& r : rows) std::puts(r.name);
    return 0;
  }
  unsigned processors = 0;
  if (argc == 3) std::from_chars(argv[2], argv[2] + std::strlen(argv[2]), processors);
  if (processors == 0) {
    std::fprintf(stderr, "usage: %s ROW PROCESSORS | --list\n", argv[0]);
    return 2;
  }
  for (const Row& r : rows) {
    if (std::string_view(argv[1]) != r.name) continue;
    const outcome result = run(r, processors);
    for (const value& v : result.values) {
      std::printf("%s %u %.6g %s%s%s\n", v.name.c_str(), processors, v.number, v.unit, result.note.empty() ? "" : " # ",
                  result.note.c_str());
    }
    return 0;
  }
  std::fprintf(stderr, "%s: no such row: %s\n", argv[0], argv[1]);
  return 2;
}

}  // namespace bench
