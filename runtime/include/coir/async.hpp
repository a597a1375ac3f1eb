// Stackless coroutines. An async<T> is a C++20 coroutine that the processors run beside the fibers. It costs its frame,
// some 100 to 200 bytes; a fiber costs a page at least. In return, an async can wait only by `co_await`.
//
//   coir::async<int> sum(coir::recv_chan<int> numbers) {
//     int total = 0;
//     while (std::optional<int> n = co_await numbers.async_recv()) total += *n;
//     co_return total;
//   }
//   coir::task<int> t = coir::spawn(sum(ch));      // runs beside the caller; t.get() joins
//   int total = co_await sum(ch);                  // in a coroutine: sum runs as a part of it
//
// An async can await another async, a task, async_sleep(), async_select(), and the operations of channels, tasks, locks
// and the other primitives whose names begin with async_ (docs/async.md). To await anything else does not compile,
// since nothing would say which thread resumes the coroutine, and where.
//
// An async is lazy: it does not run before it is awaited or spawned. An async that is neither awaited nor spawned is
// destroyed with its arguments.
//
// A spawned async behaves like a fiber. It has an id and a name. A runtime that drains waits for it, deadlock detection
// counts it, and the report of a deadlock lists it. Its task cancels it; the operation that it awaits then throws
// `cancelled`. An exception that leaves an async goes to the coroutine that awaits it, or to the caller that joins it.
// If it was started with go(), the exception ends the process, as that of a `go` fiber does. Another OS thread may
// resume the async after each co_await.
//
// Between two co_awaits an async runs on a stack of the runtime, as a fiber does. It may call functions that block.
// Such a call blocks the stack, and the async is then no cheaper than a fiber. A guard of coir::uncancellable holds
// across co_await too.
//
// Beware, as with all coroutines: the objects that reference parameters refer to, and the captures of a lambda, must
// outlive the coroutine. The coroutine keeps neither alive. spawn() and go() accept a function that returns an async,
// and keep that function until the coroutine has ended: coir::spawn([ch]() -> coir::async<void> { ... }).
//
// Happens-before: as for fibers. The code before a co_await happens before the code after it.
// Allocation: each call of a coroutine allocates a frame, from the runtime's pools. A wait without a deadline allocates
// nothing, with one exception: an async that has a name, a stop token or a fiber_local allocates once, to carry these
// from fiber to fiber. If there is no memory for that, the process ends with a report.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/alarm.hpp>
#include <coir/detail/queued_wait.hpp>
#include <coir/detail/stackless.hpp>
#include <coir/runtime.hpp>
#include <coir/task.hpp>

namespace coir::inline COIR_ABI {

namespace detail {

/// Ends the process with a report; see first_suspension.
[[noreturn]] void report_misplaced_promise() noexcept;

template <class A>
concept has_member_co_await = requires(A&& a) { static_cast<A&&>(a).operator co_await(); };
template <class A>
concept has_free_co_await = requires(A&& a) { operator co_await(static_cast<A&&>(a)); };

/// Refers to an awaiter that stays in place until the end of the co_await expression. GCC 12 would copy an awaiter that
/// is not made in that expression.
template <class A>
class borrowed_awaiter : async_awaiter_mark {
 public:
  /// Refers to `a`.
  explicit borrowed_awaiter(A& a) noexcept : awaiter_(&a) {}

  decltype(auto) await_ready() { return awaiter_->await_ready(); }  ///< as the awaiter's
  /// As the awaiter's.
  template <class Promise>
  decltype(auto) await_suspend(std::coroutine_handle<Promise> where) {
    return awaiter_->await_suspend(where);
  }
  decltype(auto) await_resume() { return awaiter_->await_resume(); }  ///< as the awaiter's

