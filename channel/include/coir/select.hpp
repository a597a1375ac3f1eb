// select: waits for the first of several channel operations, a timeout, a stop request, the end of a task.
//
//   coir::select(coir::on_recv(jobs, [&](std::optional<job> j) { ... }),   // nullopt: closed and drained
//                coir::on_send(log, line),
//                coir::on_timeout(100ms, [&] { ... }));
//
// Exactly one case takes effect. Its handler, if it has one, then runs in the caller, and select returns the index of
// the case, in the order written. If several cases are ready at once, one of them is chosen at random, evenly. The
// value of a case that is not chosen is not moved from. A case on a nil channel is never ready. A receive from a closed
// channel is ready. So is a send to one, and it throws closed_channel when it is chosen. A select with no case that
// could ever be ready blocks forever.
//
// A case refers to its operands (channels, rvalues to send, handlers that are lvalues) instead of copying them: write
// it where it is used, in the call. The number of cases may differ from run to run with a select_set
// (<coir/select_set.hpp>, included here).
//
// A coroutine does the same with `co_await coir::async_select(...)`.
//
// Exceptions: closed_channel as said; `cancelled` if it blocks in a cancelled fiber (no case has then taken effect);
// and what the handler throws. A select allocates nothing. Thread safety and happens-before are those of the channel
// operations.
// Semantics: the Go specification, "Select statements".
#pragma once

#include <array>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>

#include <coir/chan.hpp>
#include <coir/detail/abi.hpp>
#include <coir/detail/is_async.hpp>
#include <coir/detail/select_case.hpp>
#include <coir/detail/select_operands.hpp>
#include <coir/detail/selection.hpp>
#include <coir/detail/stackless.hpp>
#include <coir/select_set.hpp>
#include <coir/task.hpp>

namespace coir::inline COIR_ABI {

namespace detail {

// A case has: ready(), a hint; try_now(), which lets it take effect if it can; describe(), which tells the core what to
// wait for; finish(), which runs the handler once the case has taken effect.
struct case_base {
  case_base() = default;
  case_base(const case_base&) = delete;
  case_base& operator=(const case_base&) = delete;
};

template <class T, class Handler>
class recv_case : case_base {
 public:
  using handler_type = Handler;
  static constexpr auto what = select_case::kind::receive;
  using element = stored<T>;

  template <class Chan, class H>
  recv_case(Chan&& channel, H&& handler) : channel_(std::forward<Chan>(channel)), handler_(std::forward<H>(handler)) {}

  bool ready() const noexcept { return channel_.core() != nullptr && channel_.core()->may_receive(); }
  bool try_now() noexcept { return receive_at_once<element>(channel_.core(), value_) != attempt::would_block; }
  void describe(select_case& c) noexcept {
    c.what = what;
    c.core = channel_.core();
    c.slot = &value_;
  }
  void finish() { deliver<T>(handler_, value_); }

 private:
  borrowed_channel channel_;
  Handler handler_;
  std::optional<element> value_;
};

/// `Given`: the value's type, as deduced for a forwarding reference.
template <class T, class Given, class Handler>
class send_case : case_base {
 public:
  using handler_type = Handler;                          ///< for check_awaited_case()
  using given = Given;                                   ///< for check_awaited_case()
  static constexpr auto what = select_case::kind::send;  ///< a send
  using element = stored<T>;                             ///< T as the channel stores it

  /// Refers to a channel handle that is an lvalue. Takes over a temporary one.
  template <class Chan, class V, class H>
  send_case(Chan&& channel, V&& value, H&& handler)
      : channel_(std::forward<Chan>(channel)), value_(std::forward<V>(value)), handler_(std::forward<H>(handler)) {}

