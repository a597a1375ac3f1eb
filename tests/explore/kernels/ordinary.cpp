// Runs kernels as ordinary programs, on all processors, and counts how often the bug shows.
//
//   coir_kernels_ordinary --list            name, tab, what is wrong; a kernel a line
//   coir_kernels_ordinary NAME N [mended]   how many of N runs have failed
//
// Each run is a process of its own, since an exception of a fiber ends the process. A run that takes longer than ten
// seconds has failed, too.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <coir/coir.hpp>

#include "kernels.hpp"

namespace {

/// So that the threads of all processors are awake.
void warm_up() {
  coir::wait_group fibers;
  for (int i = 0; i < 16; ++i)
    fibers.go([] {
      for (int turn = 0; turn < 100; ++turn) coir::yield();
    });
  fibers.wait();
}

/// In a child process.
[[noreturn]] void run_once(void (*program)()) {
  ::alarm(10);
  std::set_terminate([] { ::_exit(1); });
  try {
    coir::run([program] {
      warm_up();
      program();
    });
  } catch (const std::exception&) {
    ::_exit(1);
  }
  ::_exit(0);
}

/// Throws if there can be no process, or if it has crashed: no kernel does.
bool fails(void (*program)()) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork has failed");
  if (child == 0) run_once(program);
  int status = 0;
  if (::waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid has failed");
  if (WIFEXITED(status)) return WEXITSTATUS(status) != 0;
  if (WTERMSIG(status) == SIGALRM) return true;
  throw std::runtime_error("a run has ended by signal " + std::to_string(WTERMSIG(status)));
}

int list() {
  for (const kernels::kernel& k : kernels::table()) std::cout << k.name << '\t' << k.bug << '\n';
  return 0;
}

int count(std::string_view name, int runs, bool mended) {
  for (const kernels::kernel& k : kernels::table()) {
    if (k.name != name) continue;
    int failed = 0;
    for (int i = 0; i < runs; ++i) failed += fails(mended ? k.mended : k.broken) ? 1 : 0;
    std::cout << failed << '\n';
    return 0;
  }
  std::cerr << "no kernel has this name: " << name << '\n';
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--list") return list();
  if (argc == 3 || (argc == 4 && std::string_view(argv[3]) == "mended"))
    return count(argv[1], std::atoi(argv[2]), argc == 4);
  std::cerr << "usage: coir_kernels_ordinary --list | NAME N [mended]\n";
  return 2;
}
