#include "backtrace.hpp"

#include <execinfo.h>
#include <unistd.h>

namespace coir::detail {

namespace {

constexpr int most_frames = 48;

}  // namespace

// The first backtrace() of a process loads a library, with locks and heap.
void prepare_backtrace() noexcept {
  void* frame[1];
  ::backtrace(frame, 1);
}

[[gnu::noinline]] void write_backtrace() noexcept {
  void* frames[most_frames];
  const int n = ::backtrace(frames, most_frames);
  if (n > 1) ::backtrace_symbols_fd(frames + 1, n - 1, STDERR_FILENO);  // without this function
  if (n == most_frames) (void)!::write(STDERR_FILENO, "...\n", 4);
}

}  // namespace coir::detail
