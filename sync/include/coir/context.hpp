// context: tells the fibers and threads that work on a request when its result is no longer wanted, and what its
// deadline is. It also carries values. As Go's package context.
//
//   auto [ctx, cancel] = coir::with_timeout(parent, 2s);
//   coir::go([ctx = ctx] { serve(ctx); });
//   ...
//   cancel();  // ctx.done() is closed, ctx.err() says why; what hangs below ctx ends with it
//
//   coir::select(coir::on_recv(ctx.done()), coir::on_recv(work, [](std::optional<job> j) { ... }));
//
// A context signals; it does not interrupt a fiber (timeout(), task_group and task::request_stop() do). Contexts form a
// tree. Ending a context ends all contexts that were made from it, but never its parent. A context made from an ended
// one is ended from the start. A context ends once: by its cancel function, by its deadline (its own, or an earlier one
// above), or with its parent.
//
// A context is a cheap shared handle, and so is a cancel function. A default-constructed context is the background. A
// default-constructed cancel function does nothing. Dropping handles cancels nothing, and a program need not call the
// cancel function. A context is freed, with its timer and its place in the parent's list, when no handle, no cancel
// function, no context below it and no done channel refers to it. A cancelled context leaves that list at once.
//
// Thread safety: fibers and plain threads may call all members at once. A single handle *object* is like a
// std::shared_ptr.
// Happens-before: cancel(cause) happens before a receive from done() that returns because of it. err() is set by then.
//
// The runtime of the fiber that made a context keeps its deadline, but not after the runtime has ended. If a plain
// thread made it, a thread of the library keeps the deadline. In a chain of contexts, only the earliest deadline is
// kept, once: a context with a later deadline than its parent's ends with the parent's deadline, or not at all. A
// pending deadline counts as a timer for deadlock detection.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/context_node.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/park.hpp>
#include <coir/task_group.hpp>  // what belongs to cancellation is found through either header
#include <coir/timeout.hpp>

namespace coir::inline COIR_ABI {

namespace detail {
struct context_access;
}

class context {
 public:
  /// The background: it never ends and has no deadline and no values.
  context() noexcept = default;
  static context background() noexcept { return {}; }

  /// A channel that is closed when the context ends. Nothing is ever sent to it. It is the nil channel if the context
  /// can never end; a select then never takes that case. Does not block. Throws std::bad_alloc.
  recv_chan<void> done() const {
    const auto node = cancellable();
    return node != nullptr ? node->done() : recv_chan<void>();
  }

  /// Why the context has ended: context_cancelled, or `timed_out` if a deadline passed. Null while the context is live.
  std::exception_ptr err() const noexcept {
    detail::decide(detail::operation::look_at_context, node_.get());
    const auto node = cancellable();
    return node != nullptr ? node->error() : nullptr;
  }

  /// The cause that the cancel function was given, here or above. err() if it was given none. Null while the context is
  /// live.
  std::exception_ptr cause() const noexcept {
    detail::decide(detail::operation::look_at_context, node_.get());
    const auto node = cancellable();
    return node != nullptr ? node->cause() : nullptr;
  }

  /// When the context will have ended at the latest, if that is known; nullopt otherwise.
  std::optional<std::chrono::steady_clock::time_point> deadline() const noexcept;

  /// The value of the nearest with_value() whose key is equal. Null if there is none, or if the value is not a T. Keys
  /// are compared by == within their type. A string literal, a std::string_view and a std::string are one type. The
  /// pointer is valid as long as this context or one made from it. Throws what == and copying the key throw.
  template <class T, class K>
  const T* value(const K& key) const {
    using stored = detail::context_key<K>;
    if constexpr (std::is_same_v<K, stored>) {
      return static_cast<const T*>(find(typeid(stored), std::addressof(key), typeid(T)));
    } else {
      const stored wanted(key);
      return static_cast<const T*>(find(typeid(stored), std::addressof(wanted), typeid(T)));
    }
  }

 private:
  friend struct detail::context_access;

