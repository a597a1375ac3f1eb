// Failures that cannot be thrown: a message on stderr that a person can act on, then the end of the process.
#pragma once

#include <exception>
#include <ostream>
#include <streambuf>
#include <string>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// A stream to stderr, whose text begins with "coir: fatal: ". It allocates no memory, since there may be none.
class fatal_report : public std::ostream {
 public:
  fatal_report();
  [[noreturn]] void end() noexcept;

 private:
  class buffer : public std::streambuf {
   public:
    buffer() noexcept { setp(text_, text_ + sizeof text_); }

   private:
    int_type overflow(int_type c) override;
    int sync() override;

    char text_[1024];
  };

  buffer buffer_;
};

/// "coir: fatal: ..." and abort(). For broken invariants and failures that cannot be reported to a caller. Present in
/// every build.
template <class... Parts>
[[noreturn]] void fatal(const Parts&... parts) noexcept {
  fatal_report out;
  (static_cast<std::ostream&>(out) << ... << parts);
  out.end();
}

/// An invariant that must hold in every build.
inline void require(bool holds, const char* what) noexcept {
  if (!holds) [[unlikely]]
    fatal("broken invariant: ", what);
}

/// What an exception says: its type and what().
std::string describe(const std::exception_ptr& error);

/// A demangled name without the inline namespace, which is no part of the names that users know.
std::string without_abi(std::string name);

}  // namespace coir::detail
