// Typed channels, as Go has them: values pass from fiber to fiber (or plain thread) in order, each to one receiver.
//
//   coir::chan<int> ch = coir::make_chan<int>(16);
//   coir::go([ch] { for (int i = 0; i < 100; ++i) ch.send(i);  ch.close(); });
//   for (int v : ch) use(v);
//
// chan<T> is a cheap shared handle. Copies refer to the same channel, which lives as long as any handle to it. Values
// that are left in the channel are destroyed with it. A default-constructed handle is the nil channel. A send to it or
// a receive from it blocks forever, its try forms never succeed, and its len() and cap() are 0. send_chan<T> and
// recv_chan<T> have one direction each; a chan<T> converts to both.
//
// A channel holds up to `capacity` values. With capacity 0, a send waits until a receiver takes the value. Values
// arrive in the order in which they were sent. Waiters are served in the order in which they came. T may be move-only
// and need not be default-constructible, but its move constructor must not throw. The move constructor, and the
// destructor of a moved-from T, run under the spin lock of the channel; in a select, under the spin locks of all its
// channels. Both must neither use any channel nor block.
//
// Thread safety: any number of fibers and threads may call every member on one channel at once. A single handle
// *object* is like a std::shared_ptr: only const use is safe at the same time as other const use.
//
// Happens-before (the Go memory model): a send happens before its receive completes. The k-th receive on a channel of
// capacity C happens before the (k+C)-th send completes. close() happens before a receive that returns because of it.
//
// Exceptions: closed_channel, as the functions below say. Every call that blocks in a cancelled fiber throws
// `cancelled`; it has then neither sent nor received anything.
//
// Code that cannot block uses async_recv() and async_send(). A coroutine awaits them (<coir/async.hpp>). Or they take a
// callback: a function that runs in a fiber of its own once the operation is done. A waiting callback counts like a
// go() fiber that blocks there: run() waits for it, and the report of a deadlock lists it. If it is cancelled, it ends
// in silence; its function is destroyed, and so is the value that it would have sent. A waiting callback keeps the
// channel alive.
//
// Semantics: the Go specification, "Channel types", "Send statements", "Receive operator", "Close".
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/chan_async.hpp>
#include <coir/detail/chan_iterator.hpp>
#include <coir/detail/chan_operations.hpp>
#include <coir/error.hpp>
#include <coir/source_location.hpp>

namespace coir::inline COIR_ABI {

/// How a send ended. done: the value was taken or buffered. Otherwise the value is still with the caller.
enum class send_status { done, would_block, closed, timed_out };

/// How a receive ended. closed: the channel is closed and drained.
enum class recv_status { done, would_block, closed, timed_out };

namespace detail {

/// T as the channel stores it: void as unit.
template <class T>
using stored = std::conditional_t<std::is_void_v<T>, unit, T>;

/// The members that all three kinds of handle have.
class chan_handle {
 public:
  /// How many values are buffered. The number may be out of date when the caller sees it. 0 for the nil channel. Does
  /// not block.
  std::size_t len() const noexcept {
    detail::decide(detail::operation::look_at_channel, core());
    return core() != nullptr ? core()->count() : 0;
  }
  /// How many values can be buffered. 0 for the nil channel. Does not block.
  std::size_t cap() const noexcept { return core() != nullptr ? core()->capacity() : 0; }

  /// Whether this is the nil channel. Does not block.
  bool is_nil() const noexcept { return core() == nullptr; }
  /// Whether this is not the nil channel.
  explicit operator bool() const noexcept { return core() != nullptr; }

 protected:
  chan_handle() noexcept = default;
  /// Takes over a reference to a channel; null: the nil channel.
  explicit chan_handle(core_reference core) noexcept : core_(std::move(core)) {}

  /// The channel; null: the nil channel.
  chan_core* core() const noexcept { return core_.get(); }

 private:
  friend struct chan_access;

