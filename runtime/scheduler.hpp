// A runtime's scheduler: its processors, workers, queues, and the rules by which they meet. What it does is spread over
// one file a protocol:
//   scheduler.cpp   making fibers runnable, switching to them, starting and ending them
//   pick.cpp        picking the next fiber
//   park.cpp        sleeping and waking (the park protocol's fiber side)
//   idle.cpp        a worker's life: timers, going to sleep, being woken
//   steal.cpp       searching and stealing
//   monitor.cpp     the thread that looks for work that waits, behind a fiber that computes or blocks its thread
//   retake.cpp      how such a fiber's worker loses its processor, and what its fiber does without one
//   dump.cpp        what is to be seen of it all from outside
//   metrics.cpp     what has been counted; schedtrace.cpp prints it
//   quiescence.cpp  drained, deadlocked, cancelled: what is decided when nothing runs
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <coir/runtime.hpp>

#include "async_list.hpp"
#include "blocked_watch.hpp"
#include "clock.hpp"
#include "debug_options.hpp"
#include "fiber.hpp"
#include "injection_queue.hpp"
#include "processor.hpp"
#include "slow_slice.hpp"
#include "spill_queue.hpp"
#include "stack_pool.hpp"
#include "worker.hpp"

namespace coir::detail {

/// What the monitor saw of a processor when it last looked.
struct watch {
  worker* who = nullptr;
  std::uint64_t tick = 0;
  std::uint32_t fresh_head = 0;
  std::uint32_t ready_head = 0;
  std::uint32_t pushed = 0;    // moves with each push
  std::int64_t cpu = -1;       // of the thread, at the last look; -1: not known
  std::int64_t cpu_first = 0;  // when this tick was first seen
  std::int64_t cpu_push = 0;   // when the last push was seen, since then
  std::int64_t since = 0;      // the time when this tick was first seen
};

/// In ns, after which others fire the timers of a busy processor: it fires its own, unless it computes. Not the gap
/// between two bursts (timer_heap.hpp): who goes to sleep beside one burst would wake just for the next.
inline constexpr std::int64_t busy_timer_slack = 400'000;

class scheduler {
 public:
  scheduler(runtime& owner, const options& o, const debug_options& debug, unsigned processors);
  ~scheduler();  // drained already
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  runtime& owner() noexcept { return owner_; }
  const runtime_clock& clock() const noexcept { return clock_; }
  std::size_t guard_size() const noexcept { return pool_.guard_size(); }

  /// The clock as of a moment ago, where reading it would cost too much: set by the monitor at each look, and by a
  /// worker when it wakes. So it stands still while the monitor sleeps: while a fiber computes that nothing waits for.
  std::int64_t coarse_time() const noexcept { return coarse_time_.load(std::memory_order_relaxed); }
  void set_coarse_time(std::int64_t time) noexcept { coarse_time_.store(time, std::memory_order_relaxed); }
  unsigned processor_count() const noexcept { return static_cast<unsigned>(processors_.size()); }

  // ---- from fibers and foreign threads
  void start(start_record* r, std::uint8_t least_depth = 0) noexcept;
  void make_ready(fiber& f) noexcept;
  void make_ready(runnable& r) noexcept;     // a fiber whose state says so, or a woken record
  void count_started(runnable& r) noexcept;  // one that is alive but in no queue
  async_list& asyncs() noexcept { return asyncs_; }
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

  /// For a fiber whose worker has lost its processor, where it may move to another thread: goes on once it is on a
  /// worker that has one, through the injection queue unless a processor is idle.
  void rejoin(fiber& f, worker& w) noexcept;

  /// The worker of the calling fiber gives its processor up, for the fiber is about to block its thread. False: it has
  /// none.
  bool hand_off(worker& w) noexcept;

  /// Locks some processor that has an owner, for a fiber whose worker has none; or gives its worker an idle one (null).
  processor* borrow(worker& w) noexcept;