  /// A hint: whether the channel seems to accept a value. Takes no lock.
  bool ready() const noexcept { return channel_.core() != nullptr && channel_.core()->may_send(); }
  /// Sends if that is possible at once, and returns whether it did. Throws closed_channel.
  bool try_now() {
    const attempt how = send_at_once<element>(channel_.core(), value_.get());
    if (how == attempt::closed) throw_send_on_closed();
    return how == attempt::done;
  }
  /// Tells the core what to wait for.
  void describe(select_case& c) noexcept {
    c.what = what;
    c.core = channel_.core();
    c.slot = std::addressof(value_.get());
  }
  /// Runs the handler, after the value was sent.
  void finish() { handler_(); }

 private:
  borrowed_channel channel_;
  send_operand<element, Given&&> value_;
  Handler handler_;
};

template <class Handler>
class timeout_case : case_base {
 public:
  using handler_type = Handler;
  static constexpr auto what = select_case::kind::timeout;
  template <class H>
  timeout_case(timeout_operand t, H&& handler) : timeout_(t), handler_(std::forward<H>(handler)) {}

  static constexpr bool ready() noexcept { return false; }
  static constexpr bool try_now() noexcept { return false; }
  void describe(select_case& c) noexcept { timeout_.describe(c); }
  void fix_time() noexcept { timeout_.fix(); }
  void finish() { handler_(); }

 private:
  timeout_operand timeout_;
  Handler handler_;
};

/// `Event`: what is waited for, an event_waiter.
template <class Event, class Handler>
class event_case : case_base {
 public:
  using handler_type = Handler;                           ///< for check_awaited_case()
  static constexpr auto what = select_case::kind::event;  ///< an event
  /// Makes the event from `operand`.
  template <class... Operand, class H>
  explicit event_case(H&& handler, Operand&&... operand)
      : event_(std::forward<Operand>(operand)...), handler_(std::forward<H>(handler)) {}

  /// Whether the event has come.
  bool ready() const noexcept { return event_.come(); }
  bool try_now() const noexcept { return true; }  ///< once the event has come, always
  /// Tells the core what to wait for.
  void describe(select_case& c) noexcept {
    c.what = what;
    c.slot = static_cast<event_waiter*>(&event_);
  }
  /// Runs the handler, after the event has come.
  void finish() { handler_(); }

 private:
  Event event_;
  Handler handler_;
};

template <class Handler>
class otherwise_case : case_base {
 public:
  using handler_type = Handler;
  static constexpr auto what = select_case::kind::otherwise;
  template <class H>
  explicit otherwise_case(std::in_place_t, H&& handler) : handler_(std::forward<H>(handler)) {}

  static constexpr bool ready() noexcept { return false; }
  static constexpr bool try_now() noexcept { return false; }
  static void describe(select_case& c) noexcept { c.what = what; }
  void finish() { handler_(); }

 private:
  Handler handler_;
};

/// A channel operation that never blocks. Whether it can proceed is one question, answered exactly without a lock.
template <class... Cases>
constexpr bool one_or_otherwise() {
  using enum select_case::kind;
  return sizeof...(Cases) == 2 && (0 + ... + (Cases::what == otherwise)) == 1 &&
         (0 + ... + (Cases::what == receive || Cases::what == send)) == 1;
}

/// The index of the `otherwise` among the cases; the number of cases if there is none.
template <class... Cases>
constexpr std::size_t otherwise_index() {
  std::size_t i = 0;
  (void)((Cases::what == select_case::kind::otherwise || (++i, false)) || ...);
  return i;
}

/// Lets one of the cases that seem ready take effect, without waiting. Returns its index, or n.
template <class... Cases>
[[gnu::always_inline]] inline std::size_t select_ready(Cases&... cases) {
  std::uint64_t ready = 0;
  unsigned i = 0;
  ((ready |= std::uint64_t{cases.ready()} << i++), ...);
  while (ready != 0) {
    const unsigned chosen = random_bit(ready);
    bool taken = false;
    i = 0;
    (void)((i++ == chosen && ((taken = cases.try_now()), true)) || ...);
    if (taken) return chosen;
    ready &= ~(std::uint64_t{1} << chosen);
  }
  return sizeof...(Cases);
}

/// The same for a select of any size, as far as that can be told without all locks: also takes an `otherwise` that is
/// certain to be right.
template <class... Cases>
[[gnu::always_inline]] inline std::size_t select_at_once(Cases&... cases) {
  decide(operation::select);
  std::size_t fired = sizeof...(Cases);
  if constexpr (sizeof...(Cases) <= 64) fired = select_ready(cases...);
  if constexpr (one_or_otherwise<Cases...>())
    if (fired == sizeof...(Cases)) fired = otherwise_index<Cases...>();
  return fired;
}

/// The description of a select that the core gets, and its working memory.
template <std::size_t N>
struct select_frame {
  /// Gets the descriptions of the cases. Refers to the cases from then on.
  template <class... Cases>
  explicit select_frame(Cases&... cases) {
    std::size_t i = 0;
    (cases.describe(table[i++]), ...);
  }

