// close(), dup2() and dup3(). Fibers that wait for a number that is closed are woken and try their calls again. They
// get EBADF, or go on with the file that has the number then.
//
// They are woken twice. Before the close, because only then can the kernel be told to watch the file no longer, which
// may stay open under another number. After it, because another fiber may have begun to wait in between. A fiber whose
// call has just said EAGAIN, and that has not begun to wait yet, tries again too: another file may have got the number
// already.
#include <fcntl.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "original.hpp"
#include "runtime_link.hpp"

namespace coir::inline COIR_ABI::hooks {

namespace {

constinit original<int(int)> libc_close{"close"};
constinit original<int(int, int)> libc_dup2{"dup2"};
constinit original<int(int, int, int)> libc_dup3{"dup3"};

[[gnu::constructor]] void find_all() {
  libc_close.find();
  libc_dup2.find();
  libc_dup3.find();
}

void abandon(int fd) noexcept {
  const hook_services* const runtime = any_runtime();
  if (runtime == nullptr) return;
  const int before = errno;
  runtime->abandon(fd);
  errno = before;
}

/// f() gives the number another file, unless it fails.
template <class F>
int replace(int from, int to, F f) {
  const bool closes = from != to && ::fcntl(from, F_GETFD) >= 0;
  if (closes) abandon(to);
  const int r = f();
  if (closes) abandon(to);
  return r;
}

}  // namespace

}  // namespace coir::hooks

using namespace coir::hooks;

#pragma GCC visibility push(default)
extern "C" {

int close(int fd) {
  abandon(fd);
  const int r = libc_close(fd);
  abandon(fd);
  return r;
}

int dup2(int from, int to) noexcept {
  return replace(from, to, [&] { return libc_dup2(from, to); });
}

int dup3(int from, int to, int flags) noexcept {
  return replace(from, to, [&] { return libc_dup3(from, to, flags); });
}

}  // extern "C"
#pragma GCC visibility pop
