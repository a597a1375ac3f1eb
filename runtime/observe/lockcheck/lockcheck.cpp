// libcoir_lockcheck: notes which mutexes and read-write locks of the operating system the fibers of each thread hold,
// for COIR_DEBUG=heldlock. The library is preloaded (LD_PRELOAD) or linked with the program, so its functions are found
// before the C library's, and call those. Until a runtime asks for it, that is all they do.
//
// Each thread has a list of its own, because a lock belongs to the thread that has locked it. When a fiber is about to
// leave the thread, the runtime takes what the fiber holds from the list. So a lock that is unlocked in time is never
// reported, and a lock that is unlocked later, perhaps on another thread, is not on the list any more.
// pthread_cond_wait() unlocks and locks inside the C library, unseen. Its thread is not to run another fiber meanwhile.
//
// It uses plain memory only, because it runs inside malloc's and the dynamic linker's locks.
#include <atomic>
#include <cerrno>
#include <ctime>

#include <dlfcn.h>
#include <execinfo.h>
#include <gnu/lib-names.h>
#include <pthread.h>

#include "observe/lockcheck/lockcheck_interface.hpp"

namespace {

using coir::detail::held_lock;
using coir::detail::lock_table;

constexpr int most_locks = 16;  // of a thread at a time; more are not noted
constexpr int own_calls = 2;    // note() and the function that stands before the C library's

struct thread_locks {
  held_lock held[most_locks];
  int count;
  bool noting;  // the code that notes a lock may lock, too
};

constinit thread_local thread_locks of_this_thread __attribute__((tls_model("initial-exec"))) = {};

constinit std::atomic<std::uint64_t (*)() noexcept> fiber_here{nullptr};

// The C library's own backtrace(). A program that is linked with libunwind has another one, which locks a mutex. If
// libunwind itself holds that mutex, it would wait for itself.
using backtrace_function = int (*)(void**, int);
constinit std::atomic<backtrace_function> calls_here{nullptr};

[[gnu::noinline]] void note(const void* lock, std::uint64_t fiber) noexcept {
  thread_locks& mine = of_this_thread;
  if (mine.noting || mine.count == most_locks) return;
  mine.noting = true;
  held_lock& h = mine.held[mine.count];
  void* calls[own_calls + held_lock::most_calls];
  const int n = calls_here.load(std::memory_order_relaxed)(calls, own_calls + held_lock::most_calls);
  h.lock = lock;
  h.fiber = fiber;
  h.count = 0;
  for (int i = own_calls; i < n; ++i) h.calls[h.count++] = calls[i];
  ++mine.count;
  mine.noting = false;
}

[[gnu::always_inline]] inline void locked(const void* lock) noexcept {
  const auto ask = fiber_here.load(std::memory_order_acquire);
  if (ask == nullptr) [[likely]]
    return;
  if (const std::uint64_t fiber = ask(); fiber != 0) note(lock, fiber);
}

[[gnu::always_inline]] inline void unlocked(const void* lock) noexcept {
  if (fiber_here.load(std::memory_order_relaxed) == nullptr) [[likely]]
    return;
  thread_locks& mine = of_this_thread;
  for (int i = mine.count; i-- > 0;) {
    if (mine.held[i].lock != lock) continue;
    --mine.count;
    for (; i < mine.count; ++i) mine.held[i] = mine.held[i + 1];
    return;
  }
}

void watch(std::uint64_t (*ask)() noexcept) noexcept {
  void* const libc = ::dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);
  void* const own = libc != nullptr ? ::dlsym(libc, "backtrace") : nullptr;
  const auto ask_calls = own != nullptr ? reinterpret_cast<backtrace_function>(own) : &::backtrace;
  calls_here.store(ask_calls, std::memory_order_relaxed);
  void* frame[1];
  ask_calls(frame, 1);  // loads the unwinder now, while it may lock and allocate
  fiber_here.store(ask, std::memory_order_release);
}

std::size_t take(std::uint64_t fiber, held_lock* to, std::size_t room) noexcept {
  thread_locks& mine = of_this_thread;
  std::size_t n = 0;
  for (int i = 0; i < mine.count; ++i)
    if (mine.held[i].fiber == fiber && n < room) to[n++] = mine.held[i];
  mine.count = 0;
  return n;
}

/// A function of the C library's, found when it is first called.
template <class... Parameters>
class original {
 public:
  explicit constexpr original(const char* name) noexcept : name_(name) {}

