// select over cases that are added at run time:
//
//   coir::select_set s;
//   for (auto& ch : inputs) s.recv(ch, [&](std::optional<int> v) { ... });
//   s.timeout(1s);
//   while (...) std::size_t fired = s.wait();  // or, in a coroutine: co_await s.async_wait()
//
// Cases are numbered from 0 in the order in which they are added. The rules are those of select(). Unlike select(), a
// set keeps its operands: it holds handles to its channels, and holds its handlers and values by value. wait() may be
// called again and again. It allocates nothing after the first time.
//
// Thread safety: a set is used by one fiber or thread at a time. Movable, not copyable.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <vector>

#include <coir/chan.hpp>
#include <coir/detail/abi.hpp>
#include <coir/detail/select_case.hpp>
#include <coir/detail/select_operands.hpp>
#include <coir/detail/selection.hpp>
#include <coir/detail/stackless.hpp>
#include <coir/task.hpp>

namespace coir::inline COIR_ABI {

namespace detail {

/// A case of a set. prepare() tells the core what to wait for, before each wait. finish() runs the handler, after the
/// case has taken effect.
class set_case {
 public:
  set_case() = default;
  set_case(const set_case&) = delete;
  set_case& operator=(const set_case&) = delete;
  virtual ~set_case() = default;
  virtual void prepare(select_case& c) = 0;  ///< before each wait; see above
  virtual void finish() = 0;                 ///< after the case has taken effect; see above
};

template <class T, class Handler>
class set_recv final : public set_case {
 public:
  template <class H>
  set_recv(recv_chan<T> channel, H&& handler) : channel_(std::move(channel)), handler_(std::forward<H>(handler)) {}

  void prepare(select_case& c) override {
    c.what = select_case::kind::receive;
    c.core = chan_access::core(channel_);
    c.slot = &value_;
  }
  void finish() override { deliver<T>(handler_, value_); }

 private:
  recv_chan<T> channel_;
  Handler handler_;
  std::optional<stored<T>> value_;
};

template <class T, class Handler>
class set_send final : public set_case {
 public:
  using element = stored<T>;

  template <class V, class H>
  set_send(send_chan<T> channel, V&& value, H&& handler)
      : channel_(std::move(channel)), next_(std::in_place, std::forward<V>(value)), handler_(std::forward<H>(handler)) {
    if constexpr (std::is_copy_constructible_v<element>) original_.emplace(std::as_const(*next_));
  }

  void prepare(select_case& c) override {
    if constexpr (std::is_copy_constructible_v<element>) {
      if (!next_) next_.emplace(std::as_const(*original_));
    }
    c.what = select_case::kind::send;
    c.core = next_ ? chan_access::core(channel_) : nullptr;  // spent: as if nil
    c.slot = next_ ? std::addressof(*next_) : nullptr;
  }
  void finish() override {
    next_.reset();
    handler_();
  }

 private:
  send_chan<T> channel_;
  std::optional<element> original_;  // if T can be copied
  std::optional<element> next_;      // the one to send
  Handler handler_;
};

template <class Handler>
class set_timeout final : public set_case {
 public:
  template <class H>
  set_timeout(timeout_operand t, H&& handler) : timeout_(t), handler_(std::forward<H>(handler)) {}

  void prepare(select_case& c) override { timeout_.describe(c); }
  void finish() override { handler_(); }

 private:
  timeout_operand timeout_;
  Handler handler_;
};

template <class Handler>
class set_stop final : public set_case {
 public:
  template <class H>
  set_stop(std::stop_token token, H&& handler) : stop_(std::move(token)), handler_(std::forward<H>(handler)) {}

  void prepare(select_case& c) override {
    c.what = select_case::kind::event;
    c.slot = static_cast<event_waiter*>(&stop_);
  }
  void finish() override { handler_(); }

 private:
  stop_waiter stop_;
  Handler handler_;
};

template <class R, class Handler>
class set_ready final : public set_case {
 public:
  template <class H>
  set_ready(const task<R>& t, H&& handler) : task_(t), handler_(std::forward<H>(handler)) {
    static_cast<void>(task_access::state(t));  // throws if it is empty
  }