  core_reference core_;
};

struct chan_access {
  static chan_core* core(const chan_handle& h) noexcept { return h.core_.get(); }
  static bool same(const chan_handle& a, const chan_handle& b) noexcept { return core(a) == core(b); }
  static const core_reference& reference(const chan_handle& h) noexcept { return h.core_; }
  static core_reference&& take_reference(chan_handle&& h) noexcept { return std::move(h.core_); }
  template <class Chan>
  static Chan make(core_reference core) noexcept {
    return Chan(std::move(core));
  }
};

/// How a send ended that did not wait.
inline send_status sent(attempt a) noexcept {
  return a == attempt::done ? send_status::done : a == attempt::closed ? send_status::closed : send_status::would_block;
}

/// How a receive ended; `if_not`: the status of one that got nothing from an open channel.
inline recv_status received(attempt a, recv_status if_not) noexcept {
  return a == attempt::done ? recv_status::done : a == attempt::closed ? recv_status::closed : if_not;
}

/// The sending members of Handle, which is derived from this and from chan_handle.
template <class Handle, class T>
class send_members {
  static_assert(std::is_object_v<T>, "coir: a channel's element is an object type, or void");

 public:
  /// Sends. Blocks until a receiver has taken the value or the buffer has room. Throws closed_channel if the channel is
  /// closed, also if that happens meanwhile. An rvalue is then left as it was.
  void send(T&& value) const { detail::send<T>(core(), value); }
  /// The same with a copy of the value. Also throws what making the copy throws.
  void send(const T& value) const
    requires std::is_copy_constructible_v<T>
  {
    T copy(value);
    detail::send<T>(core(), copy);
  }

  /// Sends if that is possible at once. Never blocks. An rvalue is moved from only if the result is `done`; otherwise
  /// it is left as it was. An lvalue is copied.
  send_status try_send(T&& value) const noexcept { return sent(detail::try_send<T>(core(), value)); }
  /// The same with a copy of the value, which is not made if the channel is seen to have no room. Throws what making
  /// the copy throws.
  send_status try_send(const T& value) const
    requires std::is_copy_constructible_v<T>
  {
    if (core() == nullptr || !core()->may_send()) return send_status::would_block;  // then nothing is copied
    T copy(value);
    return sent(detail::try_send<T>(core(), copy));
  }

  /// Sends, but waits no longer than d, or until t. Returns false if the time was over first. If the time is over
  /// already, it tries once. An rvalue is moved from only if the result is true, not if an exception is thrown. An
  /// lvalue is copied. Throws closed_channel and `cancelled`.
  template <class Rep, class Period>
  bool send_for(T&& value, std::chrono::duration<Rep, Period> d) const {
    return detail::send_until<T>(core(), value, [&] { return deadline_after(d); });
  }
  /// The same with a copy of the value. Also throws what making the copy throws.
  template <class Rep, class Period>
  bool send_for(const T& value, std::chrono::duration<Rep, Period> d) const
    requires std::is_copy_constructible_v<T>
  {
    T copy(value);
    return send_for(std::move(copy), d);
  }
  /// As send_for(), but waits no longer than until t.
  template <class Clock, class Duration>
  bool send_until(T&& value, std::chrono::time_point<Clock, Duration> t) const {
    return detail::send_until<T>(core(), value, [&] { return deadline_to_come(t); });
  }
  /// The same with a copy of the value. Also throws what making the copy throws.
  template <class Clock, class Duration>
  bool send_until(const T& value, std::chrono::time_point<Clock, Duration> t) const
    requires std::is_copy_constructible_v<T>
  {
    T copy(value);
    return send_until(std::move(copy), t);
  }

  /// `co_await ch.async_send(v)` in a coir::async: as send(), but the coroutine waits instead of a fiber. Throws
  /// closed_channel and `cancelled`; the value is then destroyed with the expression. Throws std::logic_error if the
  /// awaiter is kept and awaited a second time.
  send_awaiter<T> async_send(T value) const noexcept { return send_awaiter<T>(core(), std::move(value)); }

  /// Sends, and then runs f in a fiber of its own: f(send_status) with `done` or `closed`, or f(). If f takes no status
  /// and the channel is closed, this is as an exception that leaves a go() fiber: it ends the process. Never blocks.
  /// Throws not_in_runtime outside a fiber, and std::bad_alloc.
  template <class F>
  void async_send(T value, F&& f, source_location at = source_location::current()) const {
    send_callback<T, std::decay_t<F>, send_status>::leave(reference(), std::move(value), std::forward<F>(f), at);
  }

