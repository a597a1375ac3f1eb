// Starting fibers. A program calls run() from main. The function that it passes becomes the first fiber, which starts
// others:
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

/// What run() does with the other fibers when the main function has returned.
enum class on_main_return {
  drain,   ///< run() waits until every fiber has ended
  cancel,  ///< run() cancels the others and waits for them to unwind
};

/// The options of a runtime.
struct options {
  /// How many fibers run at once. 0: the environment variable COIR_PROCS, or else the number of CPUs that this process
  /// may use (its affinity mask, and the least quota of its cgroup and of the cgroups above). At most 1024.
  unsigned processors = 0;

  /// Size of a fiber's stack, in bytes: 16 KiB to 1 GiB, rounded up to whole pages. This is address space; memory is
  /// used only as far as the stack was touched. coir itself needs up to 4 KiB of the stack. A guard of 64 KiB or a page
  /// more comes in addition. A fiber that runs into the guard ends the process with a report. A single frame that is
  /// larger than the guard may step over it, unless its function was compiled with -fstack-clash-protection.
  std::size_t stack_size = 256 * 1024;

  /// How long a fiber may compute while others wait for its processor. Must be positive. A fiber that takes longer
  /// loses the processor. It goes on beside the others, on a thread of its own, until it next blocks, yields or ends. A
  /// fiber that blocks its thread (a system call, a lock of the operating system) loses the processor within two
  /// milliseconds or so.
  std::chrono::nanoseconds time_slice = std::chrono::milliseconds(10);

  /// Used by the free function run() alone.
  on_main_return when_main_returns = on_main_return::drain;

  /// How many threads may run fibers, including threads whose fiber is blocked or computes without a processor. If that
  /// many threads are not enough, the process ends with a report, since its fibers would wait forever. At least the
  /// number of processors.
  unsigned max_threads = 10'000;
};

class runtime;
struct metrics_snapshot;

namespace detail {

class engine;

/// Where a plain thread waits for a fiber to end.
class main_fiber {
 public:
  /// The fiber's last step: lets the waiting thread go on.
  void signal();
  /// Whether the fiber has called signal().
  bool done() const noexcept;

  /// Throws the exception that left the fiber. If that is `cancelled`, throws `deadlock` if a deadlock unwound the
  /// fiber, and task_cancelled otherwise.
  [[noreturn]] void rethrow(const std::exception_ptr& error) const;

 private:
  std::shared_ptr<const std::string> deadlock_;
  std::atomic<std::uint32_t> done_{0};
};

/// While a blocking_section lives, its fiber has no processor.
class blocking_section {
 public:
  blocking_section() noexcept;
  ~blocking_section();
  blocking_section(const blocking_section&) = delete;
  blocking_section& operator=(const blocking_section&) = delete;

 private:
  bool handed_off_;
};

/// Throws std::logic_error inside a fiber.
void check_run_outside();
/// As runtime::wait(), but writes a deadlock to stderr and does not throw it.
void wait_quietly(runtime& rt) noexcept;

/// Marks a runtime whose time is virtual (<coir/simulate.hpp>).
struct in_virtual_time {};

}  // namespace detail

/// A scheduler with an explicit lifetime. Its fibers share its processors, deadlock detection and options. Channels and
/// other primitives also work between the fibers of different runtimes, and with plain threads.
/// Thread safety: every member may be called from any thread. The destructor must not be called by a fiber of this
/// runtime.
class runtime {
 public:
  /// Throws std::invalid_argument if an option is out of range, or COIR_PROCS or COIR_DEBUG is malformed;
  /// std::system_error if no thread can be started; and std::bad_alloc.
  explicit runtime(options o = {});

  /// Not for users; see simulate(). Has one processor, whatever the options say.
  runtime(options o, detail::in_virtual_time);

  /// Waits as wait() does. A deadlock is written to stderr, since a destructor cannot throw. Called by a fiber of this
  /// runtime, it ends the process with a report.
  ~runtime();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  /// As coir::go, but in this runtime and from any fiber or thread. Throws what that throws, except not_in_runtime.
  template <class F>
  void go(F&& f, source_location at = source_location::current()) {
    go_in(*scheduler_, std::forward<F>(f), at);  // found by its first argument, as async.hpp has others
  }
  /// As coir::spawn, but in this runtime and from any fiber or thread. Throws what that throws, except not_in_runtime.
  template <class F>
  [[nodiscard]] auto spawn(F&& f, source_location at = source_location::current()) {
    return spawn_in(*scheduler_, std::forward<F>(f), at);
  }
  /// As coir::go with options, but in this runtime and from any fiber or thread. Throws what that throws, except
  /// not_in_runtime.
  template <class F>
  void go(const spawn_options& o, F&& f, source_location at = source_location::current()) {
    go_in(*scheduler_, o, std::forward<F>(f), at);
  }
  /// As coir::spawn with options, but in this runtime and from any fiber or thread. Throws what that throws, except
  /// not_in_runtime.
  template <class F>
  [[nodiscard]] auto spawn(const spawn_options& o, F&& f, source_location at = source_location::current()) {
    return spawn_in(*scheduler_, o, std::forward<F>(f), at);
  }