  std::array<select_case, N> table;    ///< a description for each case
  std::array<std::uint32_t, N> order;  ///< the core's working memory
};

/// The slow path of select(): waits until a case fires, and returns its index. The case may still have to be confirmed.
template <class... Cases>
[[gnu::noinline]] std::size_t select_slowly(Cases&... cases) {
  select_frame<sizeof...(Cases)> frame(cases...);
  return select_one(frame.table.data(), frame.table.size(), frame.order.data());
}

/// Cases that may turn out not to be ready any more when they are tried: an accept, say, if another fiber was faster.
template <class Case>
concept must_confirm = requires(Case& c) { c.confirm(); };

/// Those of these cases that take effect in confirm(). The others only check in confirm() whether the wake-up came too
/// early.
template <class Case>
concept acts_in_confirm = must_confirm<Case> && !requires { Case::may_come_early; };

/// Before the first wait of a select that may have to wait again.
template <class Case>
void fix_time(Case& c) noexcept {
  if constexpr (requires { c.fix_time(); }) c.fix_time();
}

/// For the case of the wake-up: whether it took effect.
template <class Case>
bool confirm(Case& c) {
  if constexpr (must_confirm<Case>)
    return c.confirm();
  else
    return true;
}

/// The same for the case with the index `fired`.
template <class... Cases>
bool confirm_case(std::size_t fired, Cases&... cases) {
  std::size_t i = 0;
  bool took_effect = true;
  (void)((i++ == fired && ((took_effect = confirm(cases)), true)) || ...);
  return took_effect;
}

/// Runs the handler of the case with the index `fired`.
template <class... Cases>
void finish_case(std::size_t fired, Cases&... cases) {
  std::size_t i = 0;
  (void)((i++ == fired && (cases.finish(), true)) || ...);
}

/// Rejects, at compile time, a case that a coroutine cannot await with this compiler.
template <class Case>
constexpr void check_awaited_case() {
  static_assert(
      may_be_made_in_co_await<typename Case::handler_type>,
      "coir: this compiler destroys twice a closure that is made within a co_await expression; give the "
      "handler a name, and pass it as an lvalue: auto f = [...] {...}; co_await async_select(on_recv(ch, f))");
  if constexpr (requires { typename Case::element; }) check_awaited<typename Case::element>();
  if constexpr (requires { typename Case::given; })
    static_assert(
        std::is_same_v<typename Case::given, typename Case::element> || may_be_made_in_co_await<typename Case::given>,
        "coir: this compiler destroys twice a closure that is made within a co_await expression; convert it "
        "before: std::function<void()> f = [...] {...}; co_await async_select(on_send(ch, std::move(f)))");
}

/// The wait of a coroutine. The cases are temporaries of the co_await expression, or outlive it. In both cases they
/// stay in place.
template <class... Cases>
class [[nodiscard]] select_awaiter : async_awaiter_mark {
 public:
  /// Refers to the cases.
  explicit select_awaiter(const std::tuple<Cases&...>& cases) noexcept : cases_(cases) {
    (check_awaited_case<Cases>(), ...);
  }
  select_awaiter(const select_awaiter&) = delete;
  select_awaiter& operator=(const select_awaiter&) = delete;

