#include <coir/this_fiber.hpp>

#include <coir/error.hpp>

#include "switch.hpp"

namespace coir {

namespace {

[[gnu::noinline]] detail::fiber& need_fiber(const char* what) {
  if (detail::fiber* f = detail::current_fiber()) return *f;
  throw not_in_runtime(std::string(what) + " called outside a fiber");
}

}  // namespace

[[gnu::noinline]] void yield() {
  detail::worker* w = detail::current_worker_at_entry();
  if (w == nullptr || w->current == nullptr) [[unlikely]]
    need_fiber("coir::yield");
  w->home->yield(*w->current, *w);
}

namespace this_fiber {

id get_id() { return fiber_id{need_fiber("this_fiber::get_id").id}; }

void set_name(std::string name) {
  need_fiber("this_fiber::set_name").name = std::make_unique<std::string>(std::move(name));
}

std::string name() {
  const detail::fiber& f = need_fiber("this_fiber::name");
  return f.name ? *f.name : std::string();
}

std::stop_token stop_token() {
  detail::fiber& f = need_fiber("this_fiber::stop_token");
  const bool first = !f.stop.made();
  std::stop_token token = f.stop.token();
  // The canceller sets the flag, then looks for a source under its lock: it has found one, or its flag is seen here.
  if (first && f.cancel_requested.load(std::memory_order_acquire)) detail::signal_stop(*f.stop.copy());
  return token;
}

bool is_fiber() noexcept { return detail::current_fiber() != nullptr; }

}  // namespace this_fiber

uncancellable::uncancellable() noexcept {
  if (detail::fiber* f = detail::current_fiber())
    f->uncancellable_depth.store(f->uncancellable_depth.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

uncancellable::~uncancellable() {
  if (detail::fiber* f = detail::current_fiber())
    f->uncancellable_depth.store(f->uncancellable_depth.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

}  // namespace coir