  /// Closes the channel: nothing more can be sent. Wakes every blocked receiver and sender. Buffered values can still
  /// be received. Does not block. Throws closed_channel on a closed or nil channel.
  void close() const { close_core(core()); }

 private:
  chan_core* core() const noexcept { return chan_access::core(static_cast<const Handle&>(*this)); }
  const core_reference& reference() const noexcept { return chan_access::reference(static_cast<const Handle&>(*this)); }
};

/// The same without a value.
template <class Handle>
class send_members<Handle, void> {
 public:
  /// Sends. Blocks until a receiver has come or the buffer has room. Throws closed_channel if the channel is closed,
  /// also if that happens meanwhile, and `cancelled`.
  void send() const {
    unit token;
    detail::send<unit>(core(), token);
  }
  /// Sends if that is possible at once. Never blocks.
  send_status try_send() const noexcept {
    unit token;
    return sent(detail::try_send<unit>(core(), token));
  }
  /// Sends, but waits no longer than d. Returns false if the time was over first. If the time is over already, it tries
  /// once. Throws closed_channel and `cancelled`.
  template <class Rep, class Period>
  bool send_for(std::chrono::duration<Rep, Period> d) const {
    unit token;
    return detail::send_until<unit>(core(), token, [&] { return deadline_after(d); });
  }
  /// As send_for(), but waits no longer than until t.
  template <class Clock, class Duration>
  bool send_until(std::chrono::time_point<Clock, Duration> t) const {
    unit token;
    return detail::send_until<unit>(core(), token, [&] { return deadline_to_come(t); });
  }
  /// `co_await ch.async_send()` in a coir::async: as send(), but the coroutine waits instead of a fiber. Throws
  /// closed_channel and `cancelled`. Throws std::logic_error if the awaiter is kept and awaited a second time.
  send_awaiter<unit> async_send() const noexcept { return send_awaiter<unit>(core(), {}); }
  /// Sends, and then runs f in a fiber of its own: f(send_status) with `done` or `closed`, or f(). If f takes no status
  /// and the channel is closed, this is as an exception that leaves a go() fiber: it ends the process. Never blocks.
  /// Throws not_in_runtime outside a fiber, and std::bad_alloc.
  template <class F>
  void async_send(F&& f, source_location at = source_location::current()) const {
    send_callback<unit, std::decay_t<F>, send_status>::leave(reference(), {}, std::forward<F>(f), at);
  }
  /// Closes the channel: nothing more can be sent. Wakes every blocked receiver and sender. What is buffered can still
  /// be received. Does not block. Throws closed_channel on a closed or nil channel.
  void close() const { close_core(core()); }

 private:
  chan_core* core() const noexcept { return chan_access::core(static_cast<const Handle&>(*this)); }
  const core_reference& reference() const noexcept { return chan_access::reference(static_cast<const Handle&>(*this)); }
};

/// The receiving members of Handle, which is derived from this and from chan_handle.
template <class Handle, class T>
class recv_members {
  static_assert(std::is_object_v<T>, "coir: a channel's element is an object type, or void");

 public:
  /// Receives. Blocks until there is a value and returns it. Returns nullopt once the channel is closed and drained.
  // Always inlined. Otherwise GCC builds the result of a small T in memory, piece by piece, and stalls when it reads it
  // back as a whole.
  [[gnu::always_inline]] std::optional<T> recv() const { return detail::receive<T>(core()); }

  /// Receives if that is possible at once. Never blocks. `value` is assigned only if the result is `done`. (A value is
  /// moved into a T& by assignment. If the assignment throws, the caller gets the exception and the value is lost.
  /// recv() never assigns.)
  recv_status try_recv(T& value) const {
    std::optional<T> taken;
    const attempt a = detail::try_receive<T>(core(), taken);
    return assign(value, taken, a, recv_status::would_block);
  }
  /// The same into an optional. T need be neither assignable nor default-constructible for it. What the optional held
  /// is destroyed first. It is left empty unless the result is `done`.
  recv_status try_recv(std::optional<T>& value) const noexcept {
    value.reset();
    return received(detail::try_receive<T>(core(), value), recv_status::would_block);
  }