  /// Takes a case that is ready. Returns false if there is none, so the coroutine has to wait.
  bool await_ready() {
    fired_ = std::apply([](Cases&... cases) { return select_at_once(cases...); }, cases_);
    return fired_ != sizeof...(Cases);
  }

  /// Begins the wait. Returns false if the coroutine need not wait.
  template <async_coroutine Promise>
  bool await_suspend(std::coroutine_handle<Promise> where) noexcept {
    static_assert((!acts_in_confirm<Cases> && ...), "coir: async_select cannot wait with on_accept");
    return std::apply([this](Cases&... cases) -> state& { return waiting_.emplace(cases...); }, cases_)
        .core.suspend(where);
  }

  /// Runs the handler of the case that took effect, and returns its index. Throws as select() does.
  std::size_t await_resume() {
    if (waiting_) fired_ = waiting_->core.resume();
    std::apply([this](Cases&... cases) { finish_case(fired_, cases...); }, cases_);
    return fired_;
  }

 private:
  struct state {
    explicit state(Cases&... cases) : frame(cases...), core(frame.table.data(), sizeof...(Cases), frame.order.data()) {}
    select_frame<sizeof...(Cases)> frame;
    async_selection core;
  };

  std::tuple<Cases&...> cases_;
  std::size_t fired_ = 0;
  std::optional<state> waiting_;
};

/// The result of async_select(). It must be awaited where it is written, since its cases end there.
template <class... Cases>
class [[nodiscard]] select_operation {
 public:
  /// Refers to the cases.
  explicit select_operation(Cases&... cases) noexcept : cases_(cases...) {}
  select_operation(const select_operation&) = delete;
  select_operation& operator=(const select_operation&) = delete;

  /// The awaiter, which refers to the cases too.
  auto operator co_await() && noexcept { return select_awaiter<Cases...>(cases_); }
  void operator co_await() & = delete;  // await it where it is written

