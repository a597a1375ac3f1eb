// What cannot be thrown: a message on stderr that a person can act on, then the end of the process.
#pragma once

#include <exception>
#include <sstream>
#include <string>

namespace coir::detail {

struct fiber;

/// "coir: fatal: ..." and abort(). For broken invariants and failures with nobody to tell; present in every build.
[[noreturn]] void fatal_message(const std::string& message) noexcept;

template <class... Parts>
[[noreturn]] void fatal(const Parts&... parts) noexcept {
  std::ostringstream out;
  (out << ... << parts);
  fatal_message(out.str());
}

/// An invariant that must hold in every build.
inline void require(bool holds, const char* what) noexcept {
  if (!holds) [[unlikely]]
    fatal("broken invariant: ", what);
}

/// "fiber 7 "name", spawned at main.cpp:12"
std::string describe(const fiber& f);

/// What an exception says: its type and what().
std::string describe(const std::exception_ptr& error);

}  // namespace coir::detail