  /// Timers of the calling fiber's wait.
  void arm(fiber& f, processor& p, deadline when, std::uint64_t word) noexcept;
  void disarm(fiber& f) noexcept;

  /// A timer of p, which the caller holds. Throws std::bad_alloc.
  timer_node* push_timer(processor& p, deadline when, void (*fire)(void*, std::uint64_t) noexcept, void* arg,
                         std::uint64_t stamp);
  /// One that is armed there, to another time.
  void move_timer(processor& p, timer_node& n, deadline when) noexcept;

  /// Tells the plain threads that wait, if nothing runs: after what made this runtime drained or stuck.
  void note_quiescent() noexcept;

  /// No timer starts a fiber any more that wait_drained(), called after this, does not wait for. For a worker that
  /// fires one either has its processor, so that drained() does not hold until it sleeps again, or gets it, under
  /// idle_lock_, after drained() has looked, and then sees closed().
  void close() noexcept { closed_.store(true, std::memory_order_relaxed); }
  bool closed() const noexcept { return closed_.load(std::memory_order_relaxed); }

  /// Visitors, who are no fibers of this runtime: it does not go before they have gone out. Come in only while
  /// something else keeps it from going.
  void come_in() noexcept { visitors_.fetch_add(1, std::memory_order_relaxed); }
  // release: the last touch; pairs with stop_threads() and ~scheduler()
  void go_out() noexcept { visitors_.fetch_sub(1, std::memory_order_release); }

  /// Told from any other in the process, dead ones too.
  std::uint64_t serial() const noexcept { return serial_; }

  // ---- from plain threads: blocks until done() holds, taking part in deadlock detection meanwhile
  void wait_until(const std::function<bool()>& done);
  void notify_waiters() noexcept;
  void wait_drained();
  bool drained() noexcept;

  /// The report of a deadlock that has been unwound; null if there was none. take_deadlock() gives it away.
  std::shared_ptr<const std::string> take_deadlock() noexcept;
  std::shared_ptr<const std::string> deadlock_report() noexcept;

  /// If quiescent and without timers: a number that changes whenever a processor gets busy.
  std::optional<std::uint64_t> quiescent_epoch() noexcept;

  // ---- for those who look at it from outside (dump.cpp)

  /// The control block of every stack, in use or free. They are there as long as the runtime.
  std::vector<fiber*> stacks() { return pool_.fibers(); }

  /// Where the fibers that have not started were spawned, as far as that can be seen; how many more there are.
  struct unstarted_fibers {
    std::vector<source_location> seen;
    std::size_t more = 0;
  };
  unstarted_fibers list_unstarted();

  /// For <coir/metrics.hpp>. From any thread. Throws std::bad_alloc.
  metrics_snapshot snapshot();
  std::uint64_t runs() const noexcept;  // of it, without memory

  // ---- for the tracer
  std::vector<worker*> started_workers();
  unsigned index_of(const worker& w) noexcept;

 private:
  friend struct debug_layout;

  // pick.cpp
  template <bool Yielding>
  runnable* pick_next(worker& w, processor& p) noexcept;
  runnable* pick(worker& w, processor& p) noexcept;
  bool timers_due(const worker& w, const processor& p) const noexcept;
  runnable* pick_rare(processor& p, std::uint64_t tick) noexcept;
  std::size_t fresh_count(const processor& p) const noexcept;
  void watch_fresh(processor& p, std::uint64_t tick, std::int64_t time) noexcept;
  runnable* pick_held_up(processor& p) noexcept;
  runnable* pick_injected(processor& p) noexcept;
  runnable* pick_spilled_fresh(processor& p) noexcept;
  bool fetch_ready(processor& p) noexcept;
  void push_ready(processor& p, runnable* r) noexcept;
  void push_fresh(processor& p, runnable* r) noexcept;
  void spill_ready(processor& p) noexcept;
  void spill_fresh(processor& p) noexcept;

