// Fibers that help the calling one with a call, and the end of that call for all of them: the base of the parallel
// forms and of map_concurrently. Not for users.
//
// The leader is the fiber that made the crew; it takes part in the work itself. The first failure, of the leader or of
// a helper, ends the call: over() is true from then on, the blocking calls of all members throw `cancelled`, and lead()
// rethrows it when every helper has ended. Later failures are dropped.
//
// If `cancelled` leaves a helper's work, that is never the leader's `cancelled`. If the helper was cancelled, its
// canceller tells the leader too, or was told by it, or helpers_.wait() knows. So the helper interrupts nobody. If the
// work has thrown it itself, that is a failure, task_cancelled.
//
// Invariant: the leader stays inside lead(), or the crew's destructor, until the last helper has ended. So a helper may
// use the leader's frame, and a failed helper may interrupt the leader with expire(). The leader takes that
// back when it leaves the crew: it is expired and forgotten equally often.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>
#include <coir/source_location.hpp>
#include <coir/task_group.hpp>

namespace coir::inline COIR_ABI::detail {

class crew {
 public:
  /// `what` is the public function, for not_in_runtime, which it throws outside a fiber.
  explicit crew(const char* what);

  /// Cancels the helpers that are left, and joins them.
  ~crew();
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;

  /// Starts a helper, in a fiber of its own. As task_group::spawn: blocks at the limit, does nothing once the call is
  /// over. From any member.
  template <class F>
  void help(F f, source_location at) {
    helpers_.spawn(
        [this, work = std::move(f)]() mutable {
          try {
            work();
          } catch (...) {
            helper_failed();
          }
        },
        at);
  }

  /// By a helper, in the handler of an exception that has left its work: the call is over. Throws the exception that is
  /// to leave the helper's function, which ends the other helpers. help() does this, too; the first time counts.
  [[noreturn]] void helper_failed();

  /// How many helpers may be alive at a time.
  void set_limit(std::size_t n) { helpers_.set_limit(n); }

  /// The leader's part: runs f, joins the helpers, rethrows the first failure. Once. Throws `cancelled` too.
  template <class F>
  void lead(F&& f) {
    try {
      std::forward<F>(f)();
      helpers_.wait();
    } catch (...) {
      static_cast<void>(note(std::current_exception()));
    }
    end();
  }

  /// Whether a member has failed.
  bool over() const noexcept { return over_.load(std::memory_order_relaxed); }

 private:
  bool note(std::exception_ptr error) noexcept;
  void end();
  void dismiss() noexcept;

  waiter& leader_;
  std::atomic<bool> over_{false};
  std::atomic<bool> failed_{false};
  // Both are written by the first member that fails, and read when all have ended.
  bool interrupted_ = false;
  std::exception_ptr error_;
  task_group helpers_;
};

/// Throws `cancelled` if the calling fiber's next blocking call would.
void check_cancelled();

/// For a member that computes: lets other fibers run if 5 ms have passed since `began`, which is then set anew. That is
/// less than options::time_slice, so that the runtime need not retake the processor. `time` is now(); returns now() as
/// it is afterwards.
std::int64_t end_turn(std::int64_t& began, std::int64_t time);

}  // namespace coir::detail