  void prepare(select_case& c) override {
    end_.reset();
    if (task_.valid()) end_.emplace(*task_access::state(task_));
    c.what = end_ ? select_case::kind::event : select_case::kind::receive;  // spent: as from a nil channel
    c.slot = end_ ? static_cast<event_waiter*>(&*end_) : nullptr;
  }
  void finish() override { handler_(); }

 private:
  const task<R>& task_;
  std::optional<end_waiter> end_;
  Handler handler_;
};

template <class Handler>
class set_otherwise final : public set_case {
 public:
  template <class H>
  explicit set_otherwise(std::in_place_t, H&& handler) : handler_(std::forward<H>(handler)) {}

  void prepare(select_case& c) override { c.what = select_case::kind::otherwise; }
  void finish() override { handler_(); }

 private:
  Handler handler_;
};

}  // namespace detail

/// A select whose cases are added at run time. The comment that opens <coir/select_set.hpp> has the rules.
class select_set {
 public:
  select_set() noexcept;
  /// Takes over the cases; the other is empty afterwards.
  select_set(select_set&& other) noexcept;
  /// As the move constructor, after its own cases are gone.
  select_set& operator=(select_set&& other) noexcept;
  ~select_set();

  /// Adds a receive. The handler takes a std::optional<T>; for a chan<void> it takes a bool. In place of a handler, a
  /// std::optional<T> (or a bool) may be given; it is assigned if the case is taken, and must outlive the set. Like all
  /// functions that add a case: returns the index of the case, does not block, and throws std::bad_alloc.
  template <detail::receivable Chan, class Handler = detail::no_handler>
  std::size_t recv(Chan&& channel, Handler&& handler = {}) {
    using T = typename std::remove_cvref_t<Chan>::value_type;
    using kept = std::decay_t<detail::recv_handler<T, Handler>>;
    return add(
        std::make_unique<detail::set_recv<T, kept>>(std::forward<Chan>(channel), std::forward<Handler>(handler)));
  }

  /// Adds a send. A value that can be copied is kept, and a copy is sent each time that the case is taken. A value that
  /// cannot be copied is sent once; from then on the case is never ready.
  template <detail::sendable Chan, class Value = typename std::remove_cvref_t<Chan>::value_type,
            class Handler = detail::no_handler>
    requires(!detail::sends_void<Chan>)
  std::size_t send(Chan&& channel, Value&& value, Handler&& handler = {}) {
    using T = typename std::remove_cvref_t<Chan>::value_type;
    detail::check_value<T, Value&&>();
    detail::check_plain_handler<std::decay_t<Handler>>();
    return add(std::make_unique<detail::set_send<T, std::decay_t<Handler>>>(
        std::forward<Chan>(channel), static_cast<T>(std::forward<Value>(value)), std::forward<Handler>(handler)));
  }
  /// The same on a channel of void.
  template <detail::sendable Chan, class Handler = detail::no_handler>
    requires detail::sends_void<Chan>
  std::size_t send(Chan&& channel, Handler&& handler = {}) {
    detail::check_plain_handler<std::decay_t<Handler>>();
    return add(std::make_unique<detail::set_send<void, std::decay_t<Handler>>>(
        std::forward<Chan>(channel), detail::unit{}, std::forward<Handler>(handler)));
  }

  /// Adds a timeout: either d, counted from the beginning of each wait, or the time t.
  template <class Rep, class Period, class Handler = detail::no_handler>
  std::size_t timeout(std::chrono::duration<Rep, Period> d, Handler&& handler = {}) {
    return add_timeout(detail::timeout_operand(d), std::forward<Handler>(handler));
  }
  /// The same at a point in time.
  template <class Clock, class Duration, class Handler = detail::no_handler>
  std::size_t timeout(std::chrono::time_point<Clock, Duration> t, Handler&& handler = {}) {
    return add_timeout(detail::timeout_operand(t), std::forward<Handler>(handler));
  }

