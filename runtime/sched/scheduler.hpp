// A runtime's scheduler: its processors, workers, queues, and the rules by which they meet. Its member functions are in
// one file for each protocol:
//   scheduler.cpp   making fibers runnable, switching to them, starting and ending them
//   pick.cpp        picking the next fiber
//   park.cpp        sleeping and waking (the park protocol's fiber side)
//   idle.cpp        a worker's life: finding work, going to sleep
//   firing.cpp      firing timers
//   polling.cpp     asking the poller for events
//   wake.cpp        which worker a push wakes
//   steal.cpp       searching and stealing
//   retake.cpp      how a fiber that computes or blocks its thread loses its processor, and goes on without one
//   dump.cpp        the view from outside
//   metrics.cpp     the counters
//   quiescence.cpp  drained, stuck, cancelled: the decisions when nothing runs
// Parts of it own their state and protocol, and open with their invariant:
//   fiber_stacks.hpp       the stacks that its fibers run on
//   idle_set.hpp           idle processors, sleeping workers, and the keeper of the next deadline
//   poller.hpp             the epoll that tells which descriptors are ready
//   monitor.hpp            the thread that looks for work that waits behind a fiber that computes or blocks its thread
//   shared_queues.hpp      work from outside, and work that does not fit the processors' rings
//   worker_supply.hpp      the workers, and the source of more of them
//   waiting_threads.hpp    the plain threads in run() and wait()
//   deadlock_unwinder.hpp  from the suspicion of a deadlock to its end
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/runtime.hpp>

#include "base/clock.hpp"
#include "base/debug_options.hpp"
#include "base/internal_memory.hpp"
#include "fiber/fiber.hpp"
#include "sched/async_list.hpp"
#include "sched/deadlock_unwinder.hpp"
#include "sched/explorer.hpp"
#include "sched/fiber_stacks.hpp"
#include "sched/idle_costs.hpp"
#include "sched/idle_set.hpp"
#include "sched/monitor.hpp"
#include "sched/outside_counts.hpp"
#include "sched/poller.hpp"
#include "sched/processor.hpp"
#include "sched/settlers.hpp"
#include "sched/shared_queues.hpp"
#include "sched/waiting_threads.hpp"
#include "sched/worker.hpp"
#include "sched/worker_supply.hpp"

namespace coir::inline COIR_ABI::detail {

class blocked_watch;

/// In ns: after this time other workers fire the timers of a busy processor. It fires its own, unless it computes. This
/// is not the gap between two bursts (timer_heap.hpp), because a worker that falls asleep beside one burst would wake
/// for the next.
inline constexpr std::int64_t busy_timer_slack = 400'000;

/// The serial number of a new runtime, or of a new schedule.
std::uint64_t new_serial() noexcept;

/// The state of a runtime at one moment. The other members are known only if `holds`.
struct quiescence {
  bool holds = false;       // nothing runs, and nothing waits to run
  bool drained = false;     // no fiber is left
  bool timers = false;      // one is pending
  std::uint64_t epoch = 0;  // changes whenever a processor has been busy
  bool stuck() const noexcept { return holds && !drained && !timers; }
};

class scheduler {
 public:
  enum class role : std::uint8_t {
    ordinary,
    simulated,  // its time is virtual. One processor, and no monitor, which would go by real time.
    explored    // the same, and it has no thread: its one worker is the exploring thread, with the one processor
  };

  scheduler(runtime& owner, const options& o, const debug_options& debug, unsigned processors,
            role as = role::ordinary);
  ~scheduler();  // drained already
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  runtime& owner() noexcept { return owner_; }
  const runtime_clock& clock() const noexcept { return clock_; }
  idle_costs& costs() noexcept { return costs_; }

  fiber_stacks& stacks() noexcept { return stacks_; }

  /// The clock as of a moment ago, for code where reading it would cost too much. The monitor sets it at each look, and
  /// a worker when it wakes. So it stands still while the monitor sleeps.
  std::int64_t coarse_time() const noexcept { return idle_.coarse_time(); }
  void set_coarse_time(std::int64_t time) noexcept { idle_.set_coarse_time(time); }
  unsigned processor_count() const noexcept { return static_cast<unsigned>(processors_.size()); }

  /// Null if it is not explored.
  explorer* explored_by() const noexcept {
    if constexpr (explorable) return explorer_;
    return nullptr;
  }

  /// For virtual time: the fibers that wait until all others are blocked.
  settlers& settling() noexcept { return settling_; }

  /// Processors that have nothing to do. A hint.
  std::uint32_t looking_for_work() const noexcept { return idle_.count() + idle_.searching(); }

