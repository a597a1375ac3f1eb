// A primitive is destroyed while fibers wait on it. They would go on to use memory that is gone. So the process ends
// here, with a report of the waiters. There are two exceptions, in which the process ends or unwinds for another
// reason:
//   - exit() destroys static objects while other threads may go on. The waiters then wait for good.
//   - A deadlock is unwound. All fibers of a depth wake at once, and each may find objects in the others' frames
//     destroyed. The deadlock is reported instead.
#include <sstream>
#include <string>
#include <string_view>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/stackless.hpp>

#include "base/backtrace.hpp"
#include "base/report.hpp"
#include "base/sanitizer.hpp"
#include "fiber/fiber.hpp"
#include "fiber/waiter_access.hpp"

namespace coir::inline COIR_ABI::detail {

[[gnu::cold]] void destroyed_with_waiters(std::string_view what, const void* object, spin_lock& lock,
                                          std::initializer_list<const wait_queue*> queues) noexcept {
  if (called_from_exit()) return;
  std::ostringstream out;
  bool in_deadlock = true;
  lock.lock();
  for (const wait_queue* queue : queues) {
    for (const wait_node* n = queue->front(); n != nullptr; n = n->next) {
      waiter& w = *n->who;
      out << "\n  ";
      if (waiter_access::is_fiber(w)) {
        fiber& f = fiber_of(w);
        tsan_acquire(&f);
        out << describe(f) << ": " << f.why.what;
        in_deadlock = in_deadlock && f.in_deadlock;
      } else if (waiter_access::is_stackless(w)) {
        auto& s = static_cast<stackless&>(w);
        tsan_acquire(&s);
        out << s.describe();
        in_deadlock = in_deadlock && cancelled_for_good(w);
      } else {
        out << "a thread";
        in_deadlock = false;
      }
    }
  }
  lock.unlock();
  const std::string waiting = out.str();
  if (waiting.empty() || in_deadlock) return;
  // "shared_mutex" of "shared_mutex lock"
  fatal("a ", what.substr(0, what.find(' ')), " (", object, ") is destroyed while others wait on it:", waiting);
}

}  // namespace coir::detail