  // scheduler.cpp
  void inject(runnable* r) noexcept;
  void inject_own(fiber& f) noexcept;
  fiber* stack_for(worker& w, processor& p, runnable* fresh) noexcept;
  fiber& new_stack_for(start_record& fresh) noexcept;
  fiber* new_stack();
  void retire_stack(processor* p, fiber& f) noexcept;
  void switch_away_to(runnable* r, fiber& f, worker& w, processor& p) noexcept;
  void switch_to(worker& w, fiber* from, fiber* to) noexcept;
  void switch_to_fiber(worker& w, fiber& to) noexcept;  // from the native stack
  void after_switch(worker& w, context left) noexcept;
  static void first_entry(arrival from) noexcept;
  void run_fiber(fiber& self) noexcept;
  [[noreturn]] void stack_main(fiber& self) noexcept;

  [[gnu::cold]] void observe_wake(worker& w, processor* held, runnable& r) noexcept;
  [[gnu::cold]] void note_runnable(fiber& f) noexcept;
  [[gnu::cold]] fiber* note_running(processor& p, runnable* r) noexcept;

  // idle.cpp
  void work(worker& w) noexcept;
  runnable* find_work(worker& w) noexcept;
  runnable* search(worker& w) noexcept;
  runnable* steal_from(worker& w, processor& victim) noexcept;
  runnable* keep_loot(worker& w, runnable** loot, std::uint32_t n) noexcept;
  bool run_due_timers(worker& w) noexcept;
  void fire_all(processor& p, deadline time) noexcept;
  void widen_wake_gaps(const processor* but = nullptr) noexcept;
  void stop_searching(bool found, bool woken) noexcept;
  void stop_searching_found(worker& w) noexcept;
  bool release_and_sleep(worker& w) noexcept;
  bool sleep_until_assigned(worker& w) noexcept;
  bool sleep_as_spare(worker& w) noexcept;
  bool nothing_shared() const noexcept { return injected_.empty() && spilled_ready_.empty() && spilled_fresh_.empty(); }
  bool work_visible() noexcept;
  void offer(processor& p) noexcept;
  void wake_one() noexcept;
  void wake_searcher() noexcept;
  bool take_idle_processor(worker& w) noexcept;
  void hand_over(processor& p, worker& w) noexcept;
  void end_keeping(const worker& w) noexcept;
  worker* take_sleeper(bool& new_thread) noexcept;
  bool start_taken(worker& w, processor& p, bool new_thread) noexcept;
  bool end_surplus(worker& w) noexcept;
  std::unique_ptr<worker> make_worker();
  void start_thread(worker& w);
  void report_once(const std::exception& e) noexcept;
  void stop_threads() noexcept;
  void publish_idle_deadline() noexcept;
  deadline deadline_for_sleepers() const noexcept;

  // monitor.cpp
  void monitor() noexcept;
  void wake_monitor() noexcept;
  enum class finding { nothing, suspicious, stale };
  finding look_after(std::vector<watch>& seen, slow_slices& slow) noexcept;
  static void mark_overdue(processor& p) noexcept;
  bool all_quiet() noexcept;
  std::int64_t trim_stacks(std::int64_t last, std::int64_t time) noexcept;
  bool waits_behind(processor& p, deadline time) const noexcept;
  std::uint32_t idle_count() const noexcept { return idle_.load(std::memory_order_relaxed) & idle_mask; }

  deadline print_schedtrace();  // schedtrace.cpp

  // park.cpp
  void timer_is_visible() noexcept;

  // retake.cpp
  bool retake(processor& p, worker& from, std::uint64_t tick) noexcept;
  bool take_idle_for(worker& w) noexcept;
  void share_all(processor& p) noexcept;
  processor* enter_or_take(worker& w) noexcept;

