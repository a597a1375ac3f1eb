// task<R>: the handle of a joinable fiber. It is to a fiber what std::jthread is to a thread, and what std::future is
// to the result.
//
//   coir::task<int> t = coir::spawn([] { return 42; });
//   int v = t.get();
//
// Thread safety: distinct tasks are independent. One fiber or thread at a time uses a task object. The exceptions are
// request_stop(), ready(), status() and id(): they may be called at the same time as any call that leaves the task as
// it is. wait() is such a call; get(), detach(), a move and the destruction are not.
// Happens-before: the end of the fiber's function happens before the return of get() and wait(), and before the return
// of wait_for(), wait_until() and ready() if they return true.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/start_record.hpp>
#include <coir/error.hpp>
#include <coir/fiber_id.hpp>
#include <coir/source_location.hpp>

namespace coir::inline COIR_ABI {

/// What the fiber of a task does. queued: it is runnable and waits for a processor, whether it has started or not.
/// running: it runs. blocked: it is parked in a blocking call, in the queue where it waits. finished: it has ended.
enum class task_status { queued, running, blocked, finished };

namespace detail {

class early_claim;
class end_awaiter;
struct fiber;
class stackless;
class timed_end_awaiter;

/// The state shared by a task handle and its fiber. The last of the two frees it; `lock_` decides which that is.
class task_state : public start_record {
 public:
  /// `f` runs the function. `where` is the spawn site.
  task_state(entry f, source_location where) noexcept;

  // The handle's side.
  wake join(deadline until);           ///< blocks; returns fired or timed_out; throws `cancelled`
  void join_uncancellable() noexcept;  ///< blocks, even in a cancelled fiber
  class end_wait;                      ///< a join, for queued_wait.hpp: <coir/async.hpp>
  /// A select's join: from now on until forget(), the end of the fiber claims `of`, unless the fiber has ended before.
  void notify(wait_node& node, early_claim& of) noexcept;
  void forget(wait_node& node) noexcept;  ///< ends what notify() began
  bool finished() noexcept;               ///< whether the fiber has ended
  task_status status() noexcept;          ///< as task::status()
  void request_stop();                    ///< as task::request_stop()
  /// The same, but the stop source, if there is one, is left for the caller to signal when it holds no lock.
  [[nodiscard]] std::optional<std::stop_source> stop() noexcept;
  bool detach() noexcept;                                 ///< true: the fiber has ended, the caller owns the state
  void belongs_to(stackless& s) noexcept;                 ///< before the start: the task is `s`
  fiber_id id() const noexcept { return fiber_id{id_}; }  ///< as task::id()

  std::exception_ptr error;  ///< what left the fiber's function; null: nothing, or not yet

 protected:
  /// The fiber's first step.
  void begin() noexcept;
  /// The fiber's last step: wakes the joiners. True: the task was detached, and the caller owns the state.
  [[nodiscard]] bool finish() noexcept;

 private:
  static constexpr std::uintptr_t of_stackless = 1;
  stackless* sleeper() const noexcept;

  spin_lock lock_;  // in the lock order: before the run queues, after everything else; guards what follows
  bool finished_ = false;
  bool detached_ = false;
  std::atomic<bool> stop_requested_{false};
  // Null: the task has not begun, or has ended. Otherwise the fiber that runs it; that fiber wrote the value itself,
  // and stays valid while lock_ is held. Or the stackless that the task is, with the lowest bit set, from before its
  // start until its end.
  std::atomic<std::uintptr_t> where_{0};
  wait_queue joiners_;  // slot: null, or the early_claim by which the joiner is to be claimed
  std::uint64_t id_;
};

/// Holds a function's result: nothing for void, a pointer for a reference.
template <class R>
class result_slot {
 public:
  /// Calls f and keeps its result. Throws what f throws.
  template <class F>
  void fill(F&& f) {
    value_.emplace(std::forward<F>(f)());
  }
  R take() { return std::move(*value_); }  ///< gives the result away; only after fill()

 private:
  std::optional<R> value_;
};

template <class R>
class result_slot<R&> {
 public:
  template <class F>
  void fill(F&& f) {
    value_ = &std::forward<F>(f)();
  }
  R& take() { return *value_; }

 private:
  R* value_ = nullptr;
};

template <>
class result_slot<void> {
 public:
  template <class F>
  void fill(F&& f) {
    std::forward<F>(f)();
  }
  void take() {}
};

template <class R>
struct task_result : task_state {
  task_result(entry f, void (*d)(task_result*) noexcept, source_location where) noexcept
      : task_state(f, where), destroy(d) {}

