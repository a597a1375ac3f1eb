// Counters and gauges of a runtime, for dashboards and for finding out why a program is slow.
//
//   std::string page = coir::prometheus(coir::metrics());             // in a fiber: of its runtime
//   const coir::metrics_snapshot now = rt.metrics();                  // from any thread, of the runtime rt
//   if (now.wake_latency.quantile(0.99) > 5ms) ...
//
// Counters only grow. They are exact once nothing runs. While fibers run, a snapshot is approximate, because its
// numbers are read one after the other. Taking a snapshot stops no fiber, and takes some microseconds.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/runtime.hpp>

namespace coir::inline COIR_ABI {

/// How long woken fibers waited until they ran. It counts a sample of the wake-ups. Fibers that had not started yet are
/// not included.
struct latency_histogram {
  static constexpr std::size_t buckets = 26;  ///< how many buckets there are

  /// The longest latency that bucket i counts: 256 ns << i. The last bucket also counts all longer latencies.
  static constexpr std::chrono::nanoseconds bound(std::size_t i) {
    return std::chrono::nanoseconds(std::int64_t{256} << i);
  }

  /// The bucket that counts a latency of `ns` nanoseconds.
  static constexpr std::size_t bucket_of(std::int64_t ns) {
    if (ns <= 256) return 0;
    const auto i = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(ns - 1) >> 8));
    return i < buckets ? i : buckets - 1;
  }

  /// How many wake-ups were sampled.
  std::uint64_t count() const noexcept;

  /// The bound of the bucket in which the q-th part of the samples is reached. q is clamped to 0 to 1. Zero if there
  /// are no samples.
  std::chrono::nanoseconds quantile(double q) const noexcept;

  /// Adds the samples of another histogram.
  latency_histogram& operator+=(const latency_histogram& other) noexcept;

  std::array<std::uint64_t, buckets> counts{};  ///< of each bucket alone
  std::chrono::nanoseconds sum{0};              ///< of all sampled latencies
};

/// The numbers of one processor. What fibers do without a processor is counted only in the totals of metrics_snapshot.
struct processor_metrics {
  // --- counters
  std::uint64_t runs = 0;          ///< how often a fiber got the processor
  std::uint64_t started = 0;       ///< fibers spawned here
  std::uint64_t ended = 0;         ///< fibers that ended here
  std::uint64_t parked = 0;        ///< how often a fiber blocked here
  std::uint64_t steals = 0;        ///< how often this processor took fibers from another one
  std::uint64_t stolen = 0;        ///< how many fibers it took
  std::uint64_t retaken = 0;       ///< how often the monitor took it from a fiber that computed or blocked its thread
  std::uint64_t handed_off = 0;    ///< how often coir::blocking() gave the processor up
  latency_histogram wake_latency;  ///< of woken fibers that then ran here

  // --- gauges
  bool idle = false;              ///< no thread has the processor
  std::size_t ready = 0;          ///< fibers in its queue that were woken or have yielded
  std::size_t fresh = 0;          ///< fibers in its queue that have not started
  std::size_t next = 0;           ///< 1 if a fiber is to run as soon as the running one blocks; else 0
  std::size_t timers = 0;         ///< pending timers
  std::size_t cached_stacks = 0;  ///< free stacks that are kept for this processor
};

/// The numbers of a runtime.
struct metrics_snapshot {
  std::vector<processor_metrics> processors;  ///< the numbers of each processor

  // --- counters: sums over the processors, and what happened without a processor
  std::uint64_t runs = 0;           ///< how often a fiber got a processor
  std::uint64_t started = 0;        ///< fibers spawned
  std::uint64_t ended = 0;          ///< fibers that ended
  std::uint64_t parked = 0;         ///< how often a fiber blocked
  std::uint64_t steals = 0;         ///< how often a processor took fibers from another one
  std::uint64_t stolen = 0;         ///< how many fibers they took
  std::uint64_t retaken = 0;        ///< how often the monitor took a processor from a fiber
  std::uint64_t handed_off = 0;     ///< how often coir::blocking() gave a processor up
  std::uint64_t injected = 0;       ///< fibers made runnable from outside: by plain threads, other runtimes, or a fiber
                                    ///< without a processor
  std::uint64_t wakes = 0;          ///< how often a thread was woken to look for work
  std::uint64_t useless_wakes = 0;  ///< of these, how often the thread found none
  std::uint64_t searches = 0;       ///< how often a thread without work looked for some
  std::uint64_t looks = 0;          ///< how often the monitor looked at all processors
  std::uint64_t polls = 0;          ///< how often the kernel was asked which descriptors are ready
  std::uint64_t futex_calls = 0;    ///< by threads that fell asleep, by their wakers, and by the monitor
  std::uint64_t membarriers = 0;    ///< by threads that fell asleep, by thieves, and by the monitor
  latency_histogram wake_latency;   ///< of the fibers of all processors

  // --- gauges
  std::uint64_t live = 0;          ///< fibers that were spawned and have not ended
  std::size_t idle = 0;            ///< processors that no thread has
  std::size_t searching = 0;       ///< threads that look for work
  std::size_t threads = 0;         ///< threads that run fibers or sleep until needed; the sum of the next three
  std::size_t running = 0;         ///< threads that have a processor
  std::size_t asleep = 0;          ///< threads that wait for a processor
  std::size_t lost = 0;            ///< threads whose fiber goes on without a processor
  std::size_t injected_queue = 0;  ///< runnable fibers that came from outside
  std::size_t spilled_ready = 0;   ///< woken or yielded fibers that did not fit into a processor's queue
  std::size_t spilled_fresh = 0;   ///< fibers that have not started and did not fit into a processor's queue
  std::size_t ready = 0;           ///< woken or yielded fibers in the queues of the processors
  std::size_t fresh = 0;           ///< fibers in these queues that have not started
  std::size_t next = 0;            ///< processors with a fiber that is to run as soon as the running one blocks
  std::size_t timers = 0;          ///< pending timers of the processors
  std::size_t stacks = 0;          ///< stacks ever made
  std::size_t free_stacks = 0;     ///< free ones among them, including those kept for a processor
};

/// The numbers of the calling fiber's runtime. Outside a fiber, use runtime::metrics(). Does not block. Throws
/// not_in_runtime outside a fiber, and std::bad_alloc.
metrics_snapshot metrics();

/// Formats the numbers in the Prometheus text exposition format, version 0.0.4 (Content-Type: text/plain;
/// version=0.0.4). All names begin with coir_. A number of one processor has a label `processor`. It is "none" for what
/// happened without a processor.
std::string prometheus(const metrics_snapshot& m);
/// Writes what prometheus() returns.
void write_prometheus(std::ostream& out, const metrics_snapshot& m);

}  // namespace coir
