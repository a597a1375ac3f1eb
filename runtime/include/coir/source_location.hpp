// Where a fiber was spawned. Clang 14 with libstdc++ 12 lacks std::source_location, so this class does the same with
// the compiler's builtins. As a default argument, current() names the caller.
#pragma once

#include <cstdint>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

/// A place in the source, as std::source_location, for compilers that do not have it.
class source_location {
 public:
  constexpr source_location() = default;
  /// That place. `file` must live as long as this does.
  constexpr source_location(const char* file, std::uint32_t line) : file_(file), line_(line) {}

  /// The place where it is called, or where a default argument is used.
  static constexpr source_location current(const char* file = __builtin_FILE(), std::uint32_t line = __builtin_LINE()) {
    return {file, line};
  }

  /// The name of the file.
  constexpr const char* file_name() const noexcept { return file_; }
  /// The number of the line, from 1.
  constexpr std::uint32_t line() const noexcept { return line_; }

 private:
  const char* file_ = "?";
  std::uint32_t line_ = 0;
};

}  // namespace coir
