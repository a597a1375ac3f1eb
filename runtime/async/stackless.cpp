// How coroutines and callbacks run, sleep and are cancelled. See stackless.hpp for the states and the invariants.
//
// Rejected: symmetric transfer, from a coroutine that awaits another to that one and back. GCC makes a tail call of it
// only when it optimizes and no sanitizer is on; without one, a loop that awaits a million coroutines which are ready
// at once overflows the carrier's stack. So each coroutine returns to the loop in run_turn(), which resumes the next
// one.
#include <coir/async.hpp>
#include <coir/detail/abi.hpp>
#include <coir/detail/local_table.hpp>
#include <coir/detail/stackless.hpp>

#include <new>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/backtrace.hpp"
#include "base/report.hpp"
#include "base/sanitizer.hpp"
#include "fiber/fiber.hpp"
#include "fiber/waiter_access.hpp"
#include "sched/async_list.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

/// One turn of an async on a carrier.
struct async_segment {
  stackless& who;
  std::coroutine_handle<> next;   // to be resumed when the one that runs returns
  std::coroutine_handle<> where;  // it sleeps there, or has ended there
  lock_release locks;             // to be released when it sleeps
  bool asleep = false;
  bool ended = false;
};

struct carried_over {
  std::unique_ptr<std::string> name;
  fiber_stop stop;
  local_table* locals = nullptr;
};

namespace {

/// Whether an async takes something along from the fiber that has carried it. Only the fiber itself sets its name, its
/// stop source and its locals.
bool has_baggage(const fiber& f) noexcept { return f.name || f.locals != nullptr || f.stop.made(); }

/// Tells a wait from those before and after it; not 0.
std::uint32_t wait_number(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word / (waiter::state_mask + 1)) | std::uint32_t{1} << 31;
}

async_segment& current_segment() noexcept { return *current_fiber()->carries; }

/// ThreadSanitizer is told here, since it does not see the unlocking.
lock_release announced(spin_lock* lock) noexcept {
  if (lock == nullptr) return {};
  tsan_release(lock);
  return {[](void* l) noexcept { static_cast<spin_lock*>(l)->unlock(); }, lock};
}

}  // namespace

// ---- its beginning and end -----------------------------------------------------------------------------------------

stackless::stackless(scheduler& home, std::coroutine_handle<> frame) noexcept
    : waiter(kind::stackless), frame_(frame.address()), home_(&home) {}

void stackless::belongs_to(start_record& record, fiber_id id) noexcept {
  const auto offset = reinterpret_cast<char*>(&record) - reinterpret_cast<char*>(this);
  require(offset > 0 && offset <= INT8_MAX * 8, "a stackless lies just before its record");  // see note_id()
  record_offset_ = static_cast<std::uint16_t>(offset);
  id_ = id.number();
  record.note_id(id_);
}

void stackless::belongs_to(start_record& record) noexcept { belongs_to(record, new_fiber_id()); }

start_record& stackless::record() const noexcept {
  char* const here = reinterpret_cast<char*>(const_cast<stackless*>(this));
  return *std::launder(reinterpret_cast<start_record*>(here + record_offset_));
}

stackless::~stackless() = default;

void stackless::enroll() noexcept {
  tsan_release(this);
  home_->asyncs().add(*this);
  // Cancelling sets the flag and then goes through the list. Either it finds this async there, or its flag is seen
  // here.
  if (home_->cancelling()) [[unlikely]]
    static_cast<void>(cancel());
}

void stackless::count() noexcept { home_->count_started(record()); }

void stackless::leave() noexcept { home_->asyncs().remove(*this); }

// ---- its turns -----------------------------------------------------------------------------------------------------

void stackless::take_carrier(fiber& f) noexcept {
  tsan_acquire(this);                     // pairs with the sleeper's carrier and with its waker: see unpark()
  record().what = runnable::kind::woken;  // from now on
  f.id = id_;
  transit_.lock();
  carried_ = true;
  carrier_ = &f;
  waiter_access::copy_uncancellable(f.wait, *this);
  if (waiter_access::is_for_good(*this)) waiter_access::set_for_good(f.wait);
  if (kept_) {
    f.name.set(std::move(kept_->name));
    f.stop.exchange(kept_->stop);
    f.locals = std::exchange(kept_->locals, nullptr);
  }
  transit_.unlock();
}

/// Takes over the changes of the fiber's state that were made while it carried this.
void stackless::update_from(const fiber& f) noexcept {
  waiter_access::copy_uncancellable(*this, f.wait);
  if (waiter_access::is_for_good(f.wait)) waiter_access::set_for_good(*this);
}

