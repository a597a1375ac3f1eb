#include "refusals.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

namespace faults {

int refusal_of_pidfd_open();  // io_refusals.cpp

namespace {

struct refusal {
  std::atomic<int> skip{0};
  std::atomic<int> times{0};
  std::atomic<int> refused{0};
};

std::array<refusal, static_cast<std::size_t>(call::count)> refusals;

refusal& of(call what) { return refusals[static_cast<std::size_t>(what)]; }

bool is_refused(call what) {
  refusal& r = of(what);
  if (r.times.load() <= 0 || r.skip.fetch_sub(1) > 0) return false;
  if (r.times.fetch_sub(1) <= 0) return false;
  ++r.refused;
  return true;
}

thread_local bool no_memory = false;
thread_local int granted = 0;
thread_local int memory_refusals = 0;
std::atomic<bool> no_memory_anywhere{false};
std::atomic<long> news{0};  // a statistic

bool is_memory_refused() {
  news.fetch_add(1, std::memory_order_relaxed);
  if (no_memory_anywhere.load(std::memory_order_relaxed)) return true;
  if (!no_memory || granted-- > 0) return false;
  ++memory_refusals;
  return true;
}
thread_local void (*at_wake)(void*) = nullptr;
thread_local void* at_wake_arg = nullptr;
std::atomic<void (*)(void*)> at_mapping{nullptr};
void* at_mapping_arg = nullptr;

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void refuse(call what, int times, int skip) {
  refusal& r = of(what);
  r.refused = 0;
  r.skip = skip;
  r.times = times;
}

int refused(call what) { return of(what).refused; }

void refuse_nothing() {
  for (refusal& r : refusals) r.times = 0;
}

void refuse_memory(bool yes) {
  no_memory = yes;
  granted = 0;
  if (yes) memory_refusals = 0;
}

void refuse_memory_after(int calls) {
  refuse_memory(true);
  granted = calls;
}

int memory_refused() { return memory_refusals; }

void refuse_memory_everywhere(bool yes) { no_memory_anywhere = yes; }

long allocations() { return news.load(std::memory_order_relaxed); }

void before_next_wake(void (*f)(void*), void* arg) {
  at_wake = f;
  at_wake_arg = arg;
}

void before_next_mapping(void (*f)(void*), void* arg) {
  at_mapping_arg = arg;
  at_mapping = f;
}

}  // namespace faults

// Calls from this program and the static libraries that are linked with it come here (-Wl,--wrap).
extern "C" {
void* __real_malloc(std::size_t n);                                         // NOLINT
int __real_posix_memalign(void** p, std::size_t alignment, std::size_t n);  // NOLINT
void* __wrap_malloc(std::size_t n) {                                        // NOLINT
  return faults::is_memory_refused() ? nullptr : __real_malloc(n);
}
int __wrap_posix_memalign(void** p, std::size_t alignment, std::size_t n) {  // NOLINT
  return faults::is_memory_refused() ? ENOMEM : __real_posix_memalign(p, alignment, n);
}
}

void* operator new(std::size_t n) {
  void* p = faults::is_memory_refused() ? nullptr : __real_malloc(n);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void* operator new(std::size_t n, std::align_val_t alignment) {
  const auto a = static_cast<std::size_t>(alignment);
  void* p = faults::is_memory_refused() ? nullptr : std::aligned_alloc(a, (n + a - 1) / a * a);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

using faults::call;
using faults::is_refused;

// NOLINTBEGIN: the C library's own names and signatures
extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* arg) {
  static auto* const real =
      faults::next<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  return is_refused(call::thread_creation) ? EAGAIN : real(thread, attributes, start, arg);
}

void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  static auto* const real = faults::next<void*(void*, std::size_t, int, int, int, off_t)>("mmap");
  // Stacks are what is reserved without swap space.
  if ((flags & MAP_STACK) != 0 && (flags & MAP_NORESERVE) != 0) {
    if (is_refused(call::mapping)) {
      errno = ENOMEM;
      return MAP_FAILED;
    }
    if (auto* const f = faults::at_mapping.exchange(nullptr)) f(faults::at_mapping_arg);
  } else if ((flags & MAP_ANONYMOUS) != 0 && faults::is_memory_refused()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return real(address, bytes, protection, flags, file, offset);
}

int madvise(void* address, std::size_t bytes, int advice) noexcept {
  static auto* const real = faults::next<int(void*, std::size_t, int)>("madvise");
  constexpr int guard_install = 102;
  if (advice == guard_install && is_refused(call::guard_advice)) {
    errno = EINVAL;
    return -1;
  }
  return real(address, bytes, advice);
}

int sigaltstack(const stack_t* wanted, stack_t* old) noexcept {
  static auto* const real = faults::next<int(const stack_t*, stack_t*)>("sigaltstack");
  if (wanted != nullptr && is_refused(call::signal_stack)) {
    errno = ENOMEM;
    return -1;
  }
  return real(wanted, old);
}

long syscall(long number, ...) noexcept {
  static auto* const real = faults::next<long(long, ...)>("syscall");
  std::array<long, 6> a{};
  va_list list;
  va_start(list, number);
  for (long& each : a) each = va_arg(list, long);
  va_end(list);
  const auto fail = [](int error) {
    errno = error;
    return -1L;
  };
#if defined(SYS_process_madvise)
  if (number == SYS_process_madvise && is_refused(call::any_process_advice)) return fail(EPERM);
#endif
#if defined(SYS_pidfd_open)
  if (number == SYS_pidfd_open)
    if (const int error = faults::refusal_of_pidfd_open(); error != 0) return fail(error);
#endif
  if (number == SYS_membarrier && is_refused(call::membarrier)) return fail(ENOSYS);
  if (number == SYS_openat2 && is_refused(call::openat2)) return fail(ENOSYS);
  if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && is_refused(call::futex_wait_early))
    return fail(EINTR);
  if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && is_refused(call::futex_wait_broken))
    return fail(ENOSYS);
  if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAKE && faults::at_wake != nullptr)
    std::exchange(faults::at_wake, nullptr)(faults::at_wake_arg);
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

}  // extern "C"
// NOLINTEND