  /// Receives, but waits no longer than d, or until t. If the time is over already, it tries once. `value` is assigned
  /// only if the result is `done`.
  template <class Rep, class Period>
  recv_status recv_for(T& value, std::chrono::duration<Rep, Period> d) const {
    std::optional<T> taken;
    const attempt a = detail::receive_until<T>(core(), taken, [&] { return deadline_after(d); });
    return assign(value, taken, a, recv_status::timed_out);
  }
  /// As recv_for(), but waits no longer than until t.
  template <class Clock, class Duration>
  recv_status recv_until(T& value, std::chrono::time_point<Clock, Duration> t) const {
    std::optional<T> taken;
    const attempt a = detail::receive_until<T>(core(), taken, [&] { return deadline_to_come(t); });
    return assign(value, taken, a, recv_status::timed_out);
  }
  /// The same into an optional, as for try_recv().
  template <class Rep, class Period>
  recv_status recv_for(std::optional<T>& value, std::chrono::duration<Rep, Period> d) const {
    value.reset();
    return received(detail::receive_until<T>(core(), value, [&] { return deadline_after(d); }), recv_status::timed_out);
  }
  /// The same, but waits no longer than until t.
  template <class Clock, class Duration>
  recv_status recv_until(std::optional<T>& value, std::chrono::time_point<Clock, Duration> t) const {
    value.reset();
    return received(detail::receive_until<T>(core(), value, [&] { return deadline_to_come(t); }),
                    recv_status::timed_out);
  }

  /// `co_await ch.async_recv()` in a coir::async: as recv(), but the coroutine waits instead of a fiber. The result is
  /// a std::optional<T>. Throws `cancelled`, and std::logic_error if the awaiter is kept and awaited a second time.
  recv_awaiter<T, std::optional<T>> async_recv() const noexcept { return recv_awaiter<T, std::optional<T>>(core()); }

  /// Receives, and then runs f(std::optional<T>) in a fiber of its own. The optional has no value if the channel is
  /// closed and drained. Never blocks. Throws not_in_runtime outside a fiber, and std::bad_alloc.
  template <class F>
  void async_recv(F&& f, source_location at = source_location::current()) const {
    recv_callback<T, std::decay_t<F>>::leave(reference(), std::forward<F>(f), at);
  }

  /// `for (T v : ch)` receives until the channel is closed and drained, and blocks between the values. A single-pass
  /// range. begin() receives the first value, so it blocks too. `*i` is an rvalue, so the loop can take the value.
  chan_iterator<T> begin() const { return chan_iterator<T>(chan_access::reference(static_cast<const Handle&>(*this))); }
  /// The end of the range: the channel is closed and drained.
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  chan_core* core() const noexcept { return chan_access::core(static_cast<const Handle&>(*this)); }
  const core_reference& reference() const noexcept { return chan_access::reference(static_cast<const Handle&>(*this)); }

  static recv_status assign(T& value, std::optional<T>& taken, attempt a, recv_status if_not) {
    static_assert(std::is_move_assignable_v<T>,
                  "coir: to receive into a T&, T must be move-assignable; recv() needs not");
    if (taken) value = std::move(*taken);
    return received(a, if_not);
  }
};

/// The same without a value. recv(): false means closed and drained.
template <class Handle>
class recv_members<Handle, void> {
 public:
  /// Receives. Blocks until something has been sent (true), or the channel is closed and drained (false). Throws
  /// `cancelled`.
  bool recv() const { return detail::receive<unit>(core()).has_value(); }
  /// Receives if that is possible at once. Never blocks.
  recv_status try_recv() const noexcept {
    std::optional<unit> taken;
    return received(detail::try_receive<unit>(core(), taken), recv_status::would_block);
  }
  /// Receives, but waits no longer than d. If the time is over already, it tries once. Throws `cancelled`.
  template <class Rep, class Period>
  recv_status recv_for(std::chrono::duration<Rep, Period> d) const {
    std::optional<unit> taken;
    return received(detail::receive_until<unit>(core(), taken, [&] { return deadline_after(d); }),
                    recv_status::timed_out);
  }
  /// As recv_for(), but waits no longer than until t.
  template <class Clock, class Duration>
  recv_status recv_until(std::chrono::time_point<Clock, Duration> t) const {
    std::optional<unit> taken;
    return received(detail::receive_until<unit>(core(), taken, [&] { return deadline_to_come(t); }),
                    recv_status::timed_out);
  }
  /// `co_await ch.async_recv()` in a coir::async: as recv(), but the coroutine waits instead of a fiber. Throws
  /// `cancelled`, and std::logic_error if the awaiter is kept and awaited a second time.
  recv_awaiter<unit, bool> async_recv() const noexcept { return recv_awaiter<unit, bool>(core()); }
  /// Receives, and then runs f(bool) in a fiber of its own; false: the channel is closed and drained. Never blocks.
  /// Throws not_in_runtime outside a fiber, and std::bad_alloc.
  template <class F>
  void async_recv(F&& f, source_location at = source_location::current()) const {
    recv_callback<unit, std::decay_t<F>>::leave(reference(), std::forward<F>(f), at);
  }