/// Makes room for the state that is taken along from the carrier, if there is any: sleep() is called with the locks of
/// primitives held, under which nothing is allocated.
void stackless::make_room(const fiber& f) noexcept {
  if (kept_ || !has_baggage(f)) [[likely]]
    return;
  std::unique_ptr<carried_over> room(new (std::nothrow) carried_over);
  if (!room)
    fatal("no memory for the name, stop source or fiber_locals of a coroutine that is to sleep: async ", f.id,
          ", spawned at ", f.spawn_file, ':', f.line);
  transit_.lock();
  kept_ = std::move(room);
  transit_.unlock();
}

void stackless::become_carrier() noexcept {
  take_carrier(*current_fiber());
  leave();
}

bool stackless::run_turn() noexcept {
  fiber& f = *current_fiber();
  async_segment turn{*this, frame(), {}, {}};
  take_carrier(f);
  f.carries = &turn;
  while (turn.next) std::exchange(turn.next, {}).resume();
  f.carries = nullptr;
  if (turn.ended) {
    transit_.lock();
    carried_ = false;
    frame_ = turn.where.address();
    transit_.unlock();
    return true;
  }
  if (!turn.asleep) [[unlikely]]
    fatal("a coir::async was suspended by something that is not coir's: async ", f.id, ", spawned at ", f.spawn_file,
          ':', f.line);
  f.carried_on = true;
  sleep(turn.locks, turn.where);
  return false;
}

void stackless::sleep(lock_release locks, std::coroutine_handle<> where) noexcept {
  transit_.lock();
  if (carried_) {
    fiber* const f = carrier_;
    update_from(*f);
    if (has_baggage(*f)) {
      require(kept_ != nullptr, "this_async() has made room for what a coroutine takes along");
      kept_->name = f->name.take();
      f->stop.exchange(kept_->stop);
      kept_->locals = std::exchange(f->locals, nullptr);
      tsan_release(kept_.get());
    }
    carried_ = false;
  }
  frame_ = where.address();
  const bool refused = waiter_access::must_give_up(*this);
  tsan_release(this);
  if (refused)
    waiter_access::refuse(*this);
  else
    waiter_access::publish(*this);
  transit_.unlock();
  // It may be running elsewhere, or be gone, unless it was refused.
  if (locks.release != nullptr) locks.release(locks.arg);
  if (refused) make_ready();
}

void stackless::make_ready() noexcept {
  tsan_release(this);
  record().what = runnable::kind::woken;
  home_->make_ready(record());
}

// ---- cancelling ----------------------------------------------------------------------------------------------------

/// Under transit_: the stop source of an async without a carrier.
std::optional<std::stop_source> stackless::kept_source() const noexcept {
  if (!kept_) return std::nullopt;
  tsan_acquire(kept_.get());
  return kept_->stop.copy();
}

std::optional<std::stop_source> stackless::cancel() noexcept {
  return cancel_if([this](std::uint64_t) { return !waiter_access::is_uncancellable(*this); });
}

/// If it sleeps, may_end(the word of its wait) says whether that wait may be ended.
template <class MayEnd>
std::optional<std::stop_source> stackless::cancel_if(MayEnd may_end) noexcept {
  std::optional<std::stop_source> source;
  bool claimed = false;
  transit_.lock();
  waiter_access::set_for_good(*this);
  if (carried_) {
    source = cancel_fiber(*carrier_);
  } else {
    source = kept_source();
    const std::uint64_t now = waiter_access::acquire_word(*this);
    claimed = (now & state_mask) == waiting && may_end(now) && claim_from_outside(now, cancelled);
  }
  transit_.unlock();
  if (claimed) unpark(*this);
  return source;
}

bool stackless::asleep() const noexcept { return waiter_access::state_of(*this) == waiting; }

task_status stackless::status() const noexcept {
  task_status s = task_status::queued;
  transit_.lock();
  if (carried_) {
    const fiber* f = carrier_;
    s = f->state.load(std::memory_order_relaxed) == run_state::queued ? task_status::queued : task_status::running;
    if (waiter_access::state_of(f->wait) == waiting) s = task_status::blocked;
  } else if (asleep()) {
    s = task_status::blocked;
  }
  transit_.unlock();
  return s;
}

std::uint8_t stackless::depth() const noexcept { return record().depth; }

std::optional<std::stop_source> stackless::stop_source() const noexcept {
  transit_.lock();
  auto source = kept_source();
  transit_.unlock();
  return source;
}

void stackless::mark_for_deadlock() noexcept {
  const std::uint64_t now = waiter_access::acquire_word(*this);
  deadlocked_wait_ = (now & state_mask) == waiting ? wait_number(now) : 0;
  if (deadlocked_wait_ != 0) waiter_access::set_for_good(*this);
}

bool stackless::unwind_marked(std::uint8_t least_depth) noexcept {
  if (deadlocked_wait_ == 0 || depth() < least_depth) return false;
  const std::uint32_t marked = std::exchange(deadlocked_wait_, 0);
  // If something else has woken it meanwhile, it may wait for a lock by now, which is no cancellation point. The stop
  // source is not needed here: a stop_teller requests the stop (deadlock_unwinder.cpp).
  static_cast<void>(cancel_if(
      [&](std::uint64_t word) { return wait_number(word) == marked && !waiter_access::is_in_section(*this); }));
  return true;
}

