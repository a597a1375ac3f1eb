// Stack overflow: a fiber that runs into the guard below its stack is reported by name, spawn site and stack size, with
// a backtrace. For the body of a generator or coroutine, the report names the fiber that runs it. Then the process ends
// by SIGSEGV, as it would have.
#pragma once

#include <cstddef>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// Catches SIGSEGV from now on. A fault that is no overflow of a stack of coir's goes to the handler that was there
/// before. Once for the process; never undone, since another handler may have been chained behind it.
void catch_overflows() noexcept;

/// Does the same. Overflows of the calling thread, which may be a worker's or any other, can then be reported until it
/// ends.
void report_overflows_of_this_thread() noexcept;

/// While an object lives, signals of the calling thread may run on a stack of their own. Without that an overflow could
/// not be reported. A signal stack that the thread has already is left in place.
class signal_stack {
 public:
  signal_stack() noexcept;
  ~signal_stack();
  signal_stack(const signal_stack&) = delete;
  signal_stack& operator=(const signal_stack&) = delete;

 private:
  void* memory_ = nullptr;
};

}  // namespace coir::detail
