// once and call_once: a function runs exactly once, and all callers wait until it has. As std::call_once.
//
//   coir::once opened;
//   coir::call_once(opened, [&] { file.open(); });
//
// Thread safety: any number of fibers and threads may use a once. The one call that succeeds happens before every
// call_once() returns. A once may be destroyed as soon as a call_once() on it has returned, if no other call is under
// way except those that the same success wakes up.
#pragma once

#include <atomic>
#include <functional>
#include <type_traits>
#include <utility>

#include <coir/async.hpp>
#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/is_async.hpp>
#include <coir/detail/wait_list.hpp>

namespace coir::inline COIR_ABI {

class once;
template <class F, class... Args>
void call_once(once& flag, F&& f, Args&&... args);
template <class F>
async<void> async_call_once(once& flag, F&& f);

/// As std::once_flag with std::call_once, for fibers and threads.
class once {
 public:
  constexpr once() noexcept = default;
  ~once() { waiters_.check_unused("once", this); }
  once(const once&) = delete;
  once& operator=(const once&) = delete;

 private:
  template <class F, class... Args>
  friend void call_once(once& flag, F&& f, Args&&... args);
  template <class F>
  friend async<void> async_call_once(once& flag, F&& f);
  template <class F>
  static async<void> async_call(once& flag, F f);

  /// The wait until the call has succeeded or it is this caller's turn; see queued_wait.hpp.
  class turn final : public detail::queued_wait {
   public:
    explicit turn(once& of) noexcept : of_(&of) {}

    detail::wait_place place() const noexcept { return of_->waiters_.place(); }
    detail::wait_reason why() const noexcept { return {"call_once", of_}; }
    bool enter() noexcept;
    detail::wake leave(detail::wake how) noexcept;
    bool outcome(detail::wake how) const;

   private:
    once* of_;
  };

  bool begin();  // true: the caller runs f, then calls one of
  detail::queue_awaiter<turn> async_begin() noexcept { return detail::queue_awaiter<turn>(std::in_place, *this); }
  void succeed() noexcept;
  void fail() noexcept;  // the first waiting caller tries next, or else the next one to come

  std::atomic<bool> done_{false};  // set last
  bool running_ = false;           // guarded by the lock of waiters_, as the next
  bool succeeded_ = false;
  detail::wait_list waiters_;
};

/// Calls f(args...) unless a call for this flag has succeeded. If another call is running f, blocks until that call
/// ends. If f throws, its caller gets the exception, and a waiting caller, or the next one, tries again. f must not
/// call call_once with the same flag: it would wait for itself. A cancellation point if it has to wait: throws
/// `cancelled`.
template <class F, class... Args>
void call_once(once& flag, F&& f, Args&&... args) {
  detail::check_has_run<std::invoke_result_t<F, Args...>>();
  detail::decide(detail::operation::once, &flag);
  // acquire: pairs with the release in succeed().
  if (flag.done_.load(std::memory_order_acquire) || !flag.begin()) return;
  try {
    std::invoke(std::forward<F>(f), std::forward<Args>(args)...);
  } catch (...) {
    flag.fail();
    throw;
  }
  flag.succeed();
}

/// `co_await async_call_once(flag, f)` in a coir::async: as call_once(), but the coroutine waits instead of a fiber.
/// Coroutines and callers of call_once() may share a flag. f is an ordinary function, or it returns an async, which is
/// awaited. The flag must outlive the call. Allocates a frame.
template <class F>
async<void> async_call_once(once& flag, F&& f) {
  detail::check_made_in_co_await<F>();
  return once::async_call<std::decay_t<F>>(flag, std::forward<F>(f));
}

template <class F>
async<void> once::async_call(once& flag, F f) {
  // acquire: pairs with the release in succeed().
  if (flag.done_.load(std::memory_order_acquire)) co_return;
  const bool mine = co_await flag.async_begin();
  if (!mine) co_return;
  try {
    if constexpr (detail::is_async<std::invoke_result_t<F&>>)
      static_cast<void>(co_await f());
    else
      static_cast<void>(f());
  } catch (...) {
    flag.fail();
    throw;
  }
  flag.succeed();
}

}  // namespace coir