  int operator()(Parameters... p) noexcept {
    function f = known_.load(std::memory_order_relaxed);
    if (f == nullptr) [[unlikely]] {
      f = reinterpret_cast<function>(::dlsym(RTLD_NEXT, name_));  // behind this library, that is
      known_.store(f, std::memory_order_relaxed);
    }
    return f(p...);
  }

 private:
  using function = int (*)(Parameters...);

  const char* name_;
  std::atomic<function> known_{nullptr};
};

[[gnu::always_inline]] inline int locked_if(int result, const void* lock) noexcept {
  if (result == 0 || result == EOWNERDEAD) locked(lock);
  return result;
}

constinit original<pthread_mutex_t*> mutex_lock{"pthread_mutex_lock"};
constinit original<pthread_mutex_t*> mutex_trylock{"pthread_mutex_trylock"};
constinit original<pthread_mutex_t*, const timespec*> mutex_timedlock{"pthread_mutex_timedlock"};
constinit original<pthread_mutex_t*, clockid_t, const timespec*> mutex_clocklock{"pthread_mutex_clocklock"};
constinit original<pthread_mutex_t*> mutex_unlock{"pthread_mutex_unlock"};
constinit original<pthread_rwlock_t*> rwlock_rdlock{"pthread_rwlock_rdlock"};
constinit original<pthread_rwlock_t*> rwlock_tryrdlock{"pthread_rwlock_tryrdlock"};
constinit original<pthread_rwlock_t*, const timespec*> rwlock_timedrdlock{"pthread_rwlock_timedrdlock"};
constinit original<pthread_rwlock_t*, clockid_t, const timespec*> rwlock_clockrdlock{"pthread_rwlock_clockrdlock"};
constinit original<pthread_rwlock_t*> rwlock_wrlock{"pthread_rwlock_wrlock"};
constinit original<pthread_rwlock_t*> rwlock_trywrlock{"pthread_rwlock_trywrlock"};
constinit original<pthread_rwlock_t*, const timespec*> rwlock_timedwrlock{"pthread_rwlock_timedwrlock"};
constinit original<pthread_rwlock_t*, clockid_t, const timespec*> rwlock_clockwrlock{"pthread_rwlock_clockwrlock"};
constinit original<pthread_rwlock_t*> rwlock_unlock{"pthread_rwlock_unlock"};

}  // namespace

extern "C" {

constinit const lock_table coir_lock_table = {lock_table::current_version, &watch, &take};

int pthread_mutex_lock(pthread_mutex_t* m) noexcept { return locked_if(mutex_lock(m), m); }
int pthread_mutex_trylock(pthread_mutex_t* m) noexcept { return locked_if(mutex_trylock(m), m); }
int pthread_mutex_timedlock(pthread_mutex_t* m, const timespec* t) noexcept {
  return locked_if(mutex_timedlock(m, t), m);
}
int pthread_mutex_clocklock(pthread_mutex_t* m, clockid_t c, const timespec* t) noexcept {
  return locked_if(mutex_clocklock(m, c, t), m);
}
int pthread_mutex_unlock(pthread_mutex_t* m) noexcept {
  unlocked(m);
  return mutex_unlock(m);
}

int pthread_rwlock_rdlock(pthread_rwlock_t* l) noexcept { return locked_if(rwlock_rdlock(l), l); }
int pthread_rwlock_tryrdlock(pthread_rwlock_t* l) noexcept { return locked_if(rwlock_tryrdlock(l), l); }
int pthread_rwlock_timedrdlock(pthread_rwlock_t* l, const timespec* t) noexcept {
  return locked_if(rwlock_timedrdlock(l, t), l);
}
int pthread_rwlock_clockrdlock(pthread_rwlock_t* l, clockid_t c, const timespec* t) noexcept {
  return locked_if(rwlock_clockrdlock(l, c, t), l);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* l) noexcept { return locked_if(rwlock_wrlock(l), l); }
int pthread_rwlock_trywrlock(pthread_rwlock_t* l) noexcept { return locked_if(rwlock_trywrlock(l), l); }
int pthread_rwlock_timedwrlock(pthread_rwlock_t* l, const timespec* t) noexcept {
  return locked_if(rwlock_timedwrlock(l, t), l);
}
int pthread_rwlock_clockwrlock(pthread_rwlock_t* l, clockid_t c, const timespec* t) noexcept {
  return locked_if(rwlock_clockwrlock(l, c, t), l);
}
int pthread_rwlock_unlock(pthread_rwlock_t* l) noexcept {
  unlocked(l);
  return rwlock_unlock(l);
}

}  // extern "C"