std::optional<stackless::view> stackless::look() const {
  std::optional<view> seen;
  transit_.lock();
  const state s = waiter_access::state_of(*this);
  if (!carried_ && s != idle) {
    seen = view{id_,
                frame_ == nullptr,
                s == waiting,
                s == waiting ? why_ : wait_reason{"nothing"},
                record().file,
                record().line,
                {}};
    if (kept_ && kept_->name) {
      tsan_acquire(kept_.get());
      try {
        seen->name = *kept_->name;
      } catch (const std::bad_alloc&) {  // it goes without
      }
    }
  }
  transit_.unlock();
  return seen;
}

std::string stackless::describe() const {
  std::ostringstream out;
  out << (frame_ != nullptr ? "async " : "callback ") << id_;
  if (kept_ && kept_->name) out << " \"" << *kept_->name << '"';
  out << (frame_ != nullptr ? ", spawned at " : ", left at ") << record().file << ':' << record().line << ": "
      << why_.what;
  if (why_.on != nullptr) out << ' ' << why_.on;
  return out.str();
}

// ---- for awaiters --------------------------------------------------------------------------------------------------

stackless& this_async() noexcept {
  const fiber& f = *current_fiber();
  stackless& self = f.carries->who;
  self.update_from(f);
  self.make_room(f);
  return self;
}

void throw_awaited_again() {
  throw std::logic_error("coir: an operation can be awaited once; write it after co_await");
}

void park(stackless& self, std::coroutine_handle<> where, spin_lock* lock, wait_reason why) noexcept {
  park(self, where, announced(lock), why);
}

void park(stackless& self, std::coroutine_handle<> where, lock_release locks, wait_reason why) noexcept {
  self.why_ = why;
  async_segment& turn = current_segment();
  turn.locks = locks;
  turn.asleep = true;
  turn.where = where;
}

void sleep_callback(stackless& callback, spin_lock* lock, wait_reason why) noexcept {
  callback.why_ = why;
  callback.sleep(announced(lock), {});
}

wake woken(const waiter& self) noexcept { return waiter_access::outcome(self); }

void go_async_record::enter(start_record* r) {
  auto* self = static_cast<go_async_record*>(r);
  if (!self->run_turn()) return;
  const auto outermost = std::coroutine_handle<async_promise<void>>::from_address(self->frame().address());
  const std::exception_ptr error = std::move(outermost.promise().error);
  outermost.destroy();
  self->leave();
  destroy_record(self);
  if (error) std::rethrow_exception(error);
}

// ---- async_sleep ---------------------------------------------------------------------------------------------------

/// False: refused.
bool sleep_awaiter::sleep(std::coroutine_handle<> where) {
  if (sleeper_ != nullptr || refused_) throw_awaited_again();
  stackless& self = this_async();
  refused_ = !begin_wait(self);
  if (refused_) return false;
  sleeper_ = &self;
  try {
    alarm_.arm(until_, &fire, this, self.word());
  } catch (...) {
    abandon_wait(self);
    throw;
  }
  park(self, where, lock_release{}, {"sleep"});
  return true;
}

void sleep_awaiter::fire(void* arg, std::uint64_t word) noexcept {
  auto* self = static_cast<sleep_awaiter*>(arg);
  stackless& sleeper = *self->sleeper_;
  if (sleeper.claim_from_outside(word, waiter::timed_out))
    unpark(sleeper);
  else
    self->fired_in_vain_.store(true, std::memory_order_release);  // pairs with await_resume()
}

void sleep_awaiter::await_resume() {
  if (refused_) throw_cancelled();
  if (sleeper_ == nullptr || woken(*sleeper_) == wake::timed_out) return;
  // Cancelled. If the alarm cannot be stopped any more it is about to find that it has lost.
  if (!alarm_.disarm())
    for (backoff wait; !fired_in_vain_.load(std::memory_order_acquire);) wait();
  throw_cancelled();
}

void throw_empty_async() {
  throw std::logic_error("coir: an async that is empty (default, moved from, awaited, or spawned)");
}

void report_misplaced_promise() noexcept {
  fatal_report out;
  out << "the compiler has laid out the frame of the coroutine that is called here wrongly. GCC 12 does so if one has "
         "a co_await in the condition of an if, a switch or a loop, but no variable: name what is awaited, const "
         "auto v = co_await ...;"
      << std::endl;
  prepare_backtrace();
  write_backtrace();
  out.end();
}

void resume_next(std::coroutine_handle<> next) noexcept { current_segment().next = next; }

void end_async(std::coroutine_handle<> outermost) noexcept {
  async_segment& turn = current_segment();
  turn.ended = true;
  turn.where = outermost;
}

}  // namespace coir::detail