 private:
  A* awaiter_;
};

/// The awaiter of an operand of co_await: the result of its operator co_await, or the operand itself.
template <class A>
auto awaiter_of(A&& a) {
  if constexpr (has_member_co_await<A>)
    return static_cast<A&&>(a).operator co_await();
  else if constexpr (has_free_co_await<A>)
    return operator co_await(static_cast<A&&>(a));
  else if constexpr (std::is_base_of_v<async_awaiter_mark, std::remove_reference_t<A>>)
    return borrowed_awaiter<std::remove_reference_t<A>>(a);
}

/// Whether an async may co_await an A.
template <class A>
inline constexpr bool awaitable_in_async =
    std::is_base_of_v<async_awaiter_mark, decltype(awaiter_of(std::declval<A>()))>;

class async_promise_base : public async_promise_mark {
 public:
  // NOLINTNEXTLINE(misc-new-delete-overloads): it looks for one without a size
  static void* operator new(std::size_t size) { return allocate_record(size, frame_alignment); }
  static void operator delete(void* p, std::size_t size) noexcept { free_record(p, size, frame_alignment); }

  // GCC 12 miscompiles a coroutine that declares no variable and awaits in the condition of an if, a switch or a loop.
  // It puts the condition at the beginning of the frame, before the part that every frame begins with. A coroutine
  // handle then does not point to the frame, and resuming it jumps to an arbitrary address. The error can be detected
  // before anything has run: the promise is not where the handle says it is either.
  struct first_suspension {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      async_promise_base& promise = self.promise();
      if (promise.awaited_by != promise.mark()) [[unlikely]]
        report_misplaced_promise();
      promise.awaited_by = {};
    }
    void await_resume() const noexcept {}
  };
  first_suspension initial_suspend() noexcept {
    awaited_by = mark();
    return {};
  }

  struct last_suspension {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      const std::coroutine_handle<> caller = self.promise().awaited_by;
      if (caller)
        resume_next(caller);
      else
        end_async(self);
    }
    void await_resume() const noexcept {}
  };
  last_suspension final_suspend() const noexcept { return {}; }

  template <class A>
  auto await_transform(A&& awaited) const {
    static_assert(awaitable_in_async<A>,
                  "coir: an async can co_await another async (one that has a name: std::move it), a task, and what the "
                  "functions named async_... return (an async_select: where it is written), and nothing else: nobody "
                  "would know who resumes it, nor where");
    if constexpr (awaitable_in_async<A>)
      return awaiter_of(static_cast<A&&>(awaited));
    else
      return std::suspend_never();  // avoids further error messages
  }

  void unhandled_exception() noexcept { error = std::current_exception(); }

  std::coroutine_handle<> awaited_by;  ///< null: this is the outermost coroutine
  std::exception_ptr error;

 protected:
  // Compilers do not ask for more. If the promise had a larger alignment, first_suspension could not detect the error
  // that it looks for.
  static constexpr std::size_t frame_alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

 private:
  std::coroutine_handle<> mark() noexcept { return std::coroutine_handle<>::from_address(this); }
};

template <class T>
class async_promise : public async_promise_base {
 public:
  async<T> get_return_object() noexcept;

  template <class U = T>
    requires std::constructible_from<T, U>
  void return_value(U&& value) {
    result_.fill([&]() -> T { return T(std::forward<U>(value)); });
  }

  T take() {
    if (error) std::rethrow_exception(std::move(error));
    return result_.take();
  }

 private:
  result_slot<T> result_;
};

template <class T>
class async_promise<T&> : public async_promise_base {
 public:
  async<T&> get_return_object() noexcept;
  void return_value(T& value) {
    result_.fill([&]() -> T& { return value; });
  }
  T& take() {
    if (error) std::rethrow_exception(std::move(error));
    return result_.take();
  }

 private:
  result_slot<T&> result_;
};

template <>
class async_promise<void> : public async_promise_base {
 public:
  async<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() {
    if (error) std::rethrow_exception(std::move(error));
  }
};

struct async_access;
/// Throws std::logic_error.
[[noreturn]] void throw_empty_async();

}  // namespace detail

/// The result of a coroutine that waits as fibers do. It does nothing until it is awaited or spawned. Move-only.
template <class T>
class [[nodiscard("an async does nothing until it is awaited or spawned")]] async {
 public:
  /// What `co_await` returns.
  using result_type = T;
  /// For the compiler.
  using promise_type = detail::async_promise<T>;

