// Options of a single fiber, given when it is started: coir::go({.name = "reader"}, f), coir::spawn(options, f).
#pragma once

#include <cstddef>
#include <string>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

struct spawn_options {
  /// Shows in reports and dumps; see this_fiber::set_name(). Empty: none.
  std::string name = {};

  /// The fiber's stack, in bytes of address space; 16 KiB to 1 GiB, rounded up to a power of two or one and a half of
  /// one. A guard comes in addition. Memory is used as far as it was touched. 0: that of the runtime,
  /// options::stack_size, whose stacks are the cheapest to have.
  std::size_t stack_size = 0;
};

}  // namespace coir
