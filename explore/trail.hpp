// What a schedule did last, for its report: each decision with the call of the program that it stood before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <coir/detail/decision.hpp>

#include "chooser.hpp"

namespace coir::detail {

struct fiber;
class scheduler;

class trail {
 public:
  void clear() noexcept { steps_.clear(); }

  /// By the fiber, on its stack.
  void add(const fiber& f, operation what, const void* on);
  void branch(const fiber& f, operation what, std::uint32_t taken, std::uint32_t options);

  /// At the last one another fiber went on.
  void preempted() noexcept {
    if (!steps_.empty()) steps_.back().preempted = true;
  }

  /// A line each, the last decision last.
  std::string text() const;

 private:
  static constexpr std::size_t length = 30;
  static constexpr std::size_t depth = 32;

  struct step {
    std::uint64_t fiber;
    operation what;
    const void* on;
    std::uint32_t taken = 0;
    std::uint32_t options = 0;  // 0: it was no branch
    bool preempted = false;
    std::array<void*, depth> calls{};
    std::size_t call_count = 0;
  };

  step& append(const fiber& f, operation what, const void* on);

  std::deque<step> steps_;
};

/// "send", for reports.
const char* name_of(operation what) noexcept;

/// Each fiber that has not ended: where it was spawned, whether it is blocked and on what, its stack.
std::string list_fibers(scheduler& home, const std::vector<candidate>& waiting);

}  // namespace coir::detail
