// How a schedule that has failed comes to its end: see engine.hpp.
#include <algorithm>
#include <exception>
#include <optional>
#include <stop_token>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/this_fiber.hpp>

#include "base/sanitizer.hpp"
#include "engine.hpp"
#include "fiber/waiter_access.hpp"
#include "sched/switch.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

// The end of a schedule may take this many decisions and switches.
constexpr std::uint64_t patience = 10'000;

constexpr int nobody = -1;

/// Whether it is blocked, and may be disturbed there.
bool can_be_woken(const fiber& f) noexcept {
  return f.state.load(std::memory_order_relaxed) != run_state::free &&
         waiter_access::state_of(f.wait) == waiter::waiting && !waiter_access::is_in_section(f.wait);
}

void cancel_for_good(fiber& f) noexcept {
  f.in_deadlock = true;
  waiter_access::set_for_good(f.wait);
}

}  // namespace

void engine::begin_ending() {
  ending_ = true;
  home_->cancel_all_.store(true, std::memory_order_relaxed);     // a fiber that begins now is cancelled
  for (fiber* f : home_->stacks().all()) f->in_deadlock = true;  // so that what is destroyed under them is not reported
  home_->asyncs_.for_each([](stackless& s) { s.mark_for_deadlock(); });
}

// The deepest fiber that can run. Null if a deeper one is to be woken first: the native stack does that.
runnable* engine::pick_ending() noexcept {
  if (++ending_steps_ > patience || waiting_.empty()) return nullptr;
  const auto deepest = std::max_element(waiting_.begin(), waiting_.end(), [](const candidate& l, const candidate& r) {
    return l.who->depth < r.who->depth;
  });
  for (const fiber* f : home_->stacks().all())
    if (f->depth > deepest->who->depth && can_be_woken(*f)) return nullptr;
  runnable* const r = take(static_cast<std::size_t>(deepest - waiting_.begin())).who;
  if (r->what == runnable::kind::suspended) cancel_for_good(static_cast<fiber&>(*r));
  return r;
}

// On the native stack: wakes the deepest of the blocked fibers. False: the schedule is over, or to be abandoned.
bool engine::unwind_step() {
  if (ending_steps_ > patience) {
    abandoned_ = true;
    return false;
  }
  int depth = nobody;
  for (const fiber* f : home_->stacks().all())
    if (can_be_woken(*f)) depth = std::max(depth, int{f->depth});
  home_->asyncs_.for_each([&](const stackless& s) {
    if (s.asleep() && !waiter_access::is_in_section(s)) depth = std::max(depth, int{s.depth()});
  });
  bool woken = false;
  if (depth != nobody) {
    for (fiber* f : home_->stacks().all()) {
      if (int{f->depth} != depth || !can_be_woken(*f)) continue;
      cancel_for_good(*f);
      std::optional<std::stop_source> source = f->stop.copy();
      if (f->wait.claim_from_outside(f->wait.word(), waiter::cancelled)) {
        unpark(f->wait);
        woken = true;
      }
      if (!source || source->stop_requested()) continue;
      auto tell = [s = std::move(*source)]() mutable {
        const uncancellable guard;
        signal_stop(std::move(s));
      };
      home_->start(make_record<go_record<decltype(tell)>>(std::move(tell), source_location::current()));
    }
    home_->asyncs_.for_each([&](stackless& s) { woken = s.unwind_marked(static_cast<std::uint8_t>(depth)) || woken; });
  }
  if (woken) return true;
  // The remaining fibers must not be disturbed. Perhaps time wakes them.
  if (const deadline next = processor_->timers.earliest(); next != no_deadline) {
    home_->clock_.set_virtual(std::max(next, home_->clock_.now()));
    fire_timer();
    ++ending_steps_;
    return true;
  }
  abandoned_ = true;
  return false;
}

// A fiber that polls lets the others go first, or ends: what it polls for may never come.
void engine::decide_while_ending(fiber& self, worker& w, operation what, bool polled) {
  if (++ending_steps_ > patience) abandon(self, w);
  const bool yields = polled || what == operation::yield;
  if (yields && !waiter_access::is_uncancellable(self.wait) && std::uncaught_exceptions() == 0 &&
      (what == operation::yield || what == operation::select)) {
    cancel_for_good(self);
    throw_cancelled();
  }
  waiting_.push_back({&self, self.turn_number});
  w.enter();
  runnable* const r = pick_ending();
  if (r == &self) {
    w.leave();
    return;
  }
  self.state.store(run_state::queued, std::memory_order_relaxed);
  home_->switch_away_to(r, self, w, *processor_);
  w.leave();
}

void engine::abandon(fiber& self, worker& w) {
  abandoned_ = true;
  tsan_release(home_);  // pairs with end()
  for (;;) {
    w.enter();
    home_->switch_away_to(nullptr, self, w, *processor_);
  }
}

}  // namespace coir::detail