  explicit context(detail::node_handle node) noexcept : node_(std::move(node)) {}

  detail::cancel_node* cancellable() const noexcept { return node_.get() != nullptr ? node_.get()->scope() : nullptr; }
  const void* find(const std::type_info& key_type, const void* key, const std::type_info& type) const;

  detail::node_handle node_;
};

/// Ends the context that it was made with. A copyable handle.
class cancel_function {
 public:
  cancel_function() noexcept = default;

  /// Ends the context and all contexts below it, with this cause. Returns when they have ended. If another call is
  /// ending them at that time, waits for it without parking. The first call counts. May be called from any fiber or
  /// thread. Does not block, and is not a cancellation point.
  void operator()(const std::exception_ptr& cause = {}) const noexcept;

 private:
  friend struct detail::context_access;

  explicit cancel_function(detail::node_handle node) noexcept : node_(std::move(node)) {}

  detail::node_handle node_;
};

namespace detail {

struct context_access {
  static context_node* node(const context& c) noexcept { return c.node_.get(); }
  static context make(node_handle node) noexcept { return context(std::move(node)); }
  static std::pair<context, cancel_function> cancellable(const context& parent, deadline when);
};

/// A deadline of 150 years before the clock's zero instead of an earlier one, so that what is left of it can be
/// computed without an overflow.
inline constexpr deadline earliest_shown = std::numeric_limits<deadline>::min() / 2;

/// now() + d. Unlike that of a wait it is shown, so it may lie in the past, and before the clock's zero, too.
template <class Rep, class Period>
deadline context_deadline(std::chrono::duration<Rep, Period> d) {
  return d > d.zero() ? deadline_after(d) : std::max(now() + clamped_nanoseconds(d), earliest_shown);
}

/// t, by the steady clock.
template <class Clock, class Duration>
deadline context_deadline(std::chrono::time_point<Clock, Duration> t) {
  if constexpr (std::is_same_v<Clock, std::chrono::steady_clock>) {
    return std::clamp(clamped_nanoseconds(t.time_since_epoch()), earliest_shown, no_deadline - 1);
  } else {
    return context_deadline(time_between(Clock::now(), t));
  }
}

}  // namespace detail

/// A context below `parent`, and the function that ends it. Throws std::bad_alloc.
[[nodiscard]] inline std::pair<context, cancel_function> with_cancel(const context& parent) {
  return detail::context_access::cancellable(parent, detail::no_deadline);
}

/// The same with a deadline, at which the context ends as `timed_out`. It ends at once if the deadline has passed, and
/// with the parent's deadline if that is earlier. Throws std::bad_alloc, and std::system_error if the library's timer
/// thread is needed and cannot be started.
template <class Rep, class Period>
[[nodiscard]] std::pair<context, cancel_function> with_timeout(const context& parent,
                                                               std::chrono::duration<Rep, Period> d) {
  return detail::context_access::cancellable(parent, detail::context_deadline(d));
}
/// The same with the deadline t. A clock other than steady_clock is read now.
template <class Clock, class Duration>
[[nodiscard]] std::pair<context, cancel_function> with_deadline(const context& parent,
                                                                std::chrono::time_point<Clock, Duration> t) {
  return detail::context_access::cancellable(parent, detail::context_deadline(t));
}

/// A context like `parent` that also has a value for the key. Key and value live as long as the context or one made
/// from it. Their destructors run in the fiber or thread that is the last to use the context, and must not block.
/// Throws std::bad_alloc, and what copying the key and the value throws.
template <class K, class V>
[[nodiscard]] context with_value(const context& parent, K&& key, V&& value) {
  static_assert(std::equality_comparable<detail::context_key<K>>, "coir: the key of a context's value needs an ==");
  using node = detail::value_node<detail::context_key<K>, std::decay_t<V>>;
  return detail::context_access::make(detail::node_handle(
      new node(detail::context_access::node(parent), std::forward<K>(key), std::forward<V>(value))));
}

}  // namespace coir
