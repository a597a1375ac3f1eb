// A runtime's scheduler: its processors, workers, queues, and the rules by which they meet. What it does is spread over
// one file a protocol:
//   scheduler.cpp   picking the next fiber, switching to it, starting and ending fibers
//   park.cpp        sleeping and waking (the park protocol's fiber side)
//   idle.cpp        a worker's life: timers, going to sleep, being woken
//   steal.cpp       searching and stealing
//   monitor.cpp     the thread that looks for work that waits while workers sleep
//   quiescence.cpp  drained, deadlocked, cancelled: what is decided when nothing runs
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <coir/runtime.hpp>

#include "clock.hpp"
#include "fiber.hpp"
#include "injection_queue.hpp"
#include "processor.hpp"
#include "spill_queue.hpp"
#include "stack_pool.hpp"
#include "worker.hpp"

namespace coir::detail {

/// In ns: a busy processor fires its own timers, unless it computes so long beyond the deadline.
inline constexpr std::int64_t busy_timer_slack = 500'000;

class scheduler {
 public:
  scheduler(runtime& owner, const options& o, unsigned processors);
  ~scheduler();  // drained already
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  runtime& owner() noexcept { return owner_; }
  const runtime_clock& clock() const noexcept { return clock_; }
  unsigned processor_count() const noexcept { return static_cast<unsigned>(processors_.size()); }

  // ---- from fibers and foreign threads
  void start(start_record* r) noexcept;
  void make_ready(fiber& f) noexcept;
  void cancel_all() noexcept;

  // ---- from a running fiber
  void yield(fiber& f, worker& w) noexcept;

  /// Switches away until the fiber is made ready again. The worker's after-work has been filled in; bracket open at
  /// entry, open on return (of the worker that then runs the fiber).
  void switch_away(fiber& f, worker& w, processor& p) noexcept;

  /// Timers of the calling fiber's wait.
  void arm(fiber& f, processor& p, deadline when, std::uint64_t word);
  void disarm(fiber& f) noexcept;

  // ---- from plain threads: blocks until done() holds, taking part in deadlock detection meanwhile
  void wait_until(const std::function<bool()>& done);
  void notify_waiters() noexcept;
  void wait_drained();
  bool drained() noexcept;

  /// The report of a deadlock that has been unwound; empty if there was none. take_deadlock() gives it away.
  std::string take_deadlock();
  std::string deadlock_report();

  /// If quiescent and without timers: a number that changes whenever a processor gets busy.
  std::optional<std::uint64_t> quiescent_epoch() noexcept;

 private:
  // scheduler.cpp
  template <bool Yielding>
  runnable* pick_next(worker& w, processor& p) noexcept;
  runnable* pick(worker& w, processor& p) noexcept;
  bool timers_due(const worker& w, const processor& p) const noexcept;
  runnable* pick_rare(processor& p, std::uint32_t tick) noexcept;
  runnable* pick_injected(processor& p) noexcept;
  runnable* pick_spilled_fresh(processor& p) noexcept;
  bool fetch_ready(processor& p) noexcept;
  void inject(runnable* r) noexcept;
  void push_ready(processor& p, runnable* r) noexcept;
  void push_fresh(processor& p, runnable* r) noexcept;
  void spill_ready(processor& p) noexcept;
  void spill_fresh(processor& p) noexcept;
  fiber* stack_for(worker& w, processor& p, runnable* fresh) noexcept;
  fiber* new_stack();
  void retire_stack(processor& p, fiber& f) noexcept;
  void switch_away_to(runnable* r, fiber& f, worker& w, processor& p) noexcept;
  void switch_to(worker& w, fiber* from, fiber* to) noexcept;
  void switch_to_fiber(worker& w, fiber& to) noexcept;  // from the native stack
  void after_switch(worker& w, context left) noexcept;
  static void first_entry(arrival from) noexcept;
  void run_fiber(fiber& self) noexcept;
  [[noreturn]] void stack_main(fiber& self) noexcept;

  // idle.cpp
  void work(worker& w) noexcept;
  runnable* find_work(worker& w) noexcept;
  runnable* search(worker& w) noexcept;
  runnable* steal_from(worker& w, processor& victim) noexcept;
  runnable* keep_loot(worker& w, runnable** loot, std::uint32_t n) noexcept;
  void run_due_timers(worker& w) noexcept;
  void fire_all(processor& p, deadline time) noexcept;
  void stop_searching(bool found, bool woken) noexcept;
  void stop_searching_found(worker& w) noexcept;
  bool release_and_sleep(worker& w) noexcept;
  bool sleep_until_assigned(worker& w) noexcept;
  bool nothing_shared() const noexcept { return injected_.empty() && spilled_ready_.empty() && spilled_fresh_.empty(); }
  bool work_visible() noexcept;
  void offer(processor& p) noexcept;
  void wake_one() noexcept;
  bool take_idle_processor(worker& w) noexcept;
  void hand_over(processor& p, worker& w) noexcept;
  void start_thread(worker& w);
  void stop_threads() noexcept;
  void publish_idle_deadline() noexcept;

  // monitor.cpp
  void monitor() noexcept;
  void wake_monitor() noexcept;
  bool find_stale(std::vector<victim_sample>& last) noexcept;

  // quiescence.cpp
  void note_quiescent() noexcept;
  std::int64_t live_fibers() noexcept;
  bool quiescent_locked() noexcept;
  bool timers_pending_locked() noexcept;
  bool stuck() noexcept;
  bool unwind_deadlock();
  std::string list_blocked();

  runtime& owner_;
  runtime_clock clock_;
  stack_pool pool_;
  std::vector<std::unique_ptr<processor>> processors_;
  std::vector<std::unique_ptr<worker>> workers_;  // one for each processor; threads start on demand

  injection_queue injected_;   // from foreign threads
  spill_queue spilled_ready_;  // what overflowed a ring
  spill_queue spilled_fresh_;
  std::atomic<std::uint64_t> started_outside_{0};
  std::atomic<std::uint32_t> visitors_{0};  // foreign threads that are inside inject()
  std::atomic<bool> cancel_all_{false};
  std::atomic<bool> stopping_{false};

  // --- idle protocol (idle.cpp): read by every push, written rarely
  alignas(64) std::atomic<std::uint32_t> idle_{0};  // processors without a worker; written under idle_lock_
  std::atomic<std::uint32_t> searching_{0};
  std::atomic<deadline> idle_deadline_{no_deadline};  // earliest timer of the idle processors

  alignas(64) spin_lock idle_lock_;  // lock order: before processor::lock_ and the injection queue's
  std::vector<processor*> idle_processors_;
  std::vector<worker*> sleepers_;
  worker* keeper_ = nullptr;  // the sleeper that has a timeout
  deadline keeper_deadline_ = no_deadline;
  std::uint64_t busy_epoch_ = 0;  // counts processors leaving the idle list; for quiescence.cpp

  // --- plain threads in run() or wait() (quiescence.cpp)
  std::atomic<std::uint32_t> event_{0};
  std::atomic<std::uint32_t> waiters_{0};
  std::atomic<std::uint32_t> watching_{0};
  std::mutex deadlock_lock_;
  std::string deadlock_report_;

  // --- monitor (monitor.cpp)
  std::atomic<std::uint32_t> monitor_word_{0};
  std::thread monitor_thread_;
};

}  // namespace coir::detail