  /// An empty async, which stands for no coroutine.
  async() noexcept = default;
  /// Takes over the coroutine; the other is empty afterwards.
  async(async&& other) noexcept : frame_(std::exchange(other.frame_, {})) {}
  /// The same, after it has destroyed its own.
  async& operator=(async&& other) noexcept {
    if (this != &other) {
      drop();
      frame_ = std::exchange(other.frame_, {});
    }
    return *this;
  }
  ~async() { drop(); }

  /// Whether this stands for a coroutine. False if it is empty, moved from, awaited or spawned.
  bool valid() const noexcept { return static_cast<bool>(frame_); }
  /// The same as valid().
  explicit operator bool() const noexcept { return valid(); }

  /// `co_await f()`, `co_await std::move(a)`: runs the coroutine to its end as a part of the calling coroutine. Returns
  /// its result or rethrows the exception that left it. Leaves the async empty. It is not a cancellation point itself.
  /// Throws std::logic_error if the async is empty.
  auto operator co_await() && {
    if (!valid()) detail::throw_empty_async();
    return awaiter(std::move(*this));
  }

 private:
  friend promise_type;
  friend struct detail::async_access;

  class awaiter : detail::async_awaiter_mark {
   public:
    explicit awaiter(async&& child) noexcept : child_(std::move(child)) {}

    bool await_ready() const noexcept { return false; }
    template <detail::async_coroutine Promise>
    void await_suspend(std::coroutine_handle<Promise> caller) noexcept {
      child_.frame_.promise().awaited_by = caller;
      detail::resume_next(child_.frame_);
    }
    T await_resume() { return child_.frame_.promise().take(); }

   private:
    async child_;
  };

  explicit async(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}

  void drop() noexcept {
    if (frame_) frame_.destroy();
  }

  std::coroutine_handle<promise_type> frame_;
};

namespace detail {

template <class T>
async<T> async_promise<T>::get_return_object() noexcept {
  static_assert(alignof(async_promise) <= frame_alignment,
                "coir: a coroutine's frame has no room for over-aligned results; return a pointer");
  return async<T>(std::coroutine_handle<async_promise>::from_promise(*this));
}
template <class T>
async<T&> async_promise<T&>::get_return_object() noexcept {
  return async<T&>(std::coroutine_handle<async_promise>::from_promise(*this));
}
inline async<void> async_promise<void>::get_return_object() noexcept {
  return async<void>(std::coroutine_handle<async_promise>::from_promise(*this));
}

/// The record of a spawned async. Owns its outermost frame.
template <class T>
struct async_record final : stackless, task_result<T> {
  /// Owns the coroutine from here on.
  async_record(scheduler& home, std::coroutine_handle<async_promise<T>> outermost, source_location where) noexcept
      : stackless(home, outermost), task_result<T>(&async_record::enter, &async_record::destroy_this, where) {
    stackless::belongs_to(*this, this->id());
    task_state::belongs_to(*this);
  }

  /// Runs one turn of the coroutine. If that was the last one, keeps its result and ends the task.
  static void enter(start_record* r) {
    auto* self = static_cast<async_record*>(r);
    if (!self->run_turn()) return;
    const auto outermost = std::coroutine_handle<async_promise<T>>::from_address(self->frame().address());
    try {
      self->result.fill([&]() -> T { return outermost.promise().take(); });
    } catch (...) {
      self->error = std::current_exception();
    }
    outermost.destroy();
    self->leave();
    if (self->finish()) {  // detached: it ends as a `go` fiber does
      const std::exception_ptr error = std::move(self->error);
      destroy_record(self);
      if (error) std::rethrow_exception(error);
    }
  }

  /// Frees the record.
  static void destroy_this(task_result<T>* r) noexcept { destroy_record(static_cast<async_record*>(r)); }
};

/// The record of an async that nobody joins. It is smaller. An exception that leaves the async leaves its fiber too.
struct go_async_record final : stackless, start_record {
  /// Owns the coroutine from here on.
  go_async_record(scheduler& home, std::coroutine_handle<async_promise<void>> outermost, source_location where) noexcept
      : stackless(home, outermost), start_record(&go_async_record::enter, where) {
    belongs_to(*this);
  }

