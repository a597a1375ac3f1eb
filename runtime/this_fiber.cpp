#include <coir/this_fiber.hpp>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/start_record.hpp>
#include <coir/error.hpp>

#include "sched/switch.hpp"

namespace coir::inline COIR_ABI {

namespace {

[[noreturn, gnu::noinline]] void throw_outside(const char* what) {
  throw not_in_runtime(std::string(what) + " called outside a fiber");
}

[[gnu::noinline]] detail::fiber& need_fiber(const char* what) {
  if (detail::fiber* f = detail::current_fiber()) return *f;
  throw_outside(what);
}

}  // namespace

[[gnu::noinline]] void yield() {
  detail::worker* w = detail::current_worker_at_entry();
  if (w == nullptr || w->current == nullptr) [[unlikely]]
    throw_outside("coir::yield");
  if (detail::exploring()) return detail::decide(detail::operation::yield);
  w->home->yield(*w->current, *w);
}

namespace this_fiber {

id get_id() { return fiber_id{need_fiber("this_fiber::get_id").id}; }

void set_name(std::string name) {
  need_fiber("this_fiber::set_name").name.set(std::make_unique<std::string>(std::move(name)));
}

std::string name() { return need_fiber("this_fiber::name").name.get(); }

std::stop_token stop_token() {
  detail::fiber& f = need_fiber("this_fiber::stop_token");
  const bool first = !f.stop.made();
  std::stop_token token = f.stop.token();
  // The canceller sets the flag, then looks for a source under its lock: it has found one, or its flag is seen here.
  if (first && detail::waiter_access::is_for_good(f.wait)) detail::signal_stop(*f.stop.copy());
  return token;
}

bool is_fiber() noexcept { return detail::current_fiber() != nullptr; }

}  // namespace this_fiber

void detail::name_this_fiber(std::unique_ptr<std::string> name) noexcept { current_fiber()->name.set(std::move(name)); }

uncancellable::uncancellable() noexcept { detail::waiter_access::open_uncancellable(detail::this_waiter()); }

uncancellable::~uncancellable() { detail::waiter_access::close_uncancellable(detail::this_waiter()); }

}  // namespace coir
