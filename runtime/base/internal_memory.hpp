// Memory for what the runtime allocates where no code of the user may run: inside a bracket (worker.hpp), with a lock
// of the library held, and on the stacks of its own threads. It comes from malloc. operator new may be the program's
// own, and may lock a coir::mutex: inside a bracket that enters the runtime again; on a worker's native stack there is
// no fiber that could wait, and the thread would wait with its processor.
//
// A thread of the library is started by pthread_create (native_thread.hpp) for the same reason.
//
// Rejected: mmap. A timer wheel makes and frees arrays of less than a page every few milliseconds.
// Rejected: reserving before the bracket begins. Which heap a timer goes to is known only inside the bracket.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// Null if there is no memory.
inline void* allocate_internal(std::size_t bytes, std::size_t alignment) noexcept {
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  void* p = nullptr;
  return ::posix_memalign(&p, alignment, bytes) == 0 ? p : nullptr;
}

inline void free_internal(void* p) noexcept { std::free(p); }

template <class T>
struct internal_allocator {
  using value_type = T;

  internal_allocator() noexcept = default;
  template <class U>
  internal_allocator(const internal_allocator<U>&) noexcept {}  // NOLINT(google-explicit-constructor): as std's

  T* allocate(std::size_t n) {
    void* p = n <= static_cast<std::size_t>(-1) / sizeof(T) ? allocate_internal(n * sizeof(T), alignof(T)) : nullptr;
    if (p == nullptr) throw std::bad_alloc();
    return static_cast<T*>(p);
  }
  void deallocate(T* p, std::size_t) noexcept { free_internal(p); }

  friend bool operator==(const internal_allocator&, const internal_allocator&) noexcept { return true; }
};

template <class T>
using internal_vector = std::vector<T, internal_allocator<T>>;

/// A base: objects of the derived class are made there by new.
struct internal_object {
  static void* operator new(std::size_t bytes) { return checked(allocate_internal(bytes, alignof(std::max_align_t))); }
  static void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return checked(allocate_internal(bytes, static_cast<std::size_t>(alignment)));
  }
  static void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return allocate_internal(bytes, alignof(std::max_align_t));
  }
  static void operator delete(void* p) noexcept { free_internal(p); }
  static void operator delete(void* p, std::align_val_t) noexcept { free_internal(p); }
  static void operator delete(void* p, const std::nothrow_t&) noexcept { free_internal(p); }

 private:
  static void* checked(void* p) {
    if (p == nullptr) throw std::bad_alloc();
    return p;
  }
};

}  // namespace coir::detail
