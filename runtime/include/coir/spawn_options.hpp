// Options of a single fiber, given when it is started: coir::go({.name = "reader"}, f), coir::spawn(options, f).
#pragma once

#include <cstddef>
#include <string>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

/// The options of a single fiber.
struct spawn_options {
  /// The fiber's name in reports and dumps; see this_fiber::set_name(). Empty: none.
  std::string name = {};

  /// Size of the fiber's stack, in bytes of address space: 16 KiB to 1 GiB, rounded up to a power of two or to one and
  /// a half of one. A guard comes in addition. Memory is used only as far as the stack was touched. 0: the stack size
  /// of the runtime, options::stack_size, whose stacks are the cheapest.
  std::size_t stack_size = 0;
};

}  // namespace coir
