// Starting fibers. A program calls run() from main; what it passes becomes the first fiber, which starts others:
//
//   int main() {
//     coir::run([] {
//       coir::task<int> answer = coir::spawn([] { return 42; });
//       coir::go([] { std::puts("beside it"); });
//       std::printf("%d\n", answer.get());
//     });
//   }
//
// Semantics: the Go specification's "go statement" and scheduler, with joinable tasks and exceptions as in std.
// Happens-before: go() and spawn() happen before the fiber's function starts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/is_async.hpp>
#include <coir/detail/start_record.hpp>
#include <coir/error.hpp>
#include <coir/fiber_id.hpp>
#include <coir/sleep.hpp>
#include <coir/source_location.hpp>
#include <coir/spawn_options.hpp>
#include <coir/task.hpp>
#include <coir/this_fiber.hpp>

namespace coir::inline COIR_ABI {

enum class on_main_return {
  drain,   ///< run() waits until every fiber has ended
  cancel,  ///< run() cancels the others and waits for them to unwind
};

struct options {
  /// How many fibers run at once. 0: the environment variable COIR_PROCS, else the CPUs that this process may use
  /// (affinity mask; the least quota of its cgroup and of those above it). At most 1024.
  unsigned processors = 0;

  /// Size of a fiber's stack, in bytes: 16 KiB to 1 GiB, rounded up to whole pages. Address space, of which memory is
  /// used as far as it was touched; coir itself needs up to 4 KiB of it. A guard of 64 KiB or a page more comes in
  /// addition: a fiber that runs into it ends the process with a report. A single frame larger than the guard may step
  /// over it, unless its function was compiled with -fstack-clash-protection.
  std::size_t stack_size = 256 * 1024;

  /// How long a fiber may compute while others wait for its processor. Positive. A fiber that takes longer loses the
  /// processor and goes on beside the others, on a thread of its own, until it next blocks, yields or ends. One that
  /// blocks its thread (a system call, a lock of the operating system) loses it within two milliseconds or so.
  std::chrono::nanoseconds time_slice = std::chrono::milliseconds(10);

  /// Concerns the free function run() alone.
  on_main_return when_main_returns = on_main_return::drain;

  /// How many threads may run fibers, those blocked or computing without a processor included. If that many are not
  /// enough the process ends with a report, since its fibers would wait forever. At least the number of processors.
  unsigned max_threads = 10'000;
};

class runtime;
struct metrics_snapshot;

namespace detail {

class engine;

/// Where a plain thread waits for a fiber to end.
class main_fiber {
 public:
  void signal();
  bool done() const noexcept;

  /// Throws the exception that left the fiber. In place of `cancelled`: task_cancelled, or `deadlock` if that unwound
  /// it.
  [[noreturn]] void rethrow(const std::exception_ptr& error) const;

 private:
  std::shared_ptr<const std::string> deadlock_;
  std::atomic<std::uint32_t> done_{0};
};

/// While one lives its fiber has no processor.
class blocking_section {
 public:
  blocking_section() noexcept;
  ~blocking_section();
  blocking_section(const blocking_section&) = delete;
  blocking_section& operator=(const blocking_section&) = delete;

 private:
  bool handed_off_;
};

void check_run_outside();
void wait_quietly(runtime& rt) noexcept;

/// Of a runtime whose time is virtual (<coir/simulate.hpp>).
struct in_virtual_time {};

}  // namespace detail

/// A scheduler with explicit lifetime. Its fibers share processors, deadlock detection and options; channels and other
/// primitives work between the fibers of different runtimes and with plain threads.
/// Thread safety: every member may be called from any thread; the destructor from any thread but its own fibers.
class runtime {
 public:
  /// Throws std::invalid_argument (options out of range, a malformed COIR_PROCS or COIR_DEBUG), std::system_error
  /// (no thread), std::bad_alloc.
  explicit runtime(options o = {});

  /// Not for users: see simulate(). One processor, whatever the options say.
  runtime(options o, detail::in_virtual_time);

  /// Waits as wait() does; a deadlock is then written to stderr, since a destructor cannot throw.
  ~runtime();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  /// As coir::go and coir::spawn, from anywhere. Throws what those throw, but not_in_runtime.
  template <class F>
  void go(F&& f, source_location at = source_location::current()) {
    go_in(*scheduler_, std::forward<F>(f), at);  // found by its first argument, as async.hpp has others
  }
  template <class F>
  [[nodiscard]] auto spawn(F&& f, source_location at = source_location::current()) {
    return spawn_in(*scheduler_, std::forward<F>(f), at);
  }
  template <class F>
  void go(const spawn_options& o, F&& f, source_location at = source_location::current()) {
    go_in(*scheduler_, o, std::forward<F>(f), at);
  }
  template <class F>
  [[nodiscard]] auto spawn(const spawn_options& o, F&& f, source_location at = source_location::current()) {
    return spawn_in(*scheduler_, o, std::forward<F>(f), at);
  }

