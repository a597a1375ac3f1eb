#include "permit_program.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <vector>

#include <coir/coir.hpp>

#include "permit_model.hpp"
#include "stage.hpp"

namespace coir_fuzz {
namespace {

using namespace std::chrono_literals;
using action = permit_operation::action;
using end = permit_outcome::end;
using patience = permit_operation::patience;

constexpr unsigned max_actors = 8;
constexpr std::int64_t all_of_shared_mutex = 1000;  // in the model; any number that there are never so many actors

std::chrono::nanoseconds duration_of(patience p) {
  return p == patience::none ? -5ns : p == patience::little ? std::chrono::nanoseconds(50us) : 10h;
}

// ---- the operation on a semaphore, a shared_mutex, a timed_mutex ---------------------------------------------------

/// The acquiring is done: `got` says with what.
end judge(const permit_operation& op, bool got) {
  return got ? end::yes : op.what == action::attempt ? end::no : end::timed_out;
}

end execute(coir::semaphore& s, const permit_operation& op) {
  switch (op.what) {
    case action::is_locked:
      return s.locked() ? end::yes : end::no;
    case action::release:
      s.release(op.permits);
      return end::yes;
    case action::attempt:
      return judge(op, s.try_acquire(op.permits));
    case action::acquire:
      break;
  }
  if (op.until == patience::long_)
    return judge(op, s.acquire_until(op.permits, std::chrono::steady_clock::now() + duration_of(op.until)));
  if (op.until != patience::endless) return judge(op, s.acquire_for(op.permits, duration_of(op.until)));
  s.acquire(op.permits);
  return end::yes;
}

end execute_exclusively(coir::shared_mutex& m, const permit_operation& op) {
  if (op.what == action::attempt) return judge(op, m.try_lock());
  if (op.what == action::release)
    m.unlock();
  else if (op.until != patience::endless)
    return judge(op, m.try_lock_for(duration_of(op.until)));
  else
    m.lock();
  return end::yes;
}

end execute_shared(coir::shared_mutex& m, const permit_operation& op) {
  if (op.what == action::attempt) return judge(op, m.try_lock_shared());
  if (op.what == action::release)
    m.unlock_shared();
  else if (op.until != patience::endless)
    return judge(op, m.try_lock_shared_for(duration_of(op.until)));
  else
    m.lock_shared();
  return end::yes;
}

end execute(coir::timed_mutex& m, const permit_operation& op) {
  if (op.what == action::attempt) return judge(op, m.try_lock());
  if (op.what == action::release)
    m.unlock();
  else if (op.until != patience::endless)
    return judge(op, m.try_lock_for(duration_of(op.until)));
  else
    m.lock();
  return end::yes;
}

struct objects {
  objects(permit_kind k, std::int64_t total) : kind(k), semaphore(k == permit_kind::semaphore ? total : 0) {}

  permit_outcome execute(const permit_operation& op) {
    try {
      switch (kind) {
        case permit_kind::semaphore:
          return {coir_fuzz::execute(semaphore, op), {}};
        case permit_kind::shared_mutex:
          return {op.permits == 1 ? execute_shared(shared, op) : execute_exclusively(shared, op), {}};
        case permit_kind::timed_mutex:
          return {coir_fuzz::execute(timed, op), {}};
      }
    } catch (const coir::cancelled&) {
      return {end::cancelled, {}};
    } catch (const std::invalid_argument&) {
      return {end::too_many, {}};
    } catch (const std::logic_error&) {
      if (op.what == action::release) return {end::not_so_many_out, {}};
      return {end::broken, "a std::logic_error"};
    } catch (const std::exception& e) {
      return {end::broken, e.what()};
    }
    return {end::broken, "no such kind"};
  }

  /// A mutex can be awaited.
  coir::async<permit_outcome> execute_async(const permit_operation& op) {
    const bool awaits = kind == permit_kind::timed_mutex && op.what == action::acquire && op.until == patience::endless;
    if (!awaits) co_return execute(op);
    permit_outcome result;
    result.how = end::yes;
    try {
      co_await timed.async_lock();
    } catch (const coir::cancelled&) {
      result.how = end::cancelled;
    }
    co_return result;
  }

