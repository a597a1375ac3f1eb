// Where the library's operations meet an exploration: see <coir/detail/decision.hpp>. Empty in the ordinary library.
#include <coir/detail/decision.hpp>

#include <coir/detail/abi.hpp>

#if defined(COIR_EXPLORE)

#include <stdexcept>
#include <string>

#include "sched/explorations.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

[[gnu::cold]] void refuse_plain_thread() {
  throw std::logic_error("coir: a plain thread uses coir while an exploration is under way");
}

void decide(operation what, const void* on, bool polled) {
  worker* const w = current_worker();
  if (w == nullptr) [[unlikely]] {
    if (explorations::any_under_way()) refuse_plain_thread();
    return;
  }
  if (explorer* const e = w->home->explored_by(); e != nullptr && w->current != nullptr)
    e->decide(*w->current, *w, what, on, polled);
}

}  // namespace

[[gnu::noinline]] void decide(operation what, const void* on) { decide(what, on, false); }

[[gnu::noinline]] void decide_after_poll(operation what, const void* on) { decide(what, on, true); }

[[gnu::noinline]] bool exploring() noexcept {
  const worker* const w = current_worker();
  return w != nullptr && w->home->explored_by() != nullptr;
}

[[gnu::noinline]] std::uint32_t choose_one_of(operation what, std::uint32_t n) noexcept {
  return current_worker()->home->explored_by()->choose(what, n);
}

void refuse_in_exploration(const char* what) {
  if (exploring()) throw std::logic_error("coir: " + std::string(what) + " in an exploration");
}

}  // namespace coir::detail

#endif