  /// Runs f as a fiber; blocks the calling thread until it has returned; returns its result or rethrows its exception.
  /// Other fibers go on. Throws std::logic_error when called by a fiber, `deadlock` if f was unwound by one,
  /// task_cancelled if f ended by its cancellation.
  template <class F>
  auto run(F&& f, source_location at = source_location::current()) -> std::invoke_result_t<F&> {
    using result = std::invoke_result_t<F&>;
    static_assert(!detail::is_async<result>, "coir: run() a function that spawns the async and joins it");
    check_outside();
    struct frame {
      F& f;
      detail::result_slot<result> slot;
      std::exception_ptr error;
      detail::main_fiber done;
    } main{f, {}, nullptr, {}};
    auto body = [&main] {
      try {
        main.slot.fill(main.f);
      } catch (...) {
        main.error = std::current_exception();
      }
      main.done.signal();
    };
    go(body, at);
    wait_for_main(main.done);
    if (main.error) main.done.rethrow(main.error);
    return main.slot.take();
  }

  /// Blocks until no fiber is left. Throws `deadlock` (once for each) after the blocked fibers have unwound, and
  /// std::logic_error when called by a fiber.
  void wait();

  /// Cancels every fiber, now and to come.
  void cancel();

  unsigned processors() const noexcept;

  /// Its counters and gauges: see <coir/metrics.hpp>. From any thread. Throws std::bad_alloc.
  metrics_snapshot metrics() const;

  /// The calling fiber's runtime. Throws not_in_runtime outside a fiber.
  static runtime& current();

 private:
  friend class detail::engine;  // of explorations
  explicit runtime(detail::scheduler& explored) noexcept;

  void check_outside() const;
  void wait_for_main(detail::main_fiber& done) noexcept;

  std::unique_ptr<detail::scheduler, void (*)(detail::scheduler*)> scheduler_;
};

/// Starts a fiber in the current fiber's runtime; fire and forget. An exception that leaves f ends the process with a
/// report and std::terminate() (but for `cancelled`, a silent end), before the stack is unwound, as in a std::thread.
/// Never blocks. Throws not_in_runtime, std::bad_alloc.
template <class F>
void go(F&& f, source_location at = source_location::current()) {
  go_in(detail::current_scheduler("coir::go"), std::forward<F>(f), at);
}

/// Starts a joinable fiber. Never blocks. Throws not_in_runtime, std::bad_alloc.
template <class F>
[[nodiscard]] auto spawn(F&& f, source_location at = source_location::current()) {
  return spawn_in(detail::current_scheduler("coir::spawn"), std::forward<F>(f), at);
}

/// The same with a name, and a stack of a size of its own: see spawn_options. Throws std::invalid_argument for a
/// stack_size that options would not take. Costs more than without; f must not be a coroutine.
template <class F>
void go(const spawn_options& o, F&& f, source_location at = source_location::current()) {
  go_in(detail::current_scheduler("coir::go"), o, std::forward<F>(f), at);
}
template <class F>
[[nodiscard]] auto spawn(const spawn_options& o, F&& f, source_location at = source_location::current()) {
  return spawn_in(detail::current_scheduler("coir::spawn"), o, std::forward<F>(f), at);
}

/// Runs f, which is going to block its thread (a system call, a library that waits), in the calling fiber, whose
/// processor serves others meanwhile. Without this call the same happens a little later by itself. Returns what f
/// returns, and throws what it throws; then the fiber may be on another thread. Outside a fiber it just calls f.
template <class F>
auto blocking(F&& f) -> std::invoke_result_t<F&&> {
  const detail::blocking_section section;
  return std::forward<F>(f)();
}

namespace detail {

/// run() in that runtime, which is new.
template <class F>
auto run_in(runtime& rt, const options& o, F& main_function, source_location at) -> std::invoke_result_t<F&> {
  result_slot<std::invoke_result_t<F&>> slot;
  try {
    slot.fill([&]() -> std::invoke_result_t<F&> { return rt.run(main_function, at); });
  } catch (const deadlock&) {
    rt.wait();  // throws it, once the others have unwound
    throw;
  } catch (...) {
    rt.cancel();
    wait_quietly(rt);
    throw;
  }
  if (o.when_main_returns == on_main_return::cancel) rt.cancel();
  rt.wait();
  return slot.take();
}

}  // namespace detail

/// Runs main_function as the first fiber of a new runtime, and blocks the calling thread until it and, as the options
/// say, the others have ended. Returns its result or rethrows its exception (then the others are cancelled first).
/// Throws `deadlock`, std::logic_error (inside a fiber), and what runtime's constructor throws.
template <class F>
auto run(const options& o, F&& main_function, source_location at = source_location::current())
    -> std::invoke_result_t<F&> {
  detail::check_run_outside();
  runtime rt{o};
  return detail::run_in(rt, o, main_function, at);
}

template <class F>
auto run(F&& main_function, source_location at = source_location::current()) -> std::invoke_result_t<F&>
requires std::is_invocable_v<F&> { return run(options{}, std::forward<F>(main_function), at); }

}  // namespace coir
