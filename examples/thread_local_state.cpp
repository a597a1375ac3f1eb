// A thread_local variable belongs to a thread, not to a fiber: many fibers share it, and a fiber that blocks may go on
// on another thread. So what a fiber stored there before a blocking call may be gone after it. This program shows the
// trap, and the cures: keep what belongs to the fiber in the fiber, and read errno at once, by a function. See
// docs/thread-local-storage.md.
#include <cerrno>
#include <iostream>
#include <system_error>
#include <vector>

#include <fcntl.h>

#include <coir/runtime.hpp>
#include <coir/this_fiber.hpp>

namespace {

thread_local int current_request = 0;

// ThreadSanitizer finds the trap, and rightly calls it a data race between fibers; this program is to run all the same.
__attribute__((no_sanitize("thread"))) bool keeps_request_in_thread_local(int number);

/// The trap. Whether the request is still the same after a blocking call.
bool keeps_request_in_thread_local(int number) {
  current_request = number;
  coir::yield();  // others run on this thread meanwhile, and this fiber may go on on another
  return current_request == number;
}

struct request {
  int number;
};

/// The cure: the request is the fiber's own, and what needs it is handed it.
bool keeps_request_in_fiber(const request& r, int number) {
  coir::yield();
  return r.number == number;
}

int failures(bool (*keeps)(int)) {
  std::vector<coir::task<bool>> fibers;
  for (int i = 1; i <= 100; ++i) fibers.push_back(coir::spawn([=] { return keeps(i); }));
  int failed = 0;
  for (auto& fiber : fibers) failed += fiber.get() ? 0 : 1;
  return failed;
}

/// errno of the last system call. A plain `errno` may be that of the thread that this fiber was on an hour ago: the
/// compiler keeps its address over blocking calls. This is never inlined, and its calls are never merged, so it asks
/// anew.
[[gnu::noinline]] int last_error() {
  asm volatile("" ::: "memory");
  return errno;
}

int open_error() {
  const int fd = ::open("/there/is/no/such/file", O_RDONLY);
  const int error = fd < 0 ? last_error() : 0;  // now, not after the next line
  coir::yield();
  return error;
}

}  // namespace

int main() {
  coir::run([] {
    int failed = 0;
    while (failed == 0) failed = failures(keeps_request_in_thread_local);  // how many depends on who ran where
    std::cout << "in a thread_local: mixed up\n";

    failed = failures([](int number) {
      const request mine{number};
      return keeps_request_in_fiber(mine, number);
    });
    std::cout << "in the fiber: " << failed << " mixed up\n";

    std::cout << "open: " << std::generic_category().message(open_error()) << '\n';
  });
}
