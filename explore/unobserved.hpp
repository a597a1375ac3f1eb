// While one lives, ThreadSanitizer does not take note of what this fiber reads and writes. Explorations are not
// instrumented, but the allocator and memmove() always report to it. Without this it would take the bookkeeping of an
// exploration, which all fibers do in turn on one thread, for races between them. An acquire and release instead would
// order the fibers, and so hide the races of the program.
#pragma once

#include <cstddef>

#include <coir/detail/abi.hpp>

#if defined(COIR_TSAN)
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void __tsan_read_range(void* begin, unsigned long size);   // NOLINT(bugprone-reserved-identifier)
void __tsan_write_range(void* begin, unsigned long size);  // NOLINT(bugprone-reserved-identifier)
}
#endif

namespace coir::inline COIR_ABI::detail {

class unobserved {
 public:
#if defined(COIR_TSAN)
  unobserved() noexcept { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }  // and writes
  ~unobserved() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
#else  // not defaulted: an object of the class would be an unused variable
  unobserved() noexcept {}  // NOLINT(modernize-use-equals-default)
  ~unobserved() {}          // NOLINT(modernize-use-equals-default)
#endif
  unobserved(const unobserved&) = delete;
  unobserved& operator=(const unobserved&) = delete;
};

/// The program's memory, which this fiber reads or writes.
#if defined(COIR_TSAN)
inline void observe_read(const void* p, std::size_t n) noexcept { __tsan_read_range(const_cast<void*>(p), n); }
inline void observe_write(void* p, std::size_t n) noexcept { __tsan_write_range(p, n); }
#else
inline void observe_read(const void*, std::size_t) noexcept {}
inline void observe_write(void*, std::size_t) noexcept {}
#endif

}  // namespace coir::detail
