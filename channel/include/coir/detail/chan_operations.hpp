// Sending and receiving, typed: the inlined uncontended paths, and behind them the blocking ones. Every operation of
// the handles in <coir/chan.hpp> and every select case is one of these. Not for users. A null core is the nil channel.
//
// T's move constructor, and the destructor of a T that was moved from, run under the channel's lock; every other code
// of the user (assignment, destruction of an old value, clocks) is kept out of it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/chan_core.hpp>
#include <coir/detail/decision.hpp>

namespace coir::inline COIR_ABI::detail {

template <class T>
constexpr void check_element() {
  static_assert(std::is_object_v<T> && !std::is_array_v<T> && !std::is_const_v<T> && !std::is_volatile_v<T>,
                "coir: a channel's element is an object type, not a reference, array or cv-qualified type, or void");
  static_assert(std::is_nothrow_move_constructible_v<T>,
                "coir: a channel's element type must have a move constructor that is noexcept");
  static_assert(std::is_nothrow_destructible_v<T>, "coir: a channel's element type must have a noexcept destructor");
}

[[gnu::noinline]] inline void lock_contended(chan_core& core) noexcept { core.lock.lock(); }

/// Locks; the loop of a contended lock is kept out of the callers' code.
[[gnu::always_inline]] inline void lock(chan_core& core) noexcept {
  if (!core.lock.try_lock()) [[unlikely]]
    lock_contended(core);
}

/// Ends an operation that another waiter may have had a part in.
[[gnu::always_inline]] inline void unlock_and_wake(chan_core& core, waiter* woken) noexcept {
  core.lock.unlock();
  if (woken != nullptr) unpark(*woken);
}

/// The deadline at t; 0 if that is over.
template <class Clock, class Duration>
deadline deadline_to_come(std::chrono::time_point<Clock, Duration> t) {
  const deadline end = deadline_at(t);
  return end > now() ? end : 0;
}

// ---- send: moves from `value` only on success ----------------------------------------------------------------------

/// Puts the value into the buffer if no other waiter is concerned. The lock is held.
template <class T>
[[gnu::always_inline]] inline bool put(chan_core& core, T& value) noexcept {
  if (!core.can_put()) [[unlikely]]
    return false;
  using element = typed_element<T>;
  element::construct(element::place(&core, core.tail()), std::addressof(value));
  core.added();
  return true;
}

/// It would block: sleeps. Entered with the lock held, left without. False: timed out. Throws closed_channel,
/// `cancelled`.
template <class T>
[[gnu::noinline]] bool send_waiting(chan_core& core, T& value, deadline until) {
  wait_node node;
  node.slot = std::addressof(value);
  if (!core.wait(core.senders, node, "chan send", until)) return false;
  if (!node.ok) throw_send_on_closed();
  return true;
}

/// As send_waiting(), but it may be possible at once.
template <class T>
[[gnu::noinline]] bool send_locked(chan_core& core, T& value, deadline until) {
  waiter* woken = nullptr;
  switch (core.try_send(typed_element<T>{}, std::addressof(value), woken)) {
    case attempt::done:
      unlock_and_wake(core, woken);
      return true;
    case attempt::closed:
      core.lock.unlock();
      throw_send_on_closed();
    case attempt::would_block:
      break;
  }
  return send_waiting(core, value, until);
}

template <class T>
[[gnu::always_inline]] inline void send(chan_core* core, T& value) {
  decide(operation::send, core);
  if (core == nullptr) [[unlikely]]
    park_forever({"chan send (nil chan)"});
  lock(*core);
  if (put(*core, value)) [[likely]] {
    core->lock.unlock();
    return;
  }
  send_locked(*core, value, no_deadline);
}

/// For a select, which has decided.
template <class T>
attempt send_at_once(chan_core* core, T& value) noexcept {
  if (core == nullptr || !core->may_send()) return attempt::would_block;
  lock(*core);
  waiter* woken = nullptr;
  const attempt how = core->try_send(typed_element<T>{}, std::addressof(value), woken);
  unlock_and_wake(*core, woken);
  return how;
}

template <class T>
attempt try_send(chan_core* core, T& value) noexcept {
  decide(operation::send, core);
  const attempt how = send_at_once(core, value);
  if (how == attempt::would_block) decide_after_poll(operation::send, core);
  return how;
}

/// `until()` is asked for the deadline once it is known that the send would block; 0 is long past.
template <class T, class Until>
bool send_until(chan_core* core, T& value, Until until) {
  decide(operation::send, core);
  const attempt how = send_at_once(core, value);
  if (how == attempt::done) return true;
  if (how == attempt::closed) throw_send_on_closed();
  const deadline end = until();
  if (end == 0) return false;
  if (core == nullptr) {
    wait_out("chan send (nil chan)", end);
    return false;
  }
  lock(*core);
  return send_locked(*core, value, end);
}

// ---- receive -------------------------------------------------------------------------------------------------------

/// It would block: sleeps. Entered with the lock held, left without. done, closed, or would_block for timed out. Throws
/// `cancelled`.
template <class T>
[[gnu::noinline]] attempt receive_waiting(chan_core& core, std::optional<T>& value, deadline until) {
  wait_node node;
  node.slot = &value;
  if (!core.wait(core.receivers, node, "chan receive", until)) return attempt::would_block;
  return node.ok ? attempt::done : attempt::closed;
}

/// As receive_waiting(), but it may be possible at once.
template <class T>
[[gnu::noinline]] attempt receive_locked(chan_core& core, std::optional<T>& value, deadline until) {
  waiter* woken = nullptr;
  const attempt how = core.try_receive(typed_element<T>{}, &value, woken);
  if (how == attempt::would_block) return receive_waiting(core, value, until);
  unlock_and_wake(core, woken);
  return how;
}

/// The blocking half of receive(): apart, so that the value of the fast one stays in registers.
template <class T>
[[gnu::noinline]] std::optional<T> receive_slowly(chan_core& core) {
  std::optional<T> value;
  receive_locked(core, value, no_deadline);
  return value;
}

template <class T>
[[gnu::always_inline]] inline std::optional<T> receive(chan_core* core) {
  decide(operation::receive, core);
  if (core == nullptr) [[unlikely]]
    park_forever({"chan receive (nil chan)"});
  lock(*core);
  if (!core->can_take()) [[unlikely]]
    return receive_slowly<T>(*core);
  using element = typed_element<T>;
  void* first = element::place(core, core->head());
  if constexpr (std::is_trivially_copyable_v<T> && sizeof(T) <= 2 * sizeof(void*) && element::stored) {
    T value(std::move(*static_cast<T*>(first)));  // as T may be move-only all the same
    core->removed();
    core->lock.unlock();
    return std::optional<T>(std::in_place, std::move(value));
  } else {
    std::optional<T> value;
    element::emplace(&value, first);
    element::destroy(first);
    core->removed();
    core->lock.unlock();
    return value;
  }
}

template <class T>
attempt receive_at_once(chan_core* core, std::optional<T>& value) noexcept {
  if (core == nullptr || !core->may_receive()) return attempt::would_block;
  lock(*core);
  waiter* woken = nullptr;
  const attempt how = core->try_receive(typed_element<T>{}, &value, woken);
  unlock_and_wake(*core, woken);
  return how;
}

template <class T>
attempt try_receive(chan_core* core, std::optional<T>& value) noexcept {
  decide(operation::receive, core);
  const attempt how = receive_at_once(core, value);
  if (how == attempt::would_block) decide_after_poll(operation::receive, core);
  return how;
}

/// As send_until(). would_block means timed out.
template <class T, class Until>
attempt receive_until(chan_core* core, std::optional<T>& value, Until until) {
  decide(operation::receive, core);
  const attempt how = receive_at_once(core, value);
  if (how != attempt::would_block) return how;
  const deadline end = until();
  if (end == 0) return attempt::would_block;
  if (core == nullptr) {
    wait_out("chan receive (nil chan)", end);
    return attempt::would_block;
  }
  lock(*core);
  return receive_locked(*core, value, end);
}

}  // namespace coir::detail