  /// Runs f as a fiber. Blocks the calling thread until f has returned. Returns its result or rethrows its exception.
  /// Other fibers go on. Throws std::logic_error when called by a fiber, `deadlock` if a deadlock unwound f, and
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

  /// Blocks the calling thread until no fiber is left. If there was a deadlock, throws `deadlock`, once for each, after
  /// the blocked fibers have unwound. Throws std::logic_error when called by a fiber.
  void wait();

  /// Cancels every fiber of the runtime, including those that are started later. Does not wait for them.
  void cancel();

  /// The number of processors.
  unsigned processors() const noexcept;

  /// The counters and gauges of this runtime; see <coir/metrics.hpp>. May be called from any thread. Throws
  /// std::bad_alloc.
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

/// Starts a fiber in the calling fiber's runtime; nobody joins it. If an exception leaves f, the process ends with a
/// report and std::terminate(), before the stack is unwound, as in a std::thread. But `cancelled` ends the fiber in
/// silence. Never blocks. Throws not_in_runtime outside a fiber, and std::bad_alloc.
template <class F>
void go(F&& f, source_location at = source_location::current()) {
  go_in(detail::current_scheduler("coir::go"), std::forward<F>(f), at);
}

/// Starts a joinable fiber in the calling fiber's runtime and returns its task. Never blocks. Throws not_in_runtime
/// outside a fiber, and std::bad_alloc.
template <class F>
[[nodiscard]] auto spawn(F&& f, source_location at = source_location::current()) {
  return spawn_in(detail::current_scheduler("coir::spawn"), std::forward<F>(f), at);
}

/// As go() with a name, and with a stack size for this fiber; see spawn_options. Also throws std::invalid_argument if
/// options would not take the stack_size. Costs more than a go() without options. f must not be a coroutine.
template <class F>
void go(const spawn_options& o, F&& f, source_location at = source_location::current()) {
  go_in(detail::current_scheduler("coir::go"), o, std::forward<F>(f), at);
}
/// As spawn() with a name, and with a stack size for this fiber. Otherwise as go() with options.
template <class F>
[[nodiscard]] auto spawn(const spawn_options& o, F&& f, source_location at = source_location::current()) {
  return spawn_in(detail::current_scheduler("coir::spawn"), o, std::forward<F>(f), at);
}

/// Runs f in the calling fiber; f is going to block its thread (a system call, a library that waits). The fiber's
/// processor serves other fibers meanwhile. Without this call, the processor is taken away from the fiber a little
/// later. Returns what f returns, and throws what f throws. It is not a cancellation point itself. The fiber may be on
/// another thread afterwards. Outside a fiber it just calls f.
template <class F>
auto blocking(F&& f) -> std::invoke_result_t<F&&> {
  const detail::blocking_section section;
  return std::forward<F>(f)();
}

namespace detail {

/// run() in the given runtime, which is new.
template <class F>
auto run_in(runtime& rt, const options& o, F& main_function, source_location at) -> std::invoke_result_t<F&> {
  result_slot<std::invoke_result_t<F&>> slot;
  try {
    slot.fill([&]() -> std::invoke_result_t<F&> { return rt.run(main_function, at); });
  } catch (const deadlock&) {
    rt.wait();  // throws the deadlock, once the others have unwound
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

/// Runs main_function as the first fiber of a new runtime. Blocks the calling thread until that fiber has ended, and
/// the others too, as options::when_main_returns says. Returns the function's result. If an exception leaves the
/// function, cancels the other fibers, waits for them and rethrows the exception. Throws `deadlock`, std::logic_error
/// inside a fiber, and what runtime's constructor throws.
template <class F>
auto run(const options& o, F&& main_function, source_location at = source_location::current())
    -> std::invoke_result_t<F&> {
  detail::check_run_outside();
  runtime rt{o};
  return detail::run_in(rt, o, main_function, at);
}

/// The same with the default options.
template <class F>
auto run(F&& main_function, source_location at = source_location::current()) -> std::invoke_result_t<F&>
  requires std::is_invocable_v<F&>
{
  return run(options{}, std::forward<F>(main_function), at);
}

}  // namespace coir