  permit_kind kind;
  coir::semaphore semaphore;
  coir::shared_mutex shared;
  coir::timed_mutex timed;
};

// ---- the driver ----------------------------------------------------------------------------------------------------

class permit_program {
 public:
  permit_program(entropy choices, const program_limits& limits)
      : choices_(choices),
        limits_(limits),
        kind_(static_cast<permit_kind>(choices_.below(3))),
        model_(kind_, make_total(), limits.break_model),
        objects_(kind_, model_.total()),
        stage_([this](const permit_operation& op) { return objects_.execute(op); },
               [this](const permit_operation& op) { return objects_.execute_async(op); }) {
    static constexpr const char* names[] = {"semaphore", "shared_mutex", "timed_mutex"};
    stage_.note(std::string(names[static_cast<std::size_t>(kind_)]) + " of " + std::to_string(model_.total()));
    for (unsigned left = 2 + choices_.below(max_actors - 1); left > 0; --left) stage_.add_actor(choices_.chance(30));
  }

  std::string run() {
    for (unsigned step = 0; step < limits_.steps && !choices_.exhausted() && wrong_.empty(); ++step) take_step();
    if (kind_ == permit_kind::semaphore)
      for (std::size_t f = 0; f < stage_.actors() && wrong_.empty(); ++f)
        if (model_.blocked(f)) cancel(f);
    if (wrong_.empty()) take_back();
    stage_.end(wrong_.empty());
    return wrong_.empty() ? wrong_ : wrong_ + "\n" + stage_.trace();
  }

 private:
  std::int64_t make_total() {
    if (kind_ == permit_kind::timed_mutex) return 1;
    return kind_ == permit_kind::shared_mutex ? all_of_shared_mutex : choices_.below(9);
  }

  std::int64_t random_permits() {
    if (kind_ == permit_kind::timed_mutex) return 1;
    if (kind_ == permit_kind::shared_mutex) return choices_.chance(40) ? model_.total() : 1;
    const unsigned dice = choices_.below(16);
    if (dice == 15) return model_.total() + 1 + choices_.below(2);
    if (dice == 14) return -1;
    if (dice < 8) return 1;
    return choices_.below(static_cast<unsigned>(model_.total()) + 1);
  }

  permit_operation random_operation() {
    permit_operation op;
    const unsigned dice = choices_.below(16);
    if (dice < 6) {
      op.what = action::release;
    } else if (dice < 8) {
      op.what = action::attempt;
    } else if (dice == 8 && kind_ == permit_kind::semaphore) {
      op.what = action::is_locked;
    } else {
      op.until = choices_.chance(50) ? patience::endless : static_cast<patience>(1 + choices_.below(3));
    }
    op.permits = random_permits();
    return op;
  }

  void take_step() {
    std::vector<std::size_t> idle, blocked;
    for (std::size_t f = 0; f < stage_.actors(); ++f) (model_.blocked(f) ? blocked : idle).push_back(f);
    // Locking is no cancellation point: the last who is idle must give back what the others wait for.
    const bool cancels = kind_ == permit_kind::semaphore;
    if (cancels && !blocked.empty() && (idle.empty() || choices_.below(12) == 11))
      return cancel(blocked[choices_.below(static_cast<unsigned>(blocked.size()))]);
    permit_operation op = random_operation();
    if (!cancels && idle.size() == 1 && op.what == action::acquire) op.what = action::attempt;
    perform(idle[choices_.below(static_cast<unsigned>(idle.size()))], op);
  }

  void perform(std::size_t f, const permit_operation& op) {
    wrong_ = model_.after_operation(f, op, stage_.perform(f, op));
  }

  void cancel(std::size_t f) {
    wrong_ = model_.after_cancel(f, stage_.cancel(f));
    if (wrong_.empty()) stage_.restart(f);
  }

  /// All that is out, by one who is idle; then nothing may be, and all can be had.
  void take_back() {
    permit_operation op;
    op.what = action::release;
    std::size_t f = 0;
    while (model_.blocked(f)) ++f;
    while (model_.out() > 0 && wrong_.empty()) {
      op.permits = kind_ == permit_kind::shared_mutex && model_.out() < model_.total() ? 1 : model_.out();
      perform(f, op);
    }
    op.permits = kind_ == permit_kind::semaphore ? 1 : model_.total();
    if (wrong_.empty()) perform(0, op);  // one too many
    op.what = action::attempt;
    op.permits = model_.total();
    if (wrong_.empty()) perform(0, op);
  }

  entropy choices_;
  program_limits limits_;
  permit_kind kind_;
  permit_model model_;
  objects objects_;
  stage<permit_operation, permit_outcome> stage_;
  std::string wrong_;
};

}  // namespace

std::string run_permits(entropy choices, const program_limits& limits) {
  coir::options o;
  o.processors = limits.processors;
  return coir::run(o, [&] {
    permit_program p{choices, limits};
    return p.run();
  });
}

}  // namespace coir_fuzz