  // ---- from fibers and foreign threads
  void start(start_record* r, std::uint8_t least_depth = 0) noexcept;
  void make_ready(fiber& f) noexcept;
  void make_ready(runnable& r) noexcept;  // a fiber whose state says so, or a woken record
  void make_ready_slowly(runnable& r) noexcept;
  void count_started(runnable& r) noexcept;  // one that is alive but in no queue
  async_list& asyncs() noexcept { return asyncs_; }

  /// The poller where its fibers' descriptors are registered. io_waits(): how many fibers wait for a descriptor; exact
  /// when nothing runs.
  poller& io() noexcept { return poller_; }
  void begin_io_wait() noexcept;
  void end_io_wait() noexcept;
  std::uint64_t io_waits() const noexcept;
  bool cancelling() const noexcept { return cancel_all_.load(std::memory_order_relaxed); }
  void cancel_all() noexcept;

  // ---- from a running fiber
  void yield(fiber& f, worker& w) noexcept;

  /// Switches away until the fiber is made ready again. The worker's after-work has been filled in; bracket open at
  /// entry, open on return (of the worker that then runs the fiber).
  void switch_away(fiber& f, worker& w, processor& p) noexcept;

  /// The same for a fiber whose worker has lost its processor: no bracket, before or after.
  void switch_away_without(fiber& f, worker& w) noexcept;
  void end_without(fiber& f, worker& w) noexcept;

  /// For a fiber whose worker has lost its processor, where the fiber may move to another thread. It goes on once it is
  /// on a worker that has a processor, through the injection queue unless a processor is idle.
  void rejoin(fiber& f, worker& w) noexcept;

  /// The worker of the calling fiber gives its processor up, because the fiber is about to block its thread. False: it
  /// has none.
  bool hand_off(worker& w) noexcept;

  /// For a fiber whose worker has no processor: locks a processor that has an owner, and returns it; or gives the
  /// worker an idle one, and returns null.
  processor* borrow(worker& w) noexcept;

  /// Timers of the calling fiber's wait.
  void arm(fiber& f, processor& p, deadline when, std::uint64_t word) noexcept;
  void disarm(fiber& f) noexcept;

  /// A timer of p, which the caller holds. Throws std::bad_alloc.
  timer_node* push_timer(processor& p, deadline when, void (*fire)(void*, std::uint64_t) noexcept, void* arg,
                         std::uint64_t stamp);
  /// Moves a timer that is armed there to another time.
  void move_timer(processor& p, timer_node& n, deadline when) noexcept;

  /// Tells the plain threads that wait, if nothing runs. Called by the last worker to go idle, and by a thread that
  /// cancels the last timer from outside.
  void note_quiescent() noexcept;

  /// From any thread.
  quiescence look() noexcept;

  /// After this, wait_drained() waits for each fiber that a timer still starts. A worker that fires a timer has a
  /// processor. Either it had that processor at the time of look(): then look() does not say `drained` until the worker
  /// sleeps again. Or it got it after that, under the idle set's lock, and then sees closed().
  void close() noexcept { closed_.store(true, std::memory_order_relaxed); }
  bool closed() const noexcept { return closed_.load(std::memory_order_relaxed); }

  /// Visitors are threads and fibers of other runtimes. This runtime is not destroyed before they have gone out. Come
  /// in only while something else keeps it alive.
  void come_in() noexcept { visitors_.fetch_add(1, std::memory_order_relaxed); }
  // release: the last touch; pairs with stop_threads() and ~scheduler()
  void go_out() noexcept { visitors_.fetch_sub(1, std::memory_order_release); }

  /// Different from that of any other runtime in the process, also of those that have ended.
  std::uint64_t serial() const noexcept { return serial_; }

  // ---- from plain threads: blocks until done() holds, taking part in deadlock detection meanwhile
  void wait_until(const std::function<bool()>& done);
  void wait_drained();
  waiting_threads& waiting() noexcept { return waiting_; }
  deadlock_unwinder& deadlocks() noexcept { return deadlocks_; }

  // ---- for views from outside (dump.cpp)

  /// Where the fibers that have not started were spawned, as far as that can be seen; how many more there are.
  struct unstarted_fibers {
    std::vector<source_location> seen;
    std::size_t more = 0;
  };
  unstarted_fibers list_unstarted();

  /// For <coir/metrics.hpp>. From any thread. Throws std::bad_alloc.
  metrics_snapshot snapshot();
  std::uint64_t runs() const noexcept;  // of it, without memory

  // ---- for the monitor
  idle_set& idle() noexcept { return idle_; }
  const std::vector<std::unique_ptr<processor>>& processors() const noexcept { return processors_; }
  shared_queues& queues() noexcept { return queues_; }
  bool wake_one(processor* by, std::uint32_t most = 1) noexcept;
  bool wake_searcher(processor* by) noexcept;
  void ask_poller_from_outside() noexcept;
  bool retake(processor& p, worker& from, std::uint64_t tick) noexcept;

