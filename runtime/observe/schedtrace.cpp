// COIR_DEBUG=schedtrace=MS: a line about the scheduler on stderr every MS milliseconds, written by the monitor, which
// then does not sleep longer than to the next line. Off, it costs a comparison in each of the monitor's rounds.
#include <cstdio>
#include <string>

#include <coir/detail/abi.hpp>
#include <coir/metrics.hpp>

#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

// By the monitor. Returns when the next line is due.
deadline monitor::print_schedtrace(scheduler& s) {
  const metrics_snapshot m = s.snapshot();
  const std::uint64_t retaken = m.retaken + m.handed_off;
  const std::int64_t time = s.clock().now();
  char text[512];
  std::snprintf(text, sizeof text,
                "coir: %lldms: processors=%zu idle=%zu threads=%zu asleep=%zu searching=%zu lost=%zu retaken=+%llu "
                "fibers=%llu injected=%zu spilled=%zu timers=%zu queues=[",
                static_cast<long long>((time - born_) / 1'000'000), m.processors.size(), m.idle, m.threads, m.asleep,
                m.searching, m.lost, static_cast<unsigned long long>(retaken - retaken_before_),
                static_cast<unsigned long long>(m.live), m.injected_queue, m.spilled_ready + m.spilled_fresh, m.timers);
  std::string line = text;
  for (std::size_t i = 0; i < m.processors.size(); ++i) {
    const processor_metrics& p = m.processors[i];
    if (i != 0) line += ' ';
    line += std::to_string(p.ready + p.next + p.fresh);
  }
  line += "]\n";
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  retaken_before_ = retaken;
  return time + schedtrace_;
}

}  // namespace coir::detail
