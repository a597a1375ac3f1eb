// The last steps of a schedule, for its report: each decision with the call of the program that it stood before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>

#include "chooser.hpp"
#include "source_lines.hpp"

namespace coir::inline COIR_ABI::detail {

struct fiber;
class scheduler;

class trail {
 public:
  void clear() noexcept;

  /// By the fiber, on its stack.
  void add(const fiber& f, operation what, const void* on);
  void branch(const fiber& f, operation what, std::uint32_t taken, std::uint32_t options);

  /// At the last decision another fiber went on.
  void preempted() noexcept {
    if (!steps_.empty()) steps_.back().preempted = true;
  }

  /// The schedule has failed: notes the fibers that have not ended. `waiting`: those that wait to run.
  void note_fibers(scheduler& home, const std::vector<candidate>& waiting);

  /// Each of them, what it waits on, and its stack at its last decision; and the last decisions, a line each.
  std::string fibers() const;
  std::string text() const;

 private:
  static constexpr std::size_t length = 30;
  static constexpr int depth = 32;

  struct step {
    std::uint64_t fiber = 0;
    operation what{};
    const void* on = nullptr;
    std::uint32_t taken = 0;
    std::uint32_t options = 0;  // 0: it was no branch
    bool preempted = false;
    call_addresses calls;
  };

  step& append(const fiber& f, operation what, const void* on);

  std::deque<step> steps_;
  std::map<std::uint64_t, call_addresses> last_calls_;  // of each fiber
  std::vector<std::pair<std::uint64_t, std::string>> fibers_;
};

/// "send", for reports.
const char* name_of(operation what) noexcept;

}  // namespace coir::detail
