#include <coir/detail/crew.hpp>

#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/start_record.hpp>
#include <coir/error.hpp>
#include <coir/task.hpp>
#include <coir/this_fiber.hpp>

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::int64_t turn = 5'000'000;  // ns

waiter& waiter_of_fiber(const char* what) {
  static_cast<void>(current_scheduler(what));
  return this_waiter();
}

}  // namespace

crew::crew(const char* what) : leader_(waiter_of_fiber(what)) {}

crew::~crew() { dismiss(); }

/// True: it is the first failure.
bool crew::note(std::exception_ptr error) noexcept {
  over_.store(true, std::memory_order_relaxed);
  // relaxed: the data that it guards is read after the join.
  if (failed_.exchange(true, std::memory_order_relaxed)) return false;
  error_ = std::move(error);
  return true;
}

void crew::helper_failed() {
  try {
    try {
      throw;
    } catch (const cancelled&) {
      throw_task_cancelled();
    }
  } catch (const cancelled&) {  // the helper was
    over_.store(true, std::memory_order_relaxed);
    throw;
  } catch (...) {
    if (note(std::current_exception())) {
      interrupted_ = true;
      if (expire(leader_)) unpark(leader_);
    }
    throw;
  }
}

void crew::end() {
  dismiss();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void crew::dismiss() noexcept {
  helpers_.stop();
  helpers_.join_uncancellable();
  if (std::exchange(interrupted_, false)) forget_expiry(leader_);
}

void check_cancelled() {
  waiter& self = this_waiter();
  if (!begin_wait(self)) throw_cancelled();
  abandon_wait(self);
}

std::int64_t end_turn(std::int64_t& began, std::int64_t time) {
  if (time - began < turn) return time;
  yield();
  return began = now();
}

}  // namespace coir::detail
