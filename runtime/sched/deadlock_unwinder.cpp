#include "sched/deadlock_unwinder.hpp"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <optional>
#include <sstream>
#include <stop_token>
#include <utility>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/detail/stackless.hpp>
#include <coir/detail/start_record.hpp>
#include <coir/this_fiber.hpp>

#include "base/report.hpp"
#include "base/sanitizer.hpp"
#include "fiber/waiter_access.hpp"
#include "sched/deadlock_end.hpp"
#include "sched/outside_timers.hpp"
#include "sched/registry.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

// In ns. The longest time of a step is longest_step, and longest_of_one more for each fiber that it wakes.
constexpr std::int64_t longest_step = 2'000'000'000;
constexpr std::int64_t longest_of_one = 200'000;
// In ns. Disarming an outside timer wakes no thread, so the unwinder looks again after this time.
constexpr std::int64_t recheck_outside = 10'000'000;

}  // namespace

/// A fiber that requests stops. The user's stop callbacks run in it. The runtime is not quiescent before this fiber has
/// ended. It is uncancellable, so nothing that the callbacks call throws `cancelled`.
struct stop_teller final : start_record {
  stop_teller(std::uint8_t of_depth, std::vector<std::stop_source> all)
      : start_record(&stop_teller::enter, source_location::current()), told_depth(of_depth), sources(std::move(all)) {}

  static void enter(start_record* r) {
    const std::unique_ptr<stop_teller, destroyer> self(static_cast<stop_teller*>(r));
    const uncancellable guard;
    for (std::stop_source& s : self->sources) signal_stop(std::move(s));
  }

  struct destroyer {
    void operator()(stop_teller* t) const noexcept { destroy_record(t); }
  };

  const std::uint8_t told_depth;
  std::vector<std::stop_source> sources;
};

/// Identified by the claim word of its wait. If something else wakes the fiber in the meantime, the word changes, so a
/// fiber that has moved on, or ended, is never touched.
struct sleeping_fiber {
  fiber* who;
  std::uint64_t word;
  std::uint8_t depth;
  bool can_be_woken;  // else it is marked only
};

/// The fibers that are still to be woken. The deepest are last.
struct deadlock_unwinder::unwinding {
  std::vector<sleeping_fiber> fibers;
  std::vector<std::unique_ptr<stop_teller, stop_teller::destroyer>> tellers;
  std::bitset<runnable::deepest + 1U> depths;  // at which something is to be woken or told
  deadline late = no_deadline;
};

deadlock_unwinder::deadlock_unwinder() noexcept = default;
deadlock_unwinder::~deadlock_unwinder() = default;

namespace {

/// Calls f(fiber) for each fiber that sleeps.
template <class F>
void for_each_sleeper(scheduler& home, F f) {
  for (fiber* each : home.stacks().all())
    if (each->state.load(std::memory_order_relaxed) != run_state::free &&
        waiter_access::state_of(each->wait) == waiter::waiting)
      f(*each);
}

std::string list_blocked(scheduler& home) {
  std::ostringstream out;
  for_each_sleeper(home, [&](fiber& f) {
    tsan_acquire(&f);
    out << "\n  " << describe(f) << ": " << f.why.what;
    if (f.why.on != nullptr) out << ' ' << f.why.on;
  });
  home.asyncs().for_each([&](const stackless& s) {
    if (!s.asleep()) return;
    tsan_acquire(const_cast<stackless*>(&s));
    out << "\n  " << s.describe();
  });
  return out.str();
}

/// The sleeping fibers of a stuck runtime, which are to be unwound. Everything that needs memory is allocated here,
/// before any fiber is marked or woken.
std::unique_ptr<deadlock_unwinder::unwinding> note_sleepers(scheduler& home) {
  auto noted = std::make_unique<deadlock_unwinder::unwinding>();
  std::vector<std::pair<std::uint8_t, std::stop_source>> sources;
  const auto note = [&](std::uint8_t depth, bool can_be_woken, std::optional<std::stop_source> source) {
    if (can_be_woken) noted->depths.set(depth);
    if (source && !source->stop_requested()) sources.emplace_back(depth, std::move(*source));
  };
  for_each_sleeper(home, [&](fiber& f) {
    const bool can_be_woken = !waiter_access::is_in_section(f.wait);
    noted->fibers.push_back({&f, f.wait.word(), f.depth, can_be_woken});
    note(f.depth, can_be_woken, f.stop.copy());
  });
  home.asyncs().for_each([&](const stackless& s) {
    if (s.asleep()) note(s.depth(), !waiter_access::is_in_section(s), s.stop_source());
  });
  std::sort(noted->fibers.begin(), noted->fibers.end(), [](auto& l, auto& r) { return l.depth < r.depth; });
  std::sort(sources.begin(), sources.end(), [](auto& l, auto& r) { return l.first < r.first; });
  for (auto first = sources.begin(); first != sources.end();) {
    const std::uint8_t depth = first->first;
    std::vector<std::stop_source> told;
    for (; first != sources.end() && first->first == depth; ++first) told.push_back(std::move(first->second));
    noted->tellers.emplace_back(make_record<stop_teller>(depth, std::move(told)));
    noted->depths.set(depth);
  }
  return noted;
}

/// Whether `home`, which is stuck, is about to unwind: it has a fiber to wake or to tell, and a waiting thread to take
/// the steps. Called with the registry locked.
bool is_about_to_unwind(scheduler& home) { return home.waiting().any() && note_sleepers(home)->depths.any(); }

}  // namespace

