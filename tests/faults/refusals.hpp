// What the system can refuse, on demand: functions of the C library, as the runtime calls them.
#pragma once

namespace faults {

enum class call {
  thread_creation,
  mapping,
  guard_advice,
  any_process_advice,
  membarrier,
  openat2,
  futex_wait_early,
  futex_wait_broken,
  signal_stack,
  count
};

/// The next `times` calls are refused, after `skip` that are not.
void refuse(call what, int times = 1 << 30, int skip = 0);

/// How many calls were refused since.
int refused(call what);

void refuse_nothing();

/// operator new, malloc as the library calls it, and mappings but those of stacks, for the calling thread.
void refuse_memory(bool yes);

/// The same after `granted` calls that are not refused; how many were refused by the calling thread since.
void refuse_memory_after(int granted);
int memory_refused();

/// operator new, and malloc as the library calls it, for all threads.
void refuse_memory_everywhere(bool yes);

/// How often these two were called, by whatever thread.
long allocations();

/// f(arg) is called just before the next futex wake of the calling thread, as if it were slow there.
void before_next_wake(void (*f)(void*), void* arg);

/// f(arg) is called just before the next mapping of stacks, by whatever thread; null: not any more.
void before_next_mapping(void (*f)(void*), void* arg);

}  // namespace faults