  void (*destroy)(task_result*) noexcept;
  [[no_unique_address]] result_slot<R> result;
};

template <class R, class F>
struct task_record final : task_result<R> {
  template <class G>
  task_record(G&& g, source_location where)
      : task_result<R>(&task_record::enter, &task_record::destroy_this, where),
        closure(std::in_place, std::forward<G>(g)) {}

  static void enter(start_record* r) {
    auto* self = static_cast<task_record*>(r);
    self->begin();
    try {
      self->result.fill(std::move(*self->closure));
      self->closure.reset();
    } catch (...) {
      self->error = std::current_exception();
      self->closure.reset();
    }
    if (self->finish()) {  // detached: it ends as a `go` fiber does
      const std::exception_ptr error = std::move(self->error);
      destroy_record(self);
      if (error) std::rethrow_exception(error);
    }
  }

  static void destroy_this(task_result<R>* r) noexcept { destroy_record(static_cast<task_record*>(r)); }

  std::optional<F> closure;
};

/// Throws `cancelled` if the calling fiber is cancelled for good, and marks the fiber as cancelled for good. To be
/// called before throwing an error that reports the cancellation of other fibers: those may have been unwound just
/// before this one.
void throw_if_being_cancelled();

/// For a caller that learns that another fiber was cancelled: throws task_cancelled, or `cancelled` if the calling
/// fiber is cancelled too.
[[noreturn]] void throw_task_cancelled();

struct task_access;
/// Throws std::logic_error.
[[noreturn]] void throw_empty_task();
/// For a caller that has joined a task: throws the exception that left its function. In place of `cancelled`, throws as
/// throw_task_cancelled().
[[noreturn]] void rethrow_failure(const std::exception_ptr& error);
/// For a task that failed and was then detached: report and std::terminate, unless it was `cancelled`.
void end_detached(task_state& state) noexcept;

}  // namespace detail

/// The handle of a joinable fiber and of its result. Move-only; the destructor stops and joins the fiber.
template <class R>
class [[nodiscard]] task {
 public:
  /// What get() returns.
  using result_type = R;

  /// An empty task, which stands for no fiber.
  task() noexcept = default;
  /// Takes over the fiber; the other is empty afterwards.
  task(task&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  /// The same, after it has stopped and joined its own fiber. Blocks for that.
  task& operator=(task&& other) noexcept {
    if (this != &other) {
      stop_and_join();
      state_ = std::exchange(other.state_, nullptr);
    }
    return *this;
  }

  /// Like std::jthread: unless the task was joined or detached, requests stop and joins. What the fiber threw is then
  /// dropped. Blocks, even in a cancelled fiber. Not a cancellation point. A move assignment first does the same with
  /// the fiber that the task stood for.
  ~task() { stop_and_join(); }

  /// Whether this stands for a fiber. False if the task is empty, moved from, detached, or taken by get().
  bool valid() const noexcept { return state_ != nullptr; }
  /// The same as valid().
  explicit operator bool() const noexcept { return valid(); }

  /// Joins the fiber. Returns the function's result, or rethrows the exception that left the function. Leaves the task
  /// empty. Blocks until the fiber has ended; a cancellation point if it has to wait. Throws task_cancelled if the
  /// fiber ended by its cancellation, and std::logic_error on an empty task. Throws `cancelled` if the calling fiber is
  /// cancelled and has to wait; the task is then as before. If it need not wait, a cancelled caller gets `cancelled` in
  /// place of task_cancelled; the task is then empty.
  R get() {
    check();
    state_->join(detail::no_deadline);
    struct release {
      detail::task_result<R>* state;
      ~release() { state->destroy(state); }
    } done{std::exchange(state_, nullptr)};
    if (done.state->error) detail::rethrow_failure(done.state->error);
    return done.state->result.take();
  }

  /// Blocks until the fiber has ended. A cancellation point if it has to wait. Throws `cancelled`, and std::logic_error
  /// on an empty task.
  void wait() const {
    check();
    state_->join(detail::no_deadline);
  }

  /// Blocks until the fiber has ended (returns true) or the time is over (returns false). Throws as wait().
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> d) const {
    check();
    return state_->join(detail::deadline_after(d)) == detail::wake::fired;
  }
  /// The same until a point in time.
  template <class Clock, class Duration>
  bool wait_until(std::chrono::time_point<Clock, Duration> t) const {
    check();
    return state_->join(detail::deadline_at(t)) == detail::wake::fired;
  }

