// once and call_once: something is done exactly once, and all who want it done wait for it; as std::call_once.
//
//   coir::once opened;
//   coir::call_once(opened, [&] { file.open(); });
//
// Thread safety: any number of fibers and threads. The one call that succeeds happens before every call_once() returns.
// A once may be destroyed as soon as a call_once() on it has returned and no other is under way but those that are
// waking up because of the same success.
#pragma once

#include <atomic>
#include <functional>
#include <type_traits>
#include <utility>

#include <coir/is_async.hpp>
#include <coir/wait_list.hpp>

namespace coir {

class once;
template <class F, class... Args>
void call_once(once& flag, F&& f, Args&&... args);

class once {
 public:
  constexpr once() noexcept = default;
  ~once() { waiters_.check_unused("once", this); }
  once(const once&) = delete;
  once& operator=(const once&) = delete;

 private:
  template <class F, class... Args>
  friend void call_once(once& flag, F&& f, Args&&... args);

  bool begin();  // true: the caller is to do it, then to call one of
  void succeed() noexcept;
  void fail() noexcept;  // the first who waits does it, else the next who comes

  std::atomic<bool> done_{false};  // set last
  bool running_ = false;           // guarded by the lock of waiters_, as the next
  bool succeeded_ = false;
  detail::wait_list waiters_;
};

/// Calls f(args...) unless that has been done for this flag. If another is doing it, blocks until it is done; if f
/// throws, the exception goes to its caller, and one who waits, or the next who comes, tries in its place. f must not
/// call call_once with the same flag: it would wait for itself. Throws `cancelled` if it would block.
template <class F, class... Args>
void call_once(once& flag, F&& f, Args&&... args) {
  detail::check_has_run<std::invoke_result_t<F, Args...>>();
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

}  // namespace coir
