// The monitor: a thread that looks, now and then, whether work waits behind a fiber that computes on and on, or that
// blocks its thread. It wakes an idle worker that takes the work, or it retakes the processor (retake.cpp). It is what
// makes the thrifty wake rules of idle.cpp safe.
//
// It also finds overdue timers: the sleeper that kept their deadline was woken for something else, or the fiber of
// their processor computes.
//
// A processor that picks (its tick moves) is fine. If its tick stands still from one look to the next, while something
// waits behind it, its thread decides:
//   its CPU clock   and the kernel says             judgement
//   stands still    it sleeps                       blocked
//   stands still    it sleeps uninterruptibly       blocked if that lasts for soon_over: it may be a page fault
//   stands still    it is runnable                  merely descheduled: nobody's fault, left alone
//   has moved                                       computing; for long if by options::time_slice at this tick, or by
//                                                   pushing_slices of them if the fiber keeps starting or waking
//                                                   others, which costs more without a processor
// And that decides, together with what is idle:
//   a processor and a CPU      a worker is woken, which takes the work, as soon as the tick stands still
//   a processor, but no CPU    blocked, or computing for long: the processor is retaken. Computing for holding_up: a
//                              worker is woken, unless there is already one more for each processor so held up
//   no processor               blocked, or computing for long: the processor is retaken
//
// At each look it also asks busy processors for attention to what has waited there since the look before (pick.cpp).
//
// It also makes sure that the poller is asked (poller.hpp) while fibers wait for descriptors and no worker sleeps
// there.
//
// It looks every delay_if_waiting while something has waited since the last look or a timer is overdue. It looks once
// more after smallest_delay if that work waits beside an idle processor, and more often while something is suspicious.
// Each look costs some 20 us of CPU. So looks that find nothing become rarer, up to longest_delay: at light load they
// would otherwise be a tenth of all the CPU time. Looks at queues that all move become rarer too (delay_if_flowing): at
// full load they would otherwise be a twentieth. The price is that, at full load, a fiber that begins to block its
// thread, or to keep others from running, is found after 1.6 to 3.2 ms instead of 0.4 to 0.8. After a look that found
// nothing, the kernel may end the wait later, by `lax`, so that the look wakes no CPU that sleeps. But no look comes
// later than delay_if_waiting after the next timer, known at the last look, that no sleeper wakes for.
//
// It sleeps on word_ while all processors are idle and stay so; monitor_sleeps is then set in idle_. It is woken by a
// thread that
//   - leaves work on a processor, or arms a timer there, without waking a worker;
//   - goes idle while another processor is busy;
//   - takes the sleeper that had the timeout for the next timer;
// (COIR_DEBUG=schedtrace also wakes it for each line);
// so nothing can wait for it while it sleeps.
//
// Invariant: while word_ is `asleep` and monitor_sleeps is set in idle_, all processors are idle and nothing lies in a
// shared queue, or a thread that has changed this is about to call wake(). States of word_:
//   polling -> asleep    the monitor, when all has been quiet time and again
//   asleep  -> polling   wake(), or the monitor itself
//   any     -> ending    stop()
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

#include "base/debug_options.hpp"
#include "sched/slow_slice.hpp"

namespace coir::inline COIR_ABI::detail {

struct idle_costs;
class processor;
class scheduler;
class worker;

class monitor {
 public:
  /// `born`: when the runtime began. The constructor allocates all memory that the monitor needs, because its thread
  /// could not report that there is none.
  monitor(std::size_t processors, std::int64_t time_slice, const debug_options& debug, std::int64_t born)
      : time_slice_(time_slice),
        schedtrace_(debug.schedtrace),
        born_(born),
        seen_(processors),
        slow_(debug.slowslice, processors) {}

  /// Throws std::system_error.
  void start(scheduler& s);
  void stop() noexcept;  // if it has been started

  /// Called by a thread that leaves something behind that only the monitor would find. A load if the monitor is awake.
  void wake(idle_costs& costs) noexcept;

 private:
  enum word : std::uint32_t { polling, asleep, ending };

  /// The state of a processor at the last look.
  struct watch {
    worker* who = nullptr;
    std::uint64_t tick = 0;
    std::uint32_t fresh_head = 0;
    std::uint32_t ready_head = 0;
    std::uint32_t yielded_head = 0;
    std::uint64_t begun = 0;
    std::uint32_t pushed = 0;    // moves with each push
    std::int64_t cpu = -1;       // of the thread, at the last look; -1: not known
    std::int64_t cpu_first = 0;  // when this tick was first seen
    std::int64_t cpu_push = 0;   // when the last push was seen, since then
    std::int64_t since = 0;      // the time when this tick was first seen
  };

  /// What waits in the shared queues, at one look.
  struct shared_work {
    bool any;       // of any kind
    bool spilled;   // fresh ones
    bool spilling;  // and more of them than at the last look
  };

  enum class finding { nothing, flowing, waiting, idle_beside, suspicious, stale };

  void run(scheduler& s) noexcept;
  bool all_quiet(scheduler& s) const noexcept;
  std::int64_t trim_stacks(scheduler& s, std::int64_t last, std::int64_t time) noexcept;
  finding look(scheduler& s) noexcept;
  finding watch_poller(scheduler& s) noexcept;
  static bool ask_attention(processor& p, const watch& last, const watch& current, const shared_work& shared,
                            bool due) noexcept;
  deadline print_schedtrace(scheduler& s);  // schedtrace.cpp

  const std::int64_t time_slice_;
  const std::int64_t schedtrace_;  // ns between two lines; 0: none
  const std::int64_t born_;
  std::atomic<std::uint32_t> word_{polling};
  std::thread thread_;

  // --- of its thread
  std::vector<watch> seen_;
  std::size_t spilled_before_ = 0;         // fresh ones, at the last look
  deadline timer_ = no_deadline;           // the next one that no sleeper wakes for, as of the last look
  std::uint64_t poller_asked_before_ = 0;  // how often, as of the last look
  bool events_wanted_ = false;             // because no thread had asked the poller
  bool asked_unbidden_ = false;            // a worker had, without having been told to, at the last look
  std::uint64_t runs_before_ = 0;          // fibers that had been picked by then
  slow_slices slow_;
  std::uint64_t retaken_before_ = 0;  // at the last line of schedtrace
};

}  // namespace coir::detail
