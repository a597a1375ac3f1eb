// Runs a function under one schedule after another, on the calling thread. It has one scheduler, whose stacks, records
// and timers' memory serve all schedules.
//
// While a schedule runs the thread is the scheduler's only worker, and holds its only processor. Fibers switch to each
// other directly at decisions (decide()) and when they block or end (pick()). The native stack starts fibers that need
// a stack, fires timers, moves time, and sees that nothing is left to run.
//
// A schedule that has failed is ending. The remaining fibers unwind, the deepest first, since they may use what their
// parents' frames hold. Each is cancelled for good when its turn comes. Nothing is recorded any more. A fiber that does
// not end in this way is abandoned, together with the scheduler. The next schedule begins with a new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/explore.hpp>

#include "assertions.hpp"
#include "chooser.hpp"
#include "network.hpp"
#include "sched/explorations.hpp"
#include "sched/overflow.hpp"
#include "sched/scheduler.hpp"
#include "trail.hpp"

namespace coir::inline COIR_ABI::detail {

/// What became of one schedule.
struct outcome {
  failure_kind kind = failure_kind::none;
  std::string what;
  std::vector<choice> choices;
  std::uint64_t steps = 0;
  std::uint32_t check = 0;
  std::string fibers;  // if it was observed and has failed: each that had not ended, and where it stood
  std::string trail;   // if it was observed: the last decisions

  schedule played() const;
};

class engine final : public explorer {
 public:
  explicit engine(const explore_options& o);
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Runs main under the schedule that `how` chooses. The outcome is valid until the next call.
  outcome& run(const std::function<void()>& main, chooser& how, source_location at);

  /// The same, and notes what goes into a report.
  outcome& observe(const std::function<void()>& main, chooser& how, source_location at);

  // ---- explorer
  void can_run(runnable& r) noexcept override;
  runnable* pick() noexcept override;
  void decide(fiber& self, worker& w, operation what, const void* on, bool polled) override;
  std::uint32_t choose(operation what, std::uint32_t n) noexcept override;
  void failed(const std::exception_ptr& error) noexcept override;
  void close_socket(int number) noexcept override;
  bool ending() const noexcept override { return ending_; }
  bool keeps_stack(fiber& of) noexcept override;

  network& simulated_network() noexcept { return network_; }

 private:
  struct world;

  void begin();
  void work(const std::function<void()>& main, source_location at);
  void end();
  bool proceed();
  bool find_deadlock();
  void fire_timer();
  bool timer_due() const noexcept;
  std::uint64_t live() const noexcept;
  void resume(runnable& r);

  std::uint32_t ask(const turn& t) noexcept;
  void note(operation what, std::uint32_t who, std::uint32_t options) noexcept;
  candidate take(std::size_t i) noexcept;
  void preempt(fiber& self, worker& w, runnable* r);

  void fail(failure_kind kind, std::string what);

  // ending.cpp
  void begin_ending();
  runnable* pick_ending() noexcept;
  bool unwind_step();
  void decide_while_ending(fiber& self, worker& w, operation what, bool polled);
  [[noreturn]] void abandon(fiber& self, worker& w);

  const explorations under_way_;
  const signal_stack for_overflows_;
  const std::uint64_t max_steps_;
  assertions assertions_;
  network network_;
  std::unique_ptr<world> world_;
  scheduler* home_ = nullptr;
  worker* worker_ = nullptr;
  processor* processor_ = nullptr;

  // --- of the schedule
  chooser* how_ = nullptr;
  std::vector<candidate> waiting_;  // to run, the longest waiting first
  std::vector<fiber*> kept_;        // free stacks that are not to be used again yet
  std::uint32_t numbers_ = 0;
  std::uint64_t hash_ = 0;
  bool fire_requested_ = false;
  bool ending_ = false;
  bool abandoned_ = false;
  bool observed_ = false;
  std::uint64_t ending_steps_ = 0;
  trail trail_;
  outcome outcome_;
};

}  // namespace coir::detail