  /// Runs one turn of the coroutine. If that was the last one, frees the record and rethrows what left the coroutine.
  static void enter(start_record* r);
};

struct async_access {
  /// Starts the async with a new record, which owns the frame. The record owns itself, or it belongs to the task of the
  /// async.
  template <class Record, class T>
  static Record* start(scheduler& home, async<T>&& a, source_location where) {
    if (!a.valid()) throw_empty_async();
    auto* record = make_record<Record>(home, a.frame_, where);
    a.frame_ = {};
    record->enroll();
    detail::start(home, record);
    return record;
  }
};

/// A function that returns an async. Usually it is a lambda that is a coroutine.
template <class F>
concept async_function = std::invocable<std::decay_t<F>&> && is_async<std::invoke_result_t<std::decay_t<F>&>>;

/// Keeps the function, and with it a lambda's captures, until its coroutine has ended.
template <class F>
std::invoke_result_t<F&> keep_while(F f) {
  if constexpr (std::is_void_v<typename std::invoke_result_t<F&>::result_type>)
    co_await f();
  else
    co_return co_await f();
}

/// Starts an async that nobody joins. Throws std::logic_error if it is empty.
template <class T>
void go_in(scheduler& where, async<T>&& a, source_location at) {
  static_assert(std::is_void_v<T>, "coir: go() would lose the result; spawn() it");
  async_access::start<go_async_record>(where, std::move(a), at);
}
template <class T>
void go_in(scheduler& where, async<T>& a, source_location at) = delete;  // std::move(a)
/// The same for a function that returns an async.
template <async_function F>
void go_in(scheduler& where, F&& f, source_location at) {
  go_in(where, keep_while<std::decay_t<F>>(std::forward<F>(f)), at);
}

}  // namespace detail

// For coir::go(async<void>) and coir::spawn(async<T>), which returns a task<T>, and for the same functions when they
// get a function that returns an async. <coir/runtime.hpp> declares them; they find the functions here. They throw
// std::logic_error if the async is empty.
/// Not for users: spawn() of an async.
template <class T>
task<T> spawn_in(detail::scheduler& where, async<T>&& a, source_location at) {
  return detail::task_access::handle<T>(detail::async_access::start<detail::async_record<T>>(where, std::move(a), at));
}
template <class T>
task<T> spawn_in(detail::scheduler& where, async<T>& a, source_location at) = delete;  // std::move(a)
/// Not for users: spawn() of a function that returns an async.
template <detail::async_function F>
auto spawn_in(detail::scheduler& where, F&& f, source_location at) {
  return spawn_in(where, detail::keep_while<std::decay_t<F>>(std::forward<F>(f)), at);
}

namespace detail {

/// A join: the wait for the end of the task's fiber.
class task_state::end_wait final : public queued_wait {
 public:
  /// Refers to the task's state.
  explicit end_wait(task_state& of) noexcept : of_(&of) {}

  wait_place place() const noexcept { return {of_->lock_, of_->joiners_}; }  ///< the task's joiners
  wait_reason why() const noexcept { return {"task join", of_}; }            ///< for reports
  bool try_now() noexcept { return of_->finished(); }                        ///< whether the fiber has ended
  bool enter() noexcept;          ///< false: it has not ended, and the task's lock is held
  wake leave(wake how) noexcept;  ///< unlocks; returns how the wait ended after all
  wake outcome(wake how) const;   ///< returns `how`, or throws `cancelled`

