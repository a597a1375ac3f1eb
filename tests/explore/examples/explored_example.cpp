// One program of examples/ under many schedules: it ends without an exception, a deadlock or a fiber left behind in
// each. What it prints is of no interest here. The linker puts this main() before the program's (--wrap=main).
#include <iostream>

#include <fcntl.h>
#include <unistd.h>

#include <coir/explore.hpp>

extern "C" {        // the linker's names
int __real_main();  // NOLINT(bugprone-reserved-identifier)
int __wrap_main();  // NOLINT(bugprone-reserved-identifier)
}

int __wrap_main() {
  const int silent = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (silent < 0 || ::dup2(silent, STDOUT_FILENO) < 0) return 2;
  bool failed = false;
  for (const auto strategy : {coir::pct(3), coir::random_walk()}) {
    const coir::exploration e =
        coir::explore({.schedules = 1'000, .strategy = strategy, .seed = 1}, [] { static_cast<void>(__real_main()); });
    if (!e) std::cerr << e << '\n';
    failed = failed || !e;
  }
  return failed ? 1 : 0;
}