 private:
  chan_core* core() const noexcept { return chan_access::core(static_cast<const Handle&>(*this)); }
  const core_reference& reference() const noexcept { return chan_access::reference(static_cast<const Handle&>(*this)); }
};

}  // namespace detail

/// Both directions.
template <class T>
class chan : public detail::chan_handle,
             public detail::send_members<chan<T>, T>,
             public detail::recv_members<chan<T>, T> {
 public:
  using value_type = T;  ///< what the channel carries; may be void

  /// The nil channel.
  chan() noexcept { detail::check_element<detail::stored<T>>(); }

  friend bool operator==(const chan& a, const chan& b) noexcept { return detail::chan_access::same(a, b); }

 private:
  friend struct detail::chan_access;
  explicit chan(detail::core_reference core) noexcept : chan_handle(std::move(core)) {}
};

/// The sending direction alone.
template <class T>
class send_chan : public detail::chan_handle, public detail::send_members<send_chan<T>, T> {
 public:
  using value_type = T;  ///< what the channel carries; may be void

  send_chan() noexcept = default;
  /// The same channel as `both`.
  send_chan(const chan<T>& both) noexcept : chan_handle(detail::chan_access::reference(both)) {}
  /// The same channel as `both`, which is nil afterwards.
  send_chan(chan<T>&& both) noexcept : chan_handle(detail::chan_access::take_reference(std::move(both))) {}

  friend bool operator==(const send_chan& a, const send_chan& b) noexcept { return detail::chan_access::same(a, b); }
};

/// The receiving direction alone.
template <class T>
class recv_chan : public detail::chan_handle, public detail::recv_members<recv_chan<T>, T> {
 public:
  using value_type = T;  ///< what the channel carries; may be void

  recv_chan() noexcept = default;
  /// The same channel as `both`.
  recv_chan(const chan<T>& both) noexcept : chan_handle(detail::chan_access::reference(both)) {}
  /// The same channel as `both`, which is nil afterwards.
  recv_chan(chan<T>&& both) noexcept : chan_handle(detail::chan_access::take_reference(std::move(both))) {}

  friend bool operator==(const recv_chan& a, const recv_chan& b) noexcept { return detail::chan_access::same(a, b); }
};

/// A new channel that holds up to `capacity` values. With 0, sender and receiver meet. Throws std::length_error if no
/// memory could hold the capacity, and std::bad_alloc.
template <class T>
[[nodiscard]] chan<T> make_chan(std::size_t capacity = 0) {
  using stored = detail::stored<T>;
  detail::check_element<stored>();
  using detail::chan_core;
  detail::core_reference core(chan_core::make(capacity, detail::typed_element<stored>::operations));
  return detail::chan_access::make<chan<T>>(std::move(core));
}

}  // namespace coir

template <class T>
struct std::hash<coir::chan<T>> {
  std::size_t operator()(const coir::chan<T>& c) const noexcept {
    return std::hash<void*>{}(coir::detail::chan_access::core(c));
  }
};

template <class T>
struct std::hash<coir::send_chan<T>> {
  std::size_t operator()(const coir::send_chan<T>& c) const noexcept {
    return std::hash<void*>{}(coir::detail::chan_access::core(c));
  }
};

template <class T>
struct std::hash<coir::recv_chan<T>> {
  std::size_t operator()(const coir::recv_chan<T>& c) const noexcept {
    return std::hash<void*>{}(coir::detail::chan_access::core(c));
  }
};