  /// `co_await t.async_wait()` and so on in a coir::async (include <coir/async.hpp>): as wait(), wait_for() and
  /// wait_until(), but the coroutine waits instead of a fiber. (`co_await t` is get().) The task must stay as it is
  /// meanwhile. Those with a time also throw std::bad_alloc, and std::system_error if the thread for a timer cannot be
  /// started.
  detail::end_awaiter async_wait() const;
  /// As async_wait(), for at most that long. `co_await` returns whether the fiber has ended.
  template <class Rep, class Period>
  detail::timed_end_awaiter async_wait_for(std::chrono::duration<Rep, Period> d) const;
  /// The same until a point in time.
  template <class Clock, class Duration>
  detail::timed_end_awaiter async_wait_until(std::chrono::time_point<Clock, Duration> t) const;

  /// Whether get() would return without blocking. Never blocks. Throws std::logic_error on an empty task.
  bool ready() const {
    check();
    detail::decide(detail::operation::look_at_task, state_);
    const bool finished = state_->finished();
    if (!finished) detail::decide_after_poll(detail::operation::look_at_task, state_);
    return finished;
  }

  /// What the fiber does; it may do something else by the time the caller looks. Never blocks. Throws std::logic_error
  /// on an empty task.
  task_status status() const {
    check();
    return state_->status();
  }

  /// Asks the fiber to end. Signals its stop_token; the callbacks of that run in the caller. The blocking call that the
  /// fiber is in, and its later ones, throw `cancelled`. Does not wait for the fiber. Does nothing on a finished task.
  /// Throws std::logic_error on an empty task.
  void request_stop() const {
    check();
    state_->request_stop();
  }

  /// Lets the fiber run on by itself, as if it had been started with go(): an exception that leaves it, other than
  /// `cancelled`, ends the process. If the fiber has failed already, the process ends at once; the fiber's stack has
  /// then been unwound. Leaves the task empty. Does not block. Throws std::logic_error on an empty task.
  void detach() {
    check();
    auto* state = std::exchange(state_, nullptr);
    if (!state->detach()) return;
    if (state->error) detail::end_detached(*state);
    state->destroy(state);
  }

  /// The fiber's id; a default fiber_id if the task is empty.
  fiber_id id() const noexcept { return state_ != nullptr ? state_->id() : fiber_id{}; }

 private:
  template <class F>
  friend auto spawn_in(detail::scheduler& where, F&& f, source_location at);
  friend struct detail::task_access;

  explicit task(detail::task_result<R>* state) noexcept : state_(state) {}

  void check() const {
    if (state_ == nullptr) detail::throw_empty_task();
  }

  void stop_and_join() noexcept {
    if (state_ == nullptr) return;
    if (!state_->finished()) state_->request_stop();
    state_->join_uncancellable();
    state_->destroy(std::exchange(state_, nullptr));
  }

  detail::task_result<R>* state_ = nullptr;
};

/// For code that joins tasks in other ways than by their members.
struct detail::task_access {
  /// The task of a spawned fiber; takes over the record.
  template <class T>
  static task<T> handle(task_result<T>* record) noexcept {
    return task<T>(record);
  }

  /// Throws std::logic_error if it is empty.
  template <class T>
  static task_state* state(const task<T>& t) {
    t.check();
    return t.state_;
  }
};

template <class F>
auto spawn_in(detail::scheduler& where, F&& f, source_location at) {
  using closure = std::decay_t<F>;
  static_assert(std::is_invocable_v<closure>, "coir: a fiber's function takes no arguments (capture instead)");
  using result = std::invoke_result_t<closure>;
  detail::decide(detail::operation::spawn);
  auto* record = detail::make_record<detail::task_record<result, closure>>(std::forward<F>(f), at);
  task<result> handle{record};
  detail::start(where, record);
  detail::decide(detail::operation::spawn);
  return handle;
}

/// The same with options. A spawn without options does not pay for it.
template <class F>
auto spawn_in(detail::scheduler& where, const spawn_options& o, F&& f, source_location at) {
  detail::check_function<F>();
  using function = detail::named_function<std::decay_t<F>>;
  using result = std::invoke_result_t<function>;
  detail::decide(detail::operation::spawn);
  detail::prepared_spawn prepared(where, o);
  auto* record = detail::make_record<detail::task_record<result, function>>(prepared.function(std::forward<F>(f)), at);
  task<result> handle = detail::task_access::handle<result>(record);
  prepared.start(record);
  detail::decide(detail::operation::spawn);
  return handle;
}

}  // namespace coir