  // ---- for its workers' threads
  void work(worker& w) noexcept;  // idle.cpp

  // ---- for the tracer
  internal_vector<worker*> started_workers();
  unsigned index_of(const worker& w) noexcept;

 private:
  friend struct debug_layout;
  friend class engine;  // of explorations: it does the work of a worker's native stack

  // pick.cpp
  template <bool Yielding>
  runnable* pick_next(worker& w, processor& p, bool& fire) noexcept;
  runnable* pick(worker& w, processor& p) noexcept;
  runnable* pick_out_of_turn(worker& w, processor& p, std::uint64_t tick, bool& fire) noexcept;
  runnable* pick_last(processor& p) noexcept;

  // scheduler.cpp
  void inject(runnable* r) noexcept;
  fiber* stack_for(worker& w, processor& p, runnable* fresh) noexcept;
  fiber& new_stack_for(start_record& fresh) noexcept;
  void switch_away_to(runnable* r, fiber& f, worker& w, processor& p) noexcept;
  void switch_to(worker& w, fiber* from, fiber* to) noexcept;
  void switch_to_fiber(worker& w, fiber& to) noexcept;  // from the native stack
  void after_switch(worker& w, machine_context left) noexcept;
  // Called by assembly, which link-time optimization does not see.
  [[gnu::used]] static void first_entry(arrival from) asm("coir_stack_entry");
  void run_fiber(fiber& self);
  [[noreturn]] void stack_main(fiber& self);

  // idle.cpp
  runnable* find_work(worker& w) noexcept;
  bool release_and_sleep(worker& w) noexcept;
  bool sleep_until_assigned(worker& w, bool last = false) noexcept;
  bool sleep(worker& w) noexcept;
  bool advance_time(worker& w) noexcept;
  bool take_idle_processor(worker& w) noexcept;
  bool end_surplus(worker& w) noexcept;

  // steal.cpp
  runnable* search(worker& w) noexcept;
  runnable* steal_from(worker& w, processor& victim) noexcept;
  runnable* keep_loot(worker& w, runnable** loot, std::uint32_t n) noexcept;
  void note_useless_wake(processor* woken_by) noexcept;
  void stop_searching(worker& w, std::uint32_t more = 0) noexcept;
  bool work_visible() noexcept;

  // wake.cpp
  struct taken_worker {
    worker* who = nullptr;
    bool new_thread = false;
    bool in_poller = false;
  };
  void offer(processor& p) noexcept;
  void offer_next(worker& w, processor& p) noexcept;
  taken_worker take_sleeper() noexcept;
  bool start_taken(taken_worker taken, processor& p) noexcept;
  void wake_monitor() noexcept { monitor_.wake(costs_); }

  // firing.cpp
  bool timers_due(const worker& w, const processor& p) const noexcept;
  bool run_due_timers(worker& w) noexcept;
  void fire_all(processor& p, deadline time) noexcept;
  deadline deadline_for_sleepers() const noexcept;

  // polling.cpp
  bool sleep_in_poller(worker& w, deadline until) noexcept;
  bool ask_poller(worker& w) noexcept;
  int room_for_events(const processor& p) noexcept;
  bool sleeps_for_next_event(const worker& w) const noexcept;
  bool deliver(worker& w, const poller::batch& events) noexcept;
  void deliver_from_outside(const poller::batch& events) noexcept;

  // park.cpp
  void timer_is_visible() noexcept;

  // retake.cpp
  bool take_idle_for(worker& w) noexcept;
  processor* enter_or_take(worker& w) noexcept;
  bool sleep_as_spare(worker& w) noexcept;

  void stop_threads() noexcept;  // runtime.cpp

  runtime& owner_;
  const debug_options debug_;
  std::uint64_t serial_;  // of an explored one, another one for each schedule
  runtime_clock clock_;

  fiber_stacks stacks_;
  std::vector<std::unique_ptr<processor>> processors_;
  worker_supply workers_;

  shared_queues queues_;
  outside_counts outside_;
  std::atomic<std::uint32_t> visitors_{0};  // foreign threads that are inside inject(), or have cancelled a timer
  std::atomic<bool> cancel_all_{false};
  std::atomic<bool> closed_{false};
  async_list asyncs_;
  std::atomic<bool> stopping_{false};

  idle_set idle_;
  idle_costs costs_;
  poller poller_;

  waiting_threads waiting_;
  deadlock_unwinder deadlocks_;
  settlers settling_;
  const role role_;
  explorer* explorer_ = nullptr;

  monitor monitor_;
  std::unique_ptr<blocked_watch> blocked_watch_;  // of COIR_DEBUG=blocked
};

}  // namespace coir::detail
