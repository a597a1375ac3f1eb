// What the cases of select() and of select_set are made from: channels, values to send, times, handlers. Not for users.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <coir/chan.hpp>
#include <coir/detail/abi.hpp>
#include <coir/detail/is_async.hpp>
#include <coir/detail/select_case.hpp>

namespace coir::inline COIR_ABI::detail {

template <class>
inline constexpr bool is_receivable = false;
template <class T>
inline constexpr bool is_receivable<chan<T>> = true;
template <class T>
inline constexpr bool is_receivable<recv_chan<T>> = true;

template <class>
inline constexpr bool is_sendable = false;
template <class T>
inline constexpr bool is_sendable<chan<T>> = true;
template <class T>
inline constexpr bool is_sendable<send_chan<T>> = true;

/// A handle to receive from, or to send to.
template <class Chan>
concept receivable = is_receivable<std::remove_cvref_t<Chan>>;
template <class Chan>
concept sendable = is_sendable<std::remove_cvref_t<Chan>>;
template <class Chan>
concept sends_void = std::is_void_v<typename std::remove_cvref_t<Chan>::value_type>;

/// A channel whose handle outlives the case; or the reference of a temporary handle.
class borrowed_channel {
 public:
  explicit borrowed_channel(const chan_handle& kept) noexcept : core_(chan_access::core(kept)) {}
  explicit borrowed_channel(chan_handle&& given) noexcept
      : owner_(chan_access::take_reference(std::move(given))), core_(owner_.get()) {}

  chan_core* core() const noexcept { return core_; }

 private:
  core_reference owner_;
  chan_core* core_;
};

/// A value to send that was copied, or converted, into the case.
template <class T>
class owned_operand {
 public:
  template <class V>
    requires(!std::same_as<std::remove_cvref_t<V>, owned_operand>)
  explicit owned_operand(V&& value) : value_(static_cast<T>(std::forward<V>(value))) {}
  T& get() noexcept { return value_; }

 private:
  T value_;
};

/// A value to send that stays where it is, unless it is sent.
template <class T>
class borrowed_operand {
 public:
  explicit borrowed_operand(T&& value) noexcept : value_(std::addressof(value)) {}
  T& get() noexcept { return *value_; }

 private:
  T* value_;
};

template <class T, class Value>
constexpr bool stays_with_caller = std::is_same_v<Value, T&&> && !std::is_trivially_copyable_v<T>;

template <class T, class Value>
using send_operand = std::conditional_t<stays_with_caller<T, Value>, borrowed_operand<T>, owned_operand<T>>;

/// A duration or a point in time.
class timeout_operand {
 public:
  template <class Rep, class Period>
  explicit timeout_operand(std::chrono::duration<Rep, Period> d) noexcept
      : when_(clamped_nanoseconds(d)), relative_(true) {}
  template <class Clock, class Duration>
  explicit timeout_operand(std::chrono::time_point<Clock, Duration> t) : when_(deadline_at(t)), relative_(false) {}

  /// Makes a duration a point in time, so that a select which waits again does not count from the beginning.
  void fix() noexcept {
    if (!std::exchange(relative_, false)) return;
    when_ = deadline_after(std::chrono::nanoseconds(when_));
  }

  void describe(select_case& c) const noexcept {
    c.what = select_case::kind::timeout;
    c.relative = relative_;
    c.when = when_;
  }

 private:
  std::int64_t when_;
  bool relative_;
};

struct no_handler {
  template <class... Args>
  constexpr void operator()(Args&&...) const noexcept {}
};

/// Checks the handler of every case but a receive.
template <class Handler>
constexpr void check_plain_handler() {
  static_assert(std::is_invocable_v<Handler&>,
                "coir: the handler of this case takes no arguments (only that of a receive does)");
  if constexpr (std::is_invocable_v<Handler&>) check_has_run<std::invoke_result_t<Handler&>>();
}

/// Checks the value of a send: a T can be made from it.
template <class T, class Value>
constexpr void check_value() {
  static_assert(std::is_constructible_v<T, Value>,
                "coir: the value to send does not convert to the channel's element type (move one that is move-only)");
}

/// In place of a handler: assigns the received value.
template <class T>
struct fill_optional {
  fill_optional(std::optional<T>& to) noexcept : out(&to) {}
  void operator()(std::optional<T> value) const {
    out->reset();
    if (value) out->emplace(std::move(*value));
  }
  std::optional<T>* out;
};

struct fill_bool {
  fill_bool(bool& to) noexcept : out(&to) {}
  void operator()(bool value) const noexcept { *out = value; }
  bool* out;
};

template <class T, class Given>
struct recv_handler_of {
  using type = std::conditional_t<std::is_same_v<Given, std::optional<T>&>, fill_optional<T>, Given>;
  static_assert(std::is_invocable_v<type&, std::optional<T>>,
                "coir: the handler of a receive takes a std::optional<T> (or is one, to be filled)");
};
template <class Given>
struct recv_handler_of<void, Given> {
  using type = std::conditional_t<std::is_same_v<Given, bool&>, fill_bool, Given>;
  static_assert(std::is_invocable_v<type&, bool>,
                "coir: the handler of a receive from a chan<void> takes a bool (or is one, to be filled)");
};

/// `Given` as it was deduced for a forwarding reference: a handler that is an lvalue is referred to.
template <class T, class Given>
using recv_handler = typename recv_handler_of<T, Given>::type;

/// Hands the received value to the handler; the slot is empty afterwards.
template <class T, class Handler>
void deliver(Handler& handler, std::optional<stored<T>>& slot) {
  if constexpr (std::is_void_v<T>) {
    const bool received = slot.has_value();
    slot.reset();
    check_has_run<decltype(handler(received))>();
    handler(received);
  } else {
    std::optional<T> value = std::exchange(slot, std::nullopt);
    check_has_run<decltype(handler(std::move(value)))>();
    handler(std::move(value));
  }
}

}  // namespace coir::detail
