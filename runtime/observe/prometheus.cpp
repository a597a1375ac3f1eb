// The Prometheus text exposition format: each metric once, with its HELP and TYPE, its samples together.
#include <array>
#include <cstdio>
#include <ostream>
#include <sstream>
#include <string_view>

#include <coir/detail/abi.hpp>
#include <coir/metrics.hpp>

namespace coir::inline COIR_ABI {

namespace {

/// A counter that each processor has. What the total has beyond their sum happened without a processor.
struct processor_counter {
  std::string_view name;
  std::string_view help;
  std::uint64_t processor_metrics::* of_processor;
  std::uint64_t metrics_snapshot::* total;
};

struct processor_gauge {
  std::string_view name;
  std::string_view help;
  std::size_t processor_metrics::* of_processor;
};

struct single_gauge {
  std::string_view name;
  std::string_view help;
  std::size_t metrics_snapshot::* value;
};

struct single_counter {
  std::string_view name;
  std::string_view help;
  std::uint64_t metrics_snapshot::* value;
};

constexpr std::array processor_counters = {
    processor_counter{"coir_fiber_runs_total", "Times a fiber was given a processor.", &processor_metrics::runs,
                      &metrics_snapshot::runs},
    processor_counter{"coir_fibers_started_total", "Fibers spawned.", &processor_metrics::started,
                      &metrics_snapshot::started},
    processor_counter{"coir_fibers_ended_total", "Fibers ended.", &processor_metrics::ended, &metrics_snapshot::ended},
    processor_counter{"coir_fiber_parks_total", "Times a fiber blocked.", &processor_metrics::parked,
                      &metrics_snapshot::parked},
    processor_counter{"coir_steals_total", "Times a processor took fibers from another.", &processor_metrics::steals,
                      &metrics_snapshot::steals},
    processor_counter{"coir_fibers_stolen_total", "Fibers taken from another processor.", &processor_metrics::stolen,
                      &metrics_snapshot::stolen},
    processor_counter{"coir_processor_retakes_total", "Times a processor was retaken from a fiber that did not let go.",
                      &processor_metrics::retaken, &metrics_snapshot::retaken},
    processor_counter{"coir_processor_handoffs_total", "Times coir::blocking() gave a processor up.",
                      &processor_metrics::handed_off, &metrics_snapshot::handed_off},
};

constexpr std::array processor_gauges = {
    processor_gauge{"coir_ready_fibers", "Runnable fibers queued that have run before.", &processor_metrics::ready},
    processor_gauge{"coir_fresh_fibers", "Fibers queued that have not started.", &processor_metrics::fresh},
    processor_gauge{"coir_next_fibers", "Fibers that run when the running one blocks.", &processor_metrics::next},
    processor_gauge{"coir_timers", "Pending timers.", &processor_metrics::timers},
    processor_gauge{"coir_cached_stacks", "Free stacks kept for a processor.", &processor_metrics::cached_stacks},
};

constexpr std::array single_gauges = {
    single_gauge{"coir_processors_idle", "Processors that no thread has.", &metrics_snapshot::idle},
    single_gauge{"coir_threads_searching", "Threads that look for work.", &metrics_snapshot::searching},
    single_gauge{"coir_threads", "Threads that run fibers or sleep.", &metrics_snapshot::threads},
    single_gauge{"coir_threads_running", "Threads that have a processor.", &metrics_snapshot::running},
    single_gauge{"coir_threads_asleep", "Threads that wait for a processor.", &metrics_snapshot::asleep},
    single_gauge{"coir_threads_lost", "Threads whose fiber goes on without a processor.", &metrics_snapshot::lost},
    single_gauge{"coir_injected_fibers", "Runnable fibers queued from outside.", &metrics_snapshot::injected_queue},
    single_gauge{"coir_spilled_ready_fibers", "Ready fibers beyond the processors' queues.",
                 &metrics_snapshot::spilled_ready},
    single_gauge{"coir_spilled_fresh_fibers", "Unstarted fibers beyond the processors' queues.",
                 &metrics_snapshot::spilled_fresh},
    single_gauge{"coir_stacks", "Stacks made.", &metrics_snapshot::stacks},
    single_gauge{"coir_stacks_free", "Stacks not in use.", &metrics_snapshot::free_stacks},
};

constexpr std::array single_counters = {
    single_counter{"coir_injected_total", "Fibers made runnable from outside.", &metrics_snapshot::injected},
    single_counter{"coir_wakes_total", "Threads woken to look for work.", &metrics_snapshot::wakes},
    single_counter{"coir_useless_wakes_total", "Threads woken that found no work.", &metrics_snapshot::useless_wakes},
    single_counter{"coir_searches_total", "Times a thread looked for work.", &metrics_snapshot::searches},
    single_counter{"coir_monitor_looks_total", "Times the monitor looked at all processors.", &metrics_snapshot::looks},
    single_counter{"coir_polls_total", "Times the kernel was asked which descriptors are ready.",
                   &metrics_snapshot::polls},
    single_counter{"coir_futex_calls_total", "Futex calls of the scheduler.", &metrics_snapshot::futex_calls},
    single_counter{"coir_membarriers_total", "Memory barriers on all processors.", &metrics_snapshot::membarriers},
};

void describe(std::ostream& out, std::string_view name, std::string_view help, std::string_view type) {
  out << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << type << '\n';
}

void write_latency(std::ostream& out, const latency_histogram& h) {
  constexpr std::string_view name = "coir_wake_latency_seconds";
  describe(out, name, "From being woken to running (a sample).", "histogram");
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i + 1 < latency_histogram::buckets; ++i) {
    cumulative += h.counts[i];
    char bound[32];
    std::snprintf(bound, sizeof bound, "%.9g", static_cast<double>(latency_histogram::bound(i).count()) / 1e9);
    out << name << "_bucket{le=\"" << bound << "\"} " << cumulative << '\n';
  }
  char sum[32];
  std::snprintf(sum, sizeof sum, "%.9f", static_cast<double>(h.sum.count()) / 1e9);
  out << name << "_bucket{le=\"+Inf\"} " << h.count() << '\n'
      << name << "_sum " << sum << '\n'
      << name << "_count " << h.count() << '\n';
}

}  // namespace

