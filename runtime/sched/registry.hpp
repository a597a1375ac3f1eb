// The runtimes of the process, and which threads are their own. Deadlock detection must know both to be certain. A
// thread is counted only while it surely exists, so the count is never too high.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include <coir/detail/abi.hpp>

#include "base/internal_memory.hpp"
#include "base/native_thread.hpp"

namespace coir::inline COIR_ABI::detail {

class scheduler;
struct start_record;

namespace runtime_threads {

/// A counted thread. Throws std::system_error.
std::thread start(std::function<void()> body);

/// The same without operator new. Returns 0, or the error.
int start(native_thread& t, native_thread::body f, void* arg) noexcept;

/// No longer counts `count` of them. Called before they are told to end.
void forget(std::size_t count) noexcept;

/// While an object lives, the calling plain thread counts as blocked in run() or wait(). It needs no memory, and so
/// cannot throw: a fiber may be running on behalf of the caller, and the caller's frame must not be left then.
class blocked_in_run {
 public:
  /// `done`: whether its wait is over. Other threads call it, under the registry's lock, until the destructor has
  /// returned.
  explicit blocked_in_run(const std::function<bool()>& done) noexcept;
  ~blocked_in_run();
  blocked_in_run(const blocked_in_run&) = delete;
  blocked_in_run& operator=(const blocked_in_run&) = delete;

  bool done() const { return done_(); }
  const blocked_in_run* next() const noexcept { return next_; }

 private:
  const std::function<bool()>& done_;
  blocked_in_run* next_ = nullptr;  // in the registry, under its lock
  blocked_in_run* previous_ = nullptr;
};

}  // namespace runtime_threads

/// The registry's vector of scheduler*; null before the first runtime. Written once, when that is made. Defined
/// beside what debuggers read (debugger.cpp), which so becomes a part of every program.
extern const void* runtimes_for_debuggers;

namespace runtime_registry {

void add(scheduler& s);
void remove(scheduler& s) noexcept;

/// After this, start_in() fails for s, and no timer of its own starts a fiber.
void close(scheduler& s) noexcept;

/// Starts the record in the runtime of that serial number, if it still accepts fibers; else false.
bool start_in(std::uint64_t serial, start_record* record) noexcept;

/// The serial number of every runtime, in the order in which they were made.
internal_vector<std::uint64_t> serials();

/// Calls f(scheduler), with the registry locked so that the runtime does not end during the call. False if it has
/// ended. Keep it short: runtimes that start or end, and alarms, wait for it.
bool visit(std::uint64_t serial, const std::function<void(scheduler&)>& f);

/// Calls f(all runtimes), with the registry locked, if nothing in the process can ever happen by itself: every runtime
/// is quiescent without a timer, no alarm of a plain thread is pending, and every thread is a counted one, and no
/// thread that is blocked in run() could return.
void if_all_quiescent(const std::function<void(const internal_vector<scheduler*>&)>& f);

}  // namespace runtime_registry

}  // namespace coir::detail