bool deadlock_unwinder::begin_if_certain(scheduler& home) {
  bool certain = false;
  runtime_registry::if_all_quiescent([&](const internal_vector<scheduler*>& runtimes) {
    certain = unwinding_ != nullptr;  // another thread has been faster
    if (certain || !home.look().stuck()) return;
    // The next step of another runtime may wake a fiber here.
    if (std::any_of(runtimes.begin(), runtimes.end(), [](auto* s) { return s->deadlocks().unwinding_ != nullptr; }))
      return;
    auto noted = note_sleepers(home);
    if (noted->depths.any()) {
      auto report = std::make_shared<const std::string>("all fibers are asleep - deadlock!" + list_blocked(home));
      certain = true;
      begin(home, std::move(noted), std::move(report));
      return;
    }
    // All fibers block in uncancellable sections. Nothing can end that, unless another runtime is about to unwind.
    if (std::none_of(runtimes.begin(), runtimes.end(), [](auto* s) { return is_about_to_unwind(*s); }))
      fatal("all fibers are asleep - deadlock, and these cannot be unwound (uncancellable):", list_blocked(home));
  });
  if (certain) home.waiting().notify();  // the threads that watch take part
  return certain;
}

/// With the registry locked.
void deadlock_unwinder::begin(scheduler& home, std::unique_ptr<unwinding> noted,
                              std::shared_ptr<const std::string> report) noexcept {
  report_deadlock_before_terminate();
  const bool known =
      std::any_of(noted->fibers.begin(), noted->fibers.end(), [](auto& s) { return s.who->in_deadlock; });
  {
    const std::lock_guard reporting(report_lock_);
    // If some of these fibers were in a deadlock already and have blocked again, it is the same deadlock.
    if (!known || report_ == nullptr) report_ = std::move(report);
  }
  for (const auto& s : noted->fibers) {
    s.who->in_deadlock = true;
    waiter_access::set_for_good(s.who->wait);
  }
  home.asyncs().for_each([](stackless& s) { s.mark_for_deadlock(); });
  unwinding_ = std::move(noted);
  is_unwinding_.store(true, std::memory_order_relaxed);  // before a fiber is woken and can end
  step(home, false);
}

deadline deadlock_unwinder::proceed(scheduler& home) noexcept {
  deadline next = no_deadline;
  if (!is_unwinding_.load(std::memory_order_acquire)) return next;  // pairs with step(), as its notification
  runtime_registry::visit(home.serial(), [&](scheduler&) {
    while (unwinding_ != nullptr) {
      const quiescence seen = home.look();
      const bool still = seen.drained || seen.stuck();
      const std::int64_t now = home.clock().now();
      const bool late = now >= unwinding_->late;
      const bool outside = still && outside_timers::pending();  // its alarm may wake a fiber of this runtime
      if ((!still || outside) && !late) {
        next = outside ? std::min(unwinding_->late, now + recheck_outside) : unwinding_->late;
        break;
      }
      step(home, late);
    }
  });
  return next;
}

/// With the registry locked: wakes the deepest of the remaining fibers, or all of them.
void deadlock_unwinder::step(scheduler& home, bool all) noexcept {
  unwinding& u = *unwinding_;
  tsan_acquire(&home);  // the deeper fibers have ended: their effects are visible to the woken ones
  std::size_t least = 0;
  if (!all) {
    least = u.depths.size() - 1;
    while (!u.depths.test(least)) --least;
  }
  std::int64_t woken = 0;
  for (; !u.fibers.empty() && u.fibers.back().depth >= least; u.fibers.pop_back()) {
    const sleeping_fiber& s = u.fibers.back();
    if (!s.can_be_woken || !s.who->wait.claim_from_outside(s.word, waiter::cancelled)) continue;
    unpark(s.who->wait);
    ++woken;
  }
  home.asyncs().for_each([&](stackless& s) { woken += s.unwind_marked(static_cast<std::uint8_t>(least)) ? 1 : 0; });
  // After the claims, as in any cancellation: the cancellation ends the wait, not a callback of its stop token.
  for (; !u.tellers.empty() && u.tellers.back()->told_depth >= least; u.tellers.pop_back())
    home.start(u.tellers.back().release());
  for (std::size_t depth = least; depth < u.depths.size(); ++depth) u.depths.reset(depth);
  if (u.depths.none())
    unwinding_ = nullptr;
  else
    u.late = home.clock().now() + longest_step + woken * longest_of_one;
  is_unwinding_.store(unwinding_ != nullptr, std::memory_order_release);
}

std::shared_ptr<const std::string> deadlock_unwinder::report() noexcept {
  const std::lock_guard locked(report_lock_);
  return report_;
}

std::shared_ptr<const std::string> deadlock_unwinder::take_report() noexcept {
  const std::lock_guard locked(report_lock_);
  return std::exchange(report_, nullptr);
}

}  // namespace coir::detail
