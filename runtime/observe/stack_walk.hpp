// Finds the calls on the copy of a suspended stack, by libunwind. Without it (or on another machine than x86-64) it
// finds none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <coir/detail/abi.hpp>

#include "observe/fiber_snapshot.hpp"

namespace coir::inline COIR_ABI::detail {

/// Where each call goes on, the innermost first.
struct call_stack {
  std::vector<std::uintptr_t> addresses;
  bool whole = false;  // down to the fiber's first call
};

class unwinder {
 public:
  unwinder();
  ~unwinder();
  unwinder(const unwinder&) = delete;
  unwinder& operator=(const unwinder&) = delete;

  static bool available() noexcept;

  /// Reads nothing but the copy and the program's files, so the copy may be wrong.
  call_stack unwind(const stack_copy& stack);

  /// "name(parameters)+0x1b [program+0x11b]": demangled, with where it lies in its file.
  const std::string& describe(std::uintptr_t address);

  /// Removes the runtime's frames at either end, so that the user's own call comes first.
  void trim(std::vector<std::uintptr_t>& addresses);

 private:
  struct space;
  std::unique_ptr<space> space_;
  std::map<std::uintptr_t, std::pair<std::string, std::string>> names_;  // the symbol, and the description

  const std::pair<std::string, std::string>& look_up(std::uintptr_t address);
};

}  // namespace coir::detail
