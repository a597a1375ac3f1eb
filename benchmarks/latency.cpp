// coir's rows of latency, for the comparison with Go; row_program.hpp says how it is called. Each gives the median, the
// 99th percentile and the maximum of many times, and the CPU time for each of them where it says something.
#include <functional>
#include <string>
#include <vector>

#include <coir/runtime.hpp>

#include "row_program.hpp"
#include "workloads/heartbeats.hpp"
#include "workloads/late.hpp"
#include "workloads/latency.hpp"
#include "workloads/release.hpp"
#include "workloads/request.hpp"

namespace {

using namespace bench;

struct latency_row {
  const char* name;
  std::function<latency()> run;
};

std::vector<latency_row> all_rows() {
  return {
      {"late_sleep", late_sleep},   {"late_injected", late_injected}, {"late_handoff", late_handoff},
      {"release_one", release_one}, {"release_three", release_three}, {"request", request},
      {"heartbeats", heartbeats},
  };
}

outcome figures(const std::string& row, const latency& measured) {
  const samples& times = measured.times;
  outcome result;
  const auto add = [&](const char* what, double number) { result.values.push_back({row + what, number, "us"}); };
  add("_p50", times.quantile(0.5));
  add("_p99", times.quantile(0.99));
  add("_max", times.quantile(1));
  if (measured.cpu > seconds{}) add("_cpu", microseconds(measured.cpu).count() / static_cast<double>(times.size()));
  if (times.size() < times.wanted()) result.note = std::to_string(times.size()) + " samples";
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  return row_program(argc, argv, all_rows(), [](const latency_row& r, unsigned processors) {
    coir::options options;
    options.processors = processors;
    return figures(r.name, coir::run(options, r.run));
  });
}
