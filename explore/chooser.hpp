// The source of a schedule's choices: a strategy (strategies.hpp), or a schedule that is played again.
#pragma once

#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>

#include "choices.hpp"

namespace coir::inline COIR_ABI::detail {

struct runnable;

/// A runnable that waits to run.
struct candidate {
  runnable* who;
  std::uint32_t number;  // counts the fibers of a schedule, from 1 for main
};

/// What may happen next. Options, in this order: the running fiber, if it can go on and does not yield; the waiting
/// ones, the longest waiting first; the timer that is due; the running fiber, if it yields.
struct turn {
  static constexpr std::uint32_t timer_number = 0;  // stands for the timer among fibers' numbers

  const candidate* waiting;
  std::uint32_t waiting_count;
  std::uint32_t running;  // its number
  bool can_go_on;
  bool yields;
  bool timer;

  std::uint32_t options() const noexcept { return waiting_count + (timer ? 1U : 0U) + (can_go_on ? 1U : 0U); }

  /// Which fiber option i is.
  std::uint32_t number(std::uint32_t i) const noexcept {
    if (can_go_on && !yields && i-- == 0) return running;
    if (i < waiting_count) return waiting[i].number;
    return timer && i == waiting_count ? timer_number : running;
  }
};

class chooser {
 public:
  virtual ~chooser() = default;

  /// Chooses one of at least two options.
  virtual std::uint32_t choose(const turn& t) = 0;

  /// Makes the program's own choice, or chooses which of several equals comes first.
  virtual std::uint32_t choose_branch(std::uint32_t n) = 0;

  /// Whether a fault that may happen happens (1).
  virtual std::uint32_t choose_fault() { return choose_branch(2); }

  /// A fiber of that number, one more than the last one's, can run.
  virtual void begins(std::uint32_t /*number*/) {}

  /// It yields, or polls in vain.
  virtual void yields(std::uint32_t /*number*/) {}
};

}  // namespace coir::detail
