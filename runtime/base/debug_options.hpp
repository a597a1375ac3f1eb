// COIR_DEBUG: what the runtime is to watch or print, as a comma-separated list of name=value. It is read when a runtime
// is constructed. An option is a member here and a row of the table in debug_options.cpp; nothing else looks at the
// variable.
//
//   blocked=MS       reports fibers that are blocked for MS milliseconds, with their stacks (0: never)
//   heldlock=1       reports fibers that hold a lock of the operating system while they park (lockcheck/)
//   slowslice=MS     reports fibers that keep a processor for MS milliseconds, with a backtrace (0: never)
//   stackuse=1       measures how much of their stacks fibers use (<coir/stack_use.hpp>)
//   schedtrace=MS    the monitor prints a line about the scheduler to stderr every MS milliseconds (0: never)
#pragma once

#include <cstdint>
#include <string_view>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

struct debug_options {
  std::int64_t blocked = 0;     // ns; 0: none
  std::int64_t heldlock = 0;    // 1: reported
  std::int64_t schedtrace = 0;  // ns between two lines; 0: none
  std::int64_t slowslice = 0;   // ns; 0: none
  std::int64_t stackuse = 0;    // 1: measured

  /// Throws std::invalid_argument, which names the option that is unknown or out of range.
  static debug_options parse(std::string_view text);

  /// Of COIR_DEBUG; all off if it is not set.
  static debug_options from_environment();
};

}  // namespace coir::detail