  // quiescence.cpp
  std::int64_t live_fibers() noexcept;
  bool quiescent_locked() noexcept;
  bool timers_pending_locked() noexcept;
  bool stuck() noexcept;
  struct unwinding;
  struct end_unwinding {
    void operator()(unwinding* u) const noexcept;
  };
  using unwinding_ptr = std::unique_ptr<unwinding, end_unwinding>;
  unwinding_ptr note_sleepers();
  bool unwinds();
  bool unwind_deadlock();
  void begin_unwinding(unwinding_ptr noted, std::shared_ptr<const std::string> report) noexcept;
  deadline continue_unwinding() noexcept;
  void unwind_step(bool all) noexcept;
  std::string list_blocked();

  runtime& owner_;
  const debug_options debug_;
  const std::uint64_t serial_;
  runtime_clock clock_;
  const std::int64_t born_ = clock_.now();
  stack_pool pool_;
  std::vector<std::unique_ptr<processor>> processors_;
  std::vector<std::unique_ptr<worker>> workers_;  // under idle_lock_; at first one for each processor, their threads
                                                  // start on demand

  injection_queue injected_;   // from foreign threads
  spill_queue spilled_ready_;  // what overflowed a ring
  spill_queue spilled_fresh_;
  std::atomic<std::uint64_t> started_outside_{0};  // by who has no processor
  std::atomic<std::uint64_t> ended_outside_{0};
  std::atomic<std::uint64_t> parked_outside_{0};
  std::atomic<std::uint64_t> injected_count_{0};
  std::atomic<std::uint32_t> visitors_{0};  // foreign threads that are inside inject(), or have cancelled a timer
  std::atomic<bool> cancel_all_{false};
  std::atomic<bool> closed_{false};
  async_list asyncs_;
  std::atomic<bool> stopping_{false};

  // --- idle protocol (idle.cpp): read by every push, written rarely
  // Processors without a worker, written under idle_lock_; plus monitor_sleeps while it does, so that one load tells
  // whether a push has somebody to tell.
  static constexpr std::uint32_t monitor_sleeps = 1U << 16;
  static constexpr std::uint32_t idle_mask = monitor_sleeps - 1;
  alignas(64) std::atomic<std::uint32_t> idle_{0};
  std::atomic<std::uint32_t> searching_{0};
  std::atomic<deadline> idle_deadline_{no_deadline};  // earliest timer of the idle processors
  std::atomic<std::int64_t> coarse_time_{0};

  alignas(64) spin_lock idle_lock_;  // lock order: before processor::lock_ and the injection queue's
  std::vector<processor*> idle_processors_;
  std::vector<worker*> sleepers_;
  worker* keeper_ = nullptr;  // the sleeper with the next deadline as its timeout
  deadline keeper_deadline_ = no_deadline;
  counter busy_epoch_;      // (any) counts processors leaving the idle list
  std::uint32_t lost_ = 0;  // workers that run a fiber without a processor
  std::atomic<bool> thread_failure_reported_{false};
  const std::size_t max_threads_;
  const std::int64_t time_slice_;

  // --- plain threads in run() or wait() (quiescence.cpp)
  std::atomic<std::uint32_t> event_{0};
  std::atomic<std::uint32_t> waiters_{0};
  std::atomic<std::uint32_t> watching_{0};
  std::mutex deadlock_lock_;
  std::shared_ptr<const std::string> deadlock_report_;
  unwinding_ptr unwinding_;  // guarded by the registry's lock
  std::atomic<bool> is_unwinding_{false};

  // --- monitor (monitor.cpp)
  std::atomic<std::uint32_t> monitor_word_{0};
  std::vector<watch>
      seen_;  // the next two are its own, made before its thread, which could not say that it has no memory
  slow_slices slow_;
  std::thread monitor_thread_;
  std::unique_ptr<blocked_watch> blocked_watch_;  // of COIR_DEBUG=blocked
  std::uint64_t schedtrace_retaken_ = 0;          // at the last line; of the monitor
};

}  // namespace coir::detail
