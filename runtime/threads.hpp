// Which threads of the process are the runtimes' own, and which runtimes there are: what deadlock detection must know to be
// certain. A thread is counted only while it surely exists, so the count is never too high.
#pragma once

#include <functional>
#include <thread>

namespace coir::detail {

class scheduler;

namespace runtime_threads {

/// A counted thread. Throws std::system_error.
std::thread start(std::function<void()> body);

/// Before `count` of them are told to end.
void forget(std::size_t count) noexcept;

/// While one lives, the calling plain thread counts as blocked in run() or wait().
class blocked_in_run {
 public:
  blocked_in_run() noexcept;
  ~blocked_in_run();
  blocked_in_run(const blocked_in_run&) = delete;
  blocked_in_run& operator=(const blocked_in_run&) = delete;
};

/// Whether the process has no other threads than counted ones, as far as the kernel says.
bool no_others();

}  // namespace runtime_threads

namespace runtime_registry {

void add(scheduler& s);
void remove(scheduler& s) noexcept;

/// Calls f() with the registry locked, so that runtimes neither come nor go, if every runtime is quiescent without a timer
/// and stays so for the duration of the check. True if f was called.
bool if_all_quiescent(const std::function<void()>& f);

}  // namespace runtime_registry

}  // namespace coir::detail
