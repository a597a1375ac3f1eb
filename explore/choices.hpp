// The choices that make a schedule, and its text. "x1/98/3.1+17.2/5f3a09c1" says: of 98 choices the third (counted from
// 0) was 1, and the 17th after it 2; all others were 0; then comes the check sum of what the program did. 0 is the
// choice that changes least: the running fiber goes on, else the one that has waited longest. So a shrunk schedule is
// short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>

namespace coir::inline COIR_ABI::detail {

/// A choice as it was made. Where there was only one possibility nothing is recorded.
struct choice {
  std::uint32_t taken;
  std::uint32_t options;
  /// An exhaustive search does not try the last option, which is the fiber that yields.
  bool yields : 1;
  /// Each option but the first is a preemption: the running fiber could go on.
  bool preempts : 1;

  /// How many options an exhaustive search tries.
  std::uint32_t tried() const noexcept { return yields ? options - 1 : options; }
  bool is_preemption() const noexcept { return preempts && taken != 0; }
};

struct schedule {
  std::vector<std::uint32_t> taken;  // without trailing zeros, perhaps
  std::uint64_t count = 0;           // of choices
  std::uint32_t check = 0;

  std::string text() const;

  /// Throws std::invalid_argument.
  static schedule parse(std::string_view text);
};

}  // namespace coir::detail
