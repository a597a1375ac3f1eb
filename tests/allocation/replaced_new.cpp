#include "replaced_new.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

#include <execinfo.h>
#include <unistd.h>

#include <coir/mutex.hpp>
#include <coir/this_fiber.hpp>

#include "fiber/fiber.hpp"
#include "fiber/waiter_access.hpp"
#include "sched/worker.hpp"

namespace {

constexpr long calls_between_yields = 8;

std::atomic<bool> locks{false};
std::atomic<long> news{0};
std::atomic<long> calls{0};
std::atomic<long> found_locked{0};

// Never destroyed: static objects are freed later.
alignas(coir::mutex) unsigned char memory_of_mutex[sizeof(coir::mutex)];
coir::mutex& heap_mutex() {
  static auto* const one = ::new (static_cast<void*>(memory_of_mutex)) coir::mutex;
  return *one;
}

[[noreturn]] void refuse(const char* where) {
  std::fprintf(stderr, "operator new or delete called %s\n", where);
  void* stack[64];
  ::backtrace_symbols_fd(stack, ::backtrace(stack, 64), STDERR_FILENO);
  std::abort();
}

void check_caller() {
  const coir::detail::worker* w = coir::detail::current_worker();
  if (w == nullptr) return;
  if (w->current == nullptr) refuse("on a worker's native stack");
  if (w->in_bracket()) refuse("inside a bracket");
  if (coir::detail::waiter_access::state_of(w->current->wait) == coir::detail::waiter::parking)
    refuse("by a fiber that is about to sleep");
}

class heap_section {
 public:
  heap_section() : locked_(locks.load(std::memory_order_relaxed)) {
    if (!locked_) return;
    check_caller();
    if (!heap_mutex().try_lock()) {
      found_locked.fetch_add(1, std::memory_order_relaxed);
      heap_mutex().lock();
    }
    const bool on_fiber = coir::this_fiber::is_fiber();
    if (on_fiber && calls.fetch_add(1, std::memory_order_relaxed) % calls_between_yields == 0) coir::yield();
  }
  ~heap_section() {
    if (locked_) heap_mutex().unlock();
  }
  heap_section(const heap_section&) = delete;
  heap_section& operator=(const heap_section&) = delete;

 private:
  const bool locked_;
};

void* allocate(std::size_t n, std::size_t alignment) {
  if (coir::this_fiber::is_fiber()) news.fetch_add(1, std::memory_order_relaxed);
  const heap_section section;
  void* p = nullptr;
  if (alignment <= alignof(std::max_align_t))
    p = std::malloc(n);
  else if (::posix_memalign(&p, alignment, n) != 0)
    p = nullptr;
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

void release(void* p) noexcept {
  const heap_section section;
  std::free(p);
}

}  // namespace

void* operator new(std::size_t n) { return allocate(n, 1); }
// AddressSanitizer's own would not call the one above.
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  try {
    return allocate(n, 1);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t n, const std::nothrow_t& t) noexcept { return ::operator new(n, t); }
void* operator new(std::size_t n, std::align_val_t alignment) {
  return allocate(n, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t n) { return allocate(n, 1); }
void* operator new[](std::size_t n, std::align_val_t alignment) {
  return allocate(n, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { release(p); }

namespace allocation {

coir_heap::coir_heap() {
  heap_mutex();
  void* stack[1];
  ::backtrace(stack, 1);  // its first call loads a library
  news = calls = found_locked = 0;
  locks = true;
}

coir_heap::~coir_heap() { locks = false; }

long coir_heap::calls_on_fibers() const { return news; }
long coir_heap::contended() const { return found_locked; }

}  // namespace allocation
