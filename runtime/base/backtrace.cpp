#include "base/backtrace.hpp"

#include <algorithm>
#include <cstring>

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "base/raw_calls.hpp"

namespace coir::inline COIR_ABI::detail {

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
  if (n == most_frames) (void)!raw_write(STDERR_FILENO, "...\n", 4);
}

bool called_from_exit() noexcept {
  void* frames[most_frames];
  const int n = ::backtrace(frames, most_frames);
  return std::any_of(frames, frames + n, [](void* address) {
    Dl_info found;
    // A return address may lie behind the end of a function that does not return.
    return ::dladdr(static_cast<char*>(address) - 1, &found) != 0 && found.dli_sname != nullptr &&
           std::strcmp(found.dli_sname, "exit") == 0;
  });
}

}  // namespace coir::detail