  /// Adds a case that is ready once a stop is requested.
  template <class Handler = detail::no_handler>
  std::size_t stop(std::stop_token token, Handler&& handler = {}) {
    detail::check_plain_handler<std::decay_t<Handler>>();
    return add(
        std::make_unique<detail::set_stop<std::decay_t<Handler>>>(std::move(token), std::forward<Handler>(handler)));
  }

  /// Adds a case that is ready once the task has ended; see on_ready(). The task must outlive the set and stay where it
  /// is. Once the task is empty, after get() for example, the case is never ready. Throws std::logic_error if the task
  /// is empty now.
  template <class R, class Handler = detail::no_handler>
  std::size_t ready(const task<R>& t, Handler&& handler = {}) {
    detail::check_plain_handler<std::decay_t<Handler>>();
    return add(std::make_unique<detail::set_ready<R, std::decay_t<Handler>>>(t, std::forward<Handler>(handler)));
  }
  template <class R, class Handler = detail::no_handler>
  std::size_t ready(const task<R>&& t, Handler&& handler = {}) = delete;  // it would not outlive the set

  /// Adds the case that is taken if no other case is ready. With it, wait() never blocks.
  template <class Handler = detail::no_handler>
  std::size_t otherwise(Handler&& handler = {}) {
    detail::check_plain_handler<std::decay_t<Handler>>();
    return add(
        std::make_unique<detail::set_otherwise<std::decay_t<Handler>>>(std::in_place, std::forward<Handler>(handler)));
  }

  /// Blocks until one of the cases takes effect. Runs its handler and returns its index. Throws closed_channel,
  /// `cancelled`, and what the handler throws. The handler may add cases, and may wait. It must not destroy or move the
  /// set.
  std::size_t wait();

  /// `co_await set.async_wait()`: as wait(), but the coroutine waits instead of a fiber. The set must stay where it is
  /// meanwhile. For a timeout, also throws std::bad_alloc, and std::system_error if the thread for a timer cannot be
  /// started.
  [[nodiscard]] auto async_wait() noexcept { return operation(*this); }

  /// How many cases there are.
  std::size_t size() const noexcept { return set_.size(); }

 private:
  class awaiter : detail::async_awaiter_mark {
   public:
    explicit awaiter(select_set& set) noexcept : set_(set) {}
    awaiter(const awaiter&) = delete;
    awaiter& operator=(const awaiter&) = delete;

    bool await_ready();
    template <detail::async_coroutine Promise>
    bool await_suspend(std::coroutine_handle<Promise> where) noexcept {
      return suspend(where);
    }
    std::size_t await_resume();

   private:
    bool suspend(std::coroutine_handle<> where) noexcept;

    select_set& set_;
    std::size_t fired_ = 0;
    std::optional<detail::async_selection> waiting_;
  };

  class [[nodiscard]] operation {
   public:
    explicit operation(select_set& set) noexcept : set_(set) {}
    operation(const operation&) = delete;
    operation& operator=(const operation&) = delete;
    awaiter operator co_await() && noexcept { return awaiter(set_); }
    void operator co_await() & = delete;  // await it where it is written

   private:
    select_set& set_;
  };

  /// Prepares the cases and lets one that seems ready take effect. Returns its index, or size().
  std::size_t take_now();
  std::size_t add(std::unique_ptr<detail::set_case> added);
  template <class Handler>
  std::size_t add_timeout(detail::timeout_operand t, Handler&& handler) {
    detail::check_plain_handler<std::decay_t<Handler>>();
    return add(std::make_unique<detail::set_timeout<std::decay_t<Handler>>>(t, std::forward<Handler>(handler)));
  }

  std::vector<std::unique_ptr<detail::set_case>> set_;
  std::vector<detail::select_case> cases_;  // the frame of a wait, kept for the next one
  std::vector<std::uint32_t> order_;
};

}  // namespace coir
