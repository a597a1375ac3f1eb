#include "sched/deadlock_end.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include <coir/detail/abi.hpp>

#include "base/report.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

std::atomic<std::terminate_handler> handler_before{nullptr};

[[noreturn]] void report_and_terminate() {
  // The program may have installed a handler that chains to this one, and then this one again. The two would call each
  // other.
  static thread_local bool entered = false;
  if (std::exchange(entered, true)) std::abort();
  if (const fiber* f = current_fiber(); f != nullptr && f->in_deadlock) {
    if (const auto report = f->home->deadlocks().report()) {
      std::fprintf(stderr, "coir: %s\ncoir: unwinding it ends the process, where nothing may be thrown, in %s\n",
                   report->c_str(), describe(*f).c_str());
      std::fflush(stderr);
    }
  }
  // acquire: pairs with the release in report_deadlock_before_terminate(). The handler may use what the thread that
  // installed it has made.
  if (const std::terminate_handler handler = handler_before.load(std::memory_order_acquire)) handler();
  std::abort();
}

}  // namespace

void report_deadlock_before_terminate() noexcept {
  const std::terminate_handler replaced = std::set_terminate(&report_and_terminate);
  if (replaced != &report_and_terminate) handler_before.store(replaced, std::memory_order_release);
}

}  // namespace coir::detail