 private:
  task_state* of_;
};

class [[nodiscard]] end_awaiter : public queue_awaiter<task_state::end_wait> {
 public:
  explicit end_awaiter(task_state& of) noexcept : queue_awaiter(std::in_place, of) {}
  void await_resume() { static_cast<void>(queue_awaiter::await_resume()); }
};

class [[nodiscard]] timed_end_awaiter : public timed_queue_awaiter<task_state::end_wait> {
 public:
  timed_end_awaiter(deadline until, task_state& of) noexcept : timed_queue_awaiter<task_state::end_wait>(until, of) {}
  bool await_resume() { return queue_awaiter::await_resume() == wake::fired; }
};

/// As task::get(), but the coroutine waits instead of a fiber.
template <class T>
class [[nodiscard]] task_awaiter : public end_awaiter {
 public:
  /// Refers to the task. Throws std::logic_error if it is empty.
  explicit task_awaiter(task<T>& t) : end_awaiter(*task_access::state(t)), task_(t) {}
  /// Takes the result. Throws `cancelled`, and what task::get() throws.
  T await_resume() {
    end_awaiter::await_resume();
    return task_.get();
  }

 private:
  task<T>& task_;
};

}  // namespace detail

/// `co_await t`: as t.get(), but the coroutine waits instead of a fiber. The task must stay where it is meanwhile.
/// Throws what get() throws: std::logic_error on an empty task, and `cancelled` if the calling async is cancelled and
/// would have to wait (the task is then as before).
template <class T>
auto operator co_await(task<T>& t) {
  return detail::task_awaiter<T>(t);
}
/// The same for a temporary, and for `co_await std::move(t)`.
template <class T>
auto operator co_await(task<T>&& t) {
  return detail::task_awaiter<T>(t);
}

template <class R>
detail::end_awaiter task<R>::async_wait() const {
  return detail::end_awaiter(*detail::task_access::state(*this));
}
template <class R>
template <class Rep, class Period>
detail::timed_end_awaiter task<R>::async_wait_for(std::chrono::duration<Rep, Period> d) const {
  return detail::timed_end_awaiter(detail::deadline_after(d), *detail::task_access::state(*this));
}
template <class R>
template <class Clock, class Duration>
detail::timed_end_awaiter task<R>::async_wait_until(std::chrono::time_point<Clock, Duration> t) const {
  return detail::timed_end_awaiter(detail::deadline_at(t), *detail::task_access::state(*this));
}

namespace detail {

class [[nodiscard]] sleep_awaiter : async_awaiter_mark {
 public:
  /// Zero: does not wait. Any other deadline: waits, even if the deadline passes meanwhile, and so notices a
  /// cancellation.
  explicit sleep_awaiter(deadline until) noexcept : until_(until) {}
  sleep_awaiter(const sleep_awaiter&) = delete;
  sleep_awaiter& operator=(const sleep_awaiter&) = delete;

  bool await_ready() const noexcept { return until_ == 0; }
  template <async_coroutine Promise>
  bool await_suspend(std::coroutine_handle<Promise> where) {
    return sleep(where);
  }
  void await_resume();

 private:
  bool sleep(std::coroutine_handle<> where);
  static void fire(void* self, std::uint64_t word) noexcept;

  deadline until_;
  alarm alarm_;
  stackless* sleeper_ = nullptr;
  bool refused_ = false;
  std::atomic<bool> fired_in_vain_{false};  // the alarm's last touch, if it came too late
};

}  // namespace detail

/// `co_await async_sleep(d)`: as sleep_for(), but the coroutine waits instead of a fiber. Never early. It returns at
/// once if d is not positive; otherwise it is a cancellation point and throws `cancelled`. Also throws std::bad_alloc;
/// std::system_error if the processor was taken away from the async and the thread for a timer cannot be started; and
/// std::logic_error if the awaiter is kept and awaited a second time.
template <class Rep, class Period>
[[nodiscard]] detail::sleep_awaiter async_sleep(std::chrono::duration<Rep, Period> d) {
  return detail::sleep_awaiter(detail::deadline_after(d));
}

/// The same until t, as sleep_until(). Returns at once if t has passed.
template <class Clock, class Duration>
[[nodiscard]] detail::sleep_awaiter async_sleep_until(std::chrono::time_point<Clock, Duration> t) {
  const detail::deadline until = detail::deadline_at(t);
  return detail::sleep_awaiter(until > detail::now() ? until : 0);
}

}  // namespace coir