void write_prometheus(std::ostream& out, const metrics_snapshot& m) {
  describe(out, "coir_processors", "Processors of the runtime.", "gauge");
  out << "coir_processors " << m.processors.size() << '\n';
  describe(out, "coir_fibers", "Fibers spawned and not ended.", "gauge");
  out << "coir_fibers " << m.live << '\n';
  for (const processor_counter& c : processor_counters) {
    describe(out, c.name, c.help, "counter");
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < m.processors.size(); ++i) {
      const std::uint64_t n = m.processors[i].*c.of_processor;
      sum += n;
      out << c.name << "{processor=\"" << i << "\"} " << n << '\n';
    }
    out << c.name << "{processor=\"none\"} " << m.*c.total - sum << '\n';
  }
  for (const single_counter& c : single_counters) {
    describe(out, c.name, c.help, "counter");
    out << c.name << ' ' << m.*c.value << '\n';
  }
  for (const processor_gauge& g : processor_gauges) {
    describe(out, g.name, g.help, "gauge");
    for (std::size_t i = 0; i < m.processors.size(); ++i)
      out << g.name << "{processor=\"" << i << "\"} " << m.processors[i].*g.of_processor << '\n';
  }
  for (const single_gauge& g : single_gauges) {
    describe(out, g.name, g.help, "gauge");
    out << g.name << ' ' << m.*g.value << '\n';
  }
  write_latency(out, m.wake_latency);
}

std::string prometheus(const metrics_snapshot& m) {
  std::ostringstream out;
  write_prometheus(out, m);
  return std::move(out).str();
}

}  // namespace coir
