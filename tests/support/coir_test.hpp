// What the tests of all layers share: each test at several numbers of processors, waiting until a fiber is blocked
// (instead of sleeping and hoping), errors checked by their message, and work scaled down under the sanitizers.
//
//   class chan_test : public coir_test::with_processors {};
//   TEST_P(chan_test, ReceiveBlocksUntilASend) {
//     run([] { ... });
//   }
//   INSTANTIATE_TEST_SUITE_P(Processors, chan_test, coir_test::processors, coir_test::processors_name);
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>
#include <coir/metrics.hpp>
#include <coir/runtime.hpp>
#include <coir/task.hpp>
#include <coir/this_fiber.hpp>

namespace coir_test {

// ---- which build this is -------------------------------------------------------------------------------------------

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool address_sanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool address_sanitizer = true;
#else
inline constexpr bool address_sanitizer = false;
#endif
#else
inline constexpr bool address_sanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool thread_sanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool thread_sanitizer = true;
#else
inline constexpr bool thread_sanitizer = false;
#endif
#else
inline constexpr bool thread_sanitizer = false;
#endif

/// n repetitions in a plain build, a tenth under AddressSanitizer, a fiftieth under ThreadSanitizer; at least one.
template <class Integer>
constexpr Integer scaled(Integer n) {
  static_assert(std::is_integral_v<Integer>);
  const Integer divided = thread_sanitizer    ? static_cast<Integer>(n / 50)
                          : address_sanitizer ? static_cast<Integer>(n / 10)
                                              : n;
  return divided < 1 ? static_cast<Integer>(1) : divided;
}

/// How many fibers a test may have alive at a time: ThreadSanitizer knows no more than some eight thousand "threads".
inline constexpr std::size_t max_live_fibers = thread_sanitizer ? 2'000 : 100'000;

// ---- several numbers of processors ---------------------------------------------------------------------------------

/// One, two, and more than the machine may have: the operating system then preempts in the worst places.
inline const auto processors = testing::Values(1U, 2U, 8U);

inline std::string processors_name(const testing::TestParamInfo<unsigned>& info) {
  return std::to_string(info.param) + "P";
}

class with_processors : public testing::TestWithParam<unsigned> {
 public:
  coir::options opts() const {
    coir::options o;
    o.processors = GetParam();
    return o;
  }

  /// coir::run with that many processors.
  template <class F>
  auto run(F&& f) const {
    return coir::run(opts(), std::forward<F>(f));
  }
};

/// What body() returns in a runtime with one processor that was not retaken meanwhile, so that only one fiber ran at a
/// time and none was overtaken: the monitor retakes it from a fiber whose thread the kernel has put to sleep, be it for
/// a page, which happens now and then on a busy machine. The body is repeated then; it tells its outcome, and asserts
/// nothing that depends on the order.
template <class F>
auto on_one_processor(F body, coir::options o = {}) {
  o.processors = 1;
  for (;;) {
    auto [outcome, retaken] = coir::run(o, [&body] {
      auto result = body();
      return std::pair(std::move(result), coir::metrics().retaken);
    });
    if (retaken == 0) return std::move(outcome);
  }
}

// ---- waiting -------------------------------------------------------------------------------------------------------

/// Lets others run, from a fiber or a plain thread: one round of a polling loop.
inline void pause() {
  if (coir::this_fiber::is_fiber())
    coir::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

/// Returns once the condition holds; the test's timeout ends a wait for what never comes.
template <class Condition>
void until(Condition&& holds) {
  while (!holds()) pause();
}

/// Returns once the task's fiber is blocked: parked, and queued where it waits. Throws if it ends instead.
template <class R>
void until_blocked(const coir::task<R>& task) {
  for (;;) {
    const coir::task_status status = task.status();
    if (status == coir::task_status::blocked) return;
    if (status == coir::task_status::finished) throw std::logic_error("until_blocked: the fiber has ended");
    pause();
  }
}

/// The same for one that waits for a time, which may pass before anybody has looked.
template <class R>
void until_blocked_or_ended(const coir::task<R>& task) {
  until([&] {
    const coir::task_status status = task.status();
    return status == coir::task_status::blocked || status == coir::task_status::finished;
  });
}

/// until_blocked() for every task of a container.
template <class Tasks>
  requires requires(const Tasks& tasks) { tasks.begin()->status(); }
void until_blocked(const Tasks& tasks) {
  for (const auto& task : tasks) until_blocked(task);
}

// ---- errors --------------------------------------------------------------------------------------------------------

/// f() must throw an Error (or what derives from it) whose what() contains `part`.
template <class Error, class F>
void expect_throw_message(F&& f, const std::string& part) {
  try {
    std::forward<F>(f)();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos)
        << "what() is \"" << e.what() << "\", without \"" << part << "\"";
    return;
  } catch (const std::exception& e) {
    ADD_FAILURE() << "threw an exception of another type: " << e.what();
    return;
  } catch (...) {
    ADD_FAILURE() << "threw something that is no std::exception";
    return;
  }
  ADD_FAILURE() << "threw nothing; expected \"" << part << "\"";
}

}  // namespace coir_test