 private:
  std::tuple<Cases&...> cases_;
};

}  // namespace detail

/// A case that receives. The handler takes a std::optional<T> (nullopt: closed and drained); for a chan<void> it takes
/// a bool. In place of a handler, a std::optional<T> (or a bool) may be given; it is assigned if the case is taken.
template <detail::receivable Chan, class Handler = detail::no_handler>
[[nodiscard]] auto on_recv(Chan&& channel, Handler&& handler = {}) {
  using T = typename std::remove_cvref_t<Chan>::value_type;
  return detail::recv_case<T, detail::recv_handler<T, Handler>>(std::forward<Chan>(channel),
                                                                std::forward<Handler>(handler));
}

/// A case that sends `value`. An lvalue is copied now. An rvalue is moved from only if the case is taken.
template <detail::sendable Chan, class Value = typename std::remove_cvref_t<Chan>::value_type,
          class Handler = detail::no_handler>
  requires(!detail::sends_void<Chan>)
[[nodiscard]] auto on_send(Chan&& channel, Value&& value, Handler&& handler = {}) {
  using T = typename std::remove_cvref_t<Chan>::value_type;
  detail::check_value<T, Value&&>();
  detail::check_plain_handler<Handler>();
  return detail::send_case<T, Value, Handler>(std::forward<Chan>(channel), std::forward<Value>(value),
                                              std::forward<Handler>(handler));
}

/// The same on a chan<void>.
template <detail::sendable Chan, class Handler = detail::no_handler>
  requires detail::sends_void<Chan>
[[nodiscard]] auto on_send(Chan&& channel, Handler&& handler = {}) {
  detail::check_plain_handler<Handler>();
  return detail::send_case<void, detail::unit, Handler>(std::forward<Chan>(channel), detail::unit{},
                                                        std::forward<Handler>(handler));
}

/// A case that is taken if no other case was taken for d, counted from the call of select. If d is zero or less, it is
/// taken if no other case is ready.
template <class Rep, class Period, class Handler = detail::no_handler>
[[nodiscard]] auto on_timeout(std::chrono::duration<Rep, Period> d, Handler&& handler = {}) {
  detail::check_plain_handler<Handler>();
  return detail::timeout_case<Handler>(detail::timeout_operand(d), std::forward<Handler>(handler));
}

/// A case that is taken if no other case was taken until t. A clock other than steady_clock is read now.
template <class Clock, class Duration, class Handler = detail::no_handler>
[[nodiscard]] auto on_timeout(std::chrono::time_point<Clock, Duration> t, Handler&& handler = {}) {
  detail::check_plain_handler<Handler>();
  return detail::timeout_case<Handler>(detail::timeout_operand(t), std::forward<Handler>(handler));
}

/// A case that is ready once a stop is requested. A token without a state makes it never ready.
template <class Handler = detail::no_handler>
[[nodiscard]] auto on_stop(std::stop_token token, Handler&& handler = {}) {
  detail::check_plain_handler<Handler>();
  return detail::event_case<detail::stop_waiter, Handler>(std::forward<Handler>(handler), std::move(token));
}

/// A case that is ready once the task has ended, in whatever way. get() then does not block, and tells how it ended.
/// The task must stay where it is meanwhile, and must be neither joined nor detached. Its end happens before the
/// handler. Throws std::logic_error if the task is empty (default, moved from, detached, or got).
template <class R, class Handler = detail::no_handler>
[[nodiscard]] auto on_ready(const task<R>& task, Handler&& handler = {}) {
  detail::check_plain_handler<Handler>();
  return detail::event_case<detail::end_waiter, Handler>(std::forward<Handler>(handler),
                                                         *detail::task_access::state(task));
}

/// A case that is taken at once if, at that instant, no other case could proceed. A select with it never blocks.
template <class Handler = detail::no_handler>
[[nodiscard]] auto otherwise(Handler&& handler = {}) {
  detail::check_plain_handler<Handler>();
  return detail::otherwise_case<Handler>(std::in_place, std::forward<Handler>(handler));
}

/// Blocks until one of the cases takes effect. Runs its handler and returns its index. See the top of this file.
template <class... Cases>
  requires(std::is_base_of_v<detail::case_base, std::remove_reference_t<Cases>> && ...)
std::size_t select(Cases&&... cases) {
  if constexpr (sizeof...(Cases) == 0) {
    detail::park_forever({"select (no cases)"});
  } else {
    std::size_t fired = detail::select_at_once(cases...);
    if constexpr ((detail::must_confirm<std::remove_reference_t<Cases>> || ...))
      if (fired == sizeof...(Cases)) (detail::fix_time(cases), ...);
    while (fired == sizeof...(Cases)) {
      fired = detail::select_slowly(cases...);
      if (!detail::confirm_case(fired, cases...)) fired = sizeof...(Cases);
    }
    if constexpr (detail::explorable)
      if (fired == detail::otherwise_index<std::remove_reference_t<Cases>...>())
        detail::decide_after_poll(detail::operation::select);
    detail::finish_case(fired, cases...);
    return fired;
  }
}

/// `co_await async_select(on_recv(...), ...)`: as select(), but the coroutine waits instead of a fiber. The handlers
/// are ordinary functions. Code that must be awaited then goes after the co_await; the index tells which case was
/// taken. Write async_select() and its cases in the co_await expression. For a timeout, also throws std::bad_alloc, and
/// std::system_error if the thread for a timer cannot be started.
template <class... Cases>
  requires(std::is_base_of_v<detail::case_base, std::remove_reference_t<Cases>> && ...)
[[nodiscard]] auto async_select(Cases&&... cases) noexcept {
  return detail::select_operation<std::remove_reference_t<Cases>...>(cases...);
}

}  // namespace coir
