// wait_group: waits until a number of fibers (or threads) are done; Go's sync.WaitGroup.
//
//   coir::wait_group group;
//   for (auto& page : pages) group.go([&page] { fetch(page); });
//   group.wait();
//
// Thread safety: fibers and threads may call all members at once. A wait_group is reusable: once wait() has returned,
// add() begins the next round. An add() that makes the count positive must happen before the wait() that is to see it.
// A wait_group may be destroyed as soon as wait() returns. A wait() that is being cancelled needs it until it has
// thrown.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/countdown.hpp>
#include <coir/detail/local_table.hpp>
#include <coir/runtime.hpp>
#include <coir/source_location.hpp>

namespace coir::inline COIR_ABI {

/// Waits until a number of fibers are done. As Go's sync.WaitGroup.
class wait_group {
 public:
  constexpr wait_group() noexcept = default;
  wait_group(const wait_group&) = delete;
  wait_group& operator=(const wait_group&) = delete;

  /// Changes the count by n. A negative n does as many done(). Does not block. Throws std::logic_error if the count
  /// would become negative, and std::length_error if it would become too large; the count is then unchanged.
  void add(std::int64_t n = 1) {
    if (n > 0)
      count_.add(n);
    else if (n < 0)
      count_.subtract(n == INT64_MIN ? INT64_MAX : -n);
  }

  /// Decrements the count. At zero, wakes all waiters. Does not block. Throws as add(-1). It happens before the return
  /// of each wait() that it ends.
  void done() { count_.subtract(1); }

  /// Blocks until the count is zero. A cancellation point if it has to wait. If it throws `cancelled`, it has not
  /// waited, and fibers that are counted may still be running. If these use variables of the caller, use task_group
  /// instead.
  void wait() { count_.wait(); }

  /// `co_await group.async_wait()` in a coir::async: as wait(), but the coroutine waits instead of a fiber.
  detail::queue_awaiter<detail::countdown::zero_wait> async_wait() noexcept {
    return detail::queue_awaiter<detail::countdown::zero_wait>(std::in_place, count_);
  }

  /// Starts f as coir::go does, and counts it until it has ended. It may end by an exception too, which then has the
  /// effect that it has in a `go` fiber. What f captured, and its fiber_locals, are destroyed before it counts as done.
  /// Does not block. Throws not_in_runtime outside a fiber, and std::bad_alloc.
  template <class F>
  void go(F&& f, source_location at = source_location::current()) {
    static_assert(std::is_invocable_v<std::decay_t<F>>,
                  "coir: a fiber's function takes no arguments (capture instead)");
    if constexpr (std::is_invocable_v<std::decay_t<F>>) start(std::forward<F>(f), at);
  }

 private:
  template <class F>
  void start(F&& f, source_location at) {
    static_assert(!detail::is_async<std::invoke_result_t<std::decay_t<F>>>,
                  "coir: this would drop the async and not run it; spawn() it");
    using record = detail::go_record<counted<std::decay_t<F>>>;
    detail::scheduler& where = detail::current_scheduler("coir::wait_group::go");
    add(1);
    try {
      detail::start(where, detail::make_record<record>(std::forward_as_tuple(*this, std::forward<F>(f)), at));
    } catch (...) {
      done();
      throw;
    }
    detail::decide(detail::operation::spawn, this);
  }

  /// f, made and destroyed where it runs: nothing that it captured may be left when it counts as done.
  template <class F>
  struct counted {
    template <class G>
    explicit counted(std::tuple<wait_group&, G>&& from)
        : group(std::get<0>(from)), body(std::in_place, std::forward<G>(std::get<1>(from))) {}

    void operator()() {
      struct at_end {
        counted& self;
        ~at_end() {
          self.body.reset();
          detail::end_locals();
          self.group.done();
        }
      } const ends{*this};
      std::move (*body)();
    }

    wait_group& group;
    std::optional<F> body;
  };

  detail::countdown count_{0, "wait_group"};
};

}  // namespace coir
