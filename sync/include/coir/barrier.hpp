// barrier: a number of fibers or threads wait for one another, phase after phase; as std::barrier.
// When all expected participants have arrived, the last one runs the completion function. Then the phase ends, and all
// waiters go on. The next phase expects as many participants, minus those that dropped out. The completion function
// must not throw. It may block, and is not cancelled with the fiber that runs it.
//
// Thread safety: all members may be called at the same time. Every arrival of a phase happens before its completion
// function, and the completion function happens before the return of every wait for the phase. A barrier may be
// destroyed when no fiber or thread waits and every call has returned.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/wait_list.hpp>
#include <coir/this_fiber.hpp>

namespace coir::inline COIR_ABI {
namespace detail {

class barrier_core {
 public:
  using count = std::int64_t;
  using phase = std::uint64_t;

  static constexpr count max = INT64_MAX >> 2;

  constexpr explicit barrier_core(count expected) : expected_(checked(expected)), remaining_(expected) {}
  ~barrier_core() { waiters_.check_unused("barrier", this); }

  struct arrival {
    phase joined;
    bool last;  // if so, the caller runs the completion function and calls end_phase()
  };
  arrival arrive(count n, bool drop);
  void end_phase() noexcept;
  void wait(phase joined);

  /// A wait for the end of a phase; see queued_wait.hpp.
  class phase_wait : public queued_wait {
   public:
    /// `joined` is the phase of the arrival.
    phase_wait(barrier_core& of, phase joined) noexcept : of_(&of), joined_(joined) {}

    wait_place place() const noexcept { return of_->waiters_.place(); }  ///< the barrier's waiters
    wait_reason why() const noexcept { return {"barrier wait", of_}; }   ///< for reports
    bool enter() noexcept;          ///< false: the phase has not ended, and the barrier's lock is held
    wake leave(wake how) noexcept;  ///< unlocks; returns `how`

   protected:
    void join(phase p) noexcept { joined_ = p; }  ///< sets the phase, if it is not known before the arrival

   private:
    barrier_core* of_;
    phase joined_;
  };

 private:
  static constexpr count checked(count n) {
    if (n < 0 || n > max) throw std::invalid_argument("coir: a barrier's count out of range");
    return n;
  }

  wait_list waiters_;  // its lock guards all that follows
  phase phase_ = 0;
  count expected_;   // in the next phase
  count remaining_;  // in this one
};

struct no_completion {
  void operator()() const noexcept {}
};

}  // namespace detail

/// As std::barrier, for fibers and threads.
template <class CompletionFunction = detail::no_completion>
class barrier {
  static_assert(std::is_nothrow_invocable_v<CompletionFunction&>, "coir: a barrier's completion must not throw");

  class arrival_wait final : public detail::barrier_core::phase_wait {
   public:
    explicit arrival_wait(barrier& at) noexcept : phase_wait(at.core_, 0), at_(&at) {}

    bool try_now() {
      this->join(at_->arrive_as(1, false));
      return false;
    }

   private:
    barrier* at_;
  };

 public:
  /// The phase that an arrival belongs to.
  class arrival_token {
   public:
    /// An arrival_token can be moved and not copied. Wait with the one that was moved to.
    arrival_token(arrival_token&&) noexcept = default;
    /// The same.
    arrival_token& operator=(arrival_token&&) noexcept = default;

   private:
    friend barrier;
    explicit arrival_token(detail::barrier_core::phase p) noexcept : phase_(p) {}
    detail::barrier_core::phase phase_;
  };

  /// Throws std::invalid_argument if expected is negative or more than max().
  constexpr explicit barrier(std::int64_t expected, CompletionFunction completion = CompletionFunction())
      : core_(expected), completion_(std::move(completion)) {}
  barrier(const barrier&) = delete;
  barrier& operator=(const barrier&) = delete;

  /// The largest number of participants.
  static constexpr std::int64_t max() noexcept { return detail::barrier_core::max; }

  /// Arrives n times. Does not block, but the last to arrive runs the completion function, which may. Throws
  /// std::logic_error if fewer than n arrivals are still expected, and std::invalid_argument if n is not positive.
  [[nodiscard]] arrival_token arrive(std::int64_t n = 1) { return arrival_token{arrive_as(n, false)}; }

  /// Blocks until the arrival's phase has ended. A cancellation point if it has to wait: throws `cancelled`. The
  /// arrival counts all the same.
  void wait(arrival_token&& arrived) const { core_.wait(arrived.phase_); }

  /// As wait(arrive()).
  void arrive_and_wait() { core_.wait(arrive_as(1, false)); }

  /// `co_await b.async_wait(std::move(token))` and `co_await b.async_arrive_and_wait()` in a coir::async: as wait() and
  /// arrive_and_wait(), but the coroutine waits instead of a fiber. async_arrive_and_wait() arrives when it is awaited.
  detail::queue_awaiter<detail::barrier_core::phase_wait> async_wait(arrival_token&& arrived) const noexcept {
    return detail::queue_awaiter<detail::barrier_core::phase_wait>(std::in_place, core_, arrived.phase_);
  }
  /// For coroutines: `co_await` of it does what arrive_and_wait() does.
  detail::queue_awaiter<arrival_wait> async_arrive_and_wait() noexcept {
    return detail::queue_awaiter<arrival_wait>(std::in_place, *this);
  }

  /// Arrives once, and is no longer expected in the phases to come. Otherwise as arrive().
  void arrive_and_drop() { arrive_as(1, true); }

 private:
  void complete() noexcept {
    if constexpr (!std::is_same_v<CompletionFunction, detail::no_completion>) {
      const uncancellable guard;
      completion_();
    }
  }

  detail::barrier_core::phase arrive_as(std::int64_t n, bool drop) {
    const auto arrived = core_.arrive(n, drop);
    if (arrived.last) {
      complete();
      core_.end_phase();
    }
    return arrived.joined;
  }

  mutable detail::barrier_core core_;  // mutable: wait() is const, as std::barrier's
  CompletionFunction completion_;
};

}  // namespace coir
