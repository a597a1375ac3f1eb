// Memory for start records and other small, short-lived blocks of the runtime (timers, coroutine frames): per-thread
// caches by size class, exchanged with shared depots. A block may be freed by another thread than the one that
// allocated it. Under AddressSanitizer and ThreadSanitizer every block comes from malloc, whose use they understand.
//
// A depot cuts its blocks from chunks, and keeps a bit for each block that is free. So it gives out neighbours, in the
// order of their addresses, in whatever order they were freed. After a hundred thousand fibers have ended in any order,
// their records have left the cache, and the pages the TLB. To use them again in that order would be the most expensive
// way.
//
// A chunk's bits belong to its depot and are guarded by its lock. It is in the depot's list while any is set. A
// block whose bit is not set is in use, or in a thread's cache. Chunks are never given back.
//
// Thread safety: a cache is touched by its own thread alone. Fibers migrate, so a cache is looked up anew for each
// call, by a function that is never inlined (docs/thread-local-storage.md).
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <new>
#include <utility>

#include <sys/mman.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/spin_lock.hpp>
#include <coir/detail/start_record.hpp>

#include "base/at_thread_end.hpp"
#include "base/internal_memory.hpp"
#include "base/madvise.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

// Two classes of whole cache lines, for the records of fibers; beyond them finer ones, for coroutine frames: 64, 128,
// then 160, 192, ... 512.
constexpr std::size_t class_count = 14;
constexpr std::size_t smallest = 64;
constexpr std::size_t step = 32;
constexpr std::size_t largest = 2 * smallest + (class_count - 2) * step;
constexpr std::size_t batch = 64;
constexpr std::size_t cached =
    2 * batch;  // at most: a thread that frees and allocates in turn does not go to the depot
constexpr std::size_t fetch_ahead = 4;

#if defined(COIR_ASAN) || defined(COIR_TSAN)
constexpr bool pooled = false;
#else
constexpr bool pooled = true;
#endif

/// Blocks of whole cache lines are aligned to a cache line, the others to `step`.
constexpr std::size_t rounded(std::size_t size, std::size_t alignment) noexcept {
  return alignment > step ? (size + smallest - 1) / smallest * smallest : size;
}

constexpr std::size_t class_of(std::size_t size) noexcept {
  if (size <= 2 * smallest) return size <= smallest ? 0 : 1;
  return 1 + (size - 2 * smallest + step - 1) / step;
}

constexpr std::size_t class_bytes(std::size_t c) noexcept {
  return c < 2 ? smallest << c : 2 * smallest + (c - 1) * step;
}
static_assert(class_bytes(1) == 128 && class_bytes(2) == 160 && class_bytes(class_count - 1) == 512 && largest == 512);

/// The header of a chunk. It lies apart from the chunk's blocks: at the beginning of each chunk the headers would
/// compete for the same few cache sets.
struct alignas(64) chunk {
  static constexpr std::size_t bytes = 64 * 1024;

  chunk* next;         // in the depot's list
  std::uint64_t some;  // bit i: free[i] is not zero
  std::uint64_t free[bytes / smallest / 64];
};

/// Chunks. Their headers lie in the place of the first one. Its address is a multiple of its size.
struct region {
  static constexpr std::size_t bytes = 2 * 1024 * 1024;
  static constexpr std::size_t chunk_count = bytes / chunk::bytes;

  chunk chunks[chunk_count];

  static region& of(const void* p) noexcept {
    return *reinterpret_cast<region*>(reinterpret_cast<std::uintptr_t>(p) / bytes * bytes);
  }
  static chunk& chunk_of(const void* block) noexcept {
    return of(block).chunks[reinterpret_cast<std::uintptr_t>(block) % bytes / chunk::bytes];
  }
  static char* blocks_of(chunk& c) noexcept {
    region& r = of(&c);
    return reinterpret_cast<char*>(&r) + (&c - r.chunks) * static_cast<std::ptrdiff_t>(chunk::bytes);
  }
};
static_assert(sizeof(region) <= chunk::bytes);

/// The source of all depots' chunks. It does not use the heap: a thread's heap grows by a page at a time, each time
/// with all memory of the process locked, and operator new may be the user's. In a program with many chunks, one call
/// makes all pages of a chunk resident.
/// Rejected: huge pages. They are faster, except for the first touch of each. That takes long, and very long on a
/// virtual machine whose host takes back just such memory: too long while a lock may be held.
class alignas(64) chunk_source {
 public:
  /// Throws std::bad_alloc.
  chunk& take() {
    region* fresh = nullptr;
    for (;;) {
      lock_.lock();
      if (left_ == 0 && fresh != nullptr) {
        next_ = std::exchange(fresh, nullptr)->chunks + 1;
        left_ = region::chunk_count - 1;
      }
      chunk* c = nullptr;
      bool many = false;
      if (left_ != 0) {
        --left_;
        c = next_++;
        many = taken_++ >= region::chunk_count;
      }
      lock_.unlock();
      if (fresh != nullptr) ::munmap(fresh, region::bytes);  // another thread was faster
      if (c != nullptr) {
        if (many) ::madvise(region::blocks_of(*c), chunk::bytes, madv_populate_write);  // else they fault in
        return *c;
      }
      fresh = map_region();
    }
  }

 private:
  // Maps twice as much for a moment, to get an aligned region. It keeps the upper one, which is next to the region
  // mapped last, since the system maps from the top.
  static region* map_region() {
    void* const p =
        ::mmap(nullptr, 2 * region::bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    char* const begin = static_cast<char*>(p);
    char* const end = begin + 2 * region::bytes;
    char* const base = reinterpret_cast<char*>(&region::of(begin + region::bytes));
    ::munmap(begin, static_cast<std::size_t>(base - begin));
    char* const above = base + region::bytes;
    if (above != end) ::munmap(above, static_cast<std::size_t>(end - above));
    ::madvise(base, region::bytes, MADV_NOHUGEPAGE);
    return ::new (base) region;
  }

  spin_lock lock_;
  chunk* next_ = nullptr;
  std::size_t left_ = 0;
  std::size_t taken_ = 0;
};

constinit chunk_source chunks;

/// The free blocks of one size, for all threads.
class alignas(64) depot {
 public:
  explicit constexpr depot(std::size_t block_bytes) noexcept : block_bytes_(static_cast<std::uint32_t>(block_bytes)) {}

  /// Between one block and `most`, in the order of their addresses; returns how many. Throws std::bad_alloc.
  std::size_t take(void** blocks, std::size_t most) {
    lock_.lock();
    while (first_ == nullptr) {
      lock_.unlock();
      chunk& fresh = chunks.take();
      fill(fresh);
      lock_.lock();
      list(fresh);
    }
    std::size_t n = 0;
    while (n != most && first_ != nullptr) {
      n += take_from(*first_, blocks + n, most - n);
      if (first_->some == 0) first_ = first_->next;
    }
    lock_.unlock();
    return n;
  }

  void put(void* const* blocks, std::size_t count) noexcept {
    lock_.lock();
    for (std::size_t i = 0; i < count; ++i) {
      chunk& c = region::chunk_of(blocks[i]);
      const auto offset = static_cast<std::uint32_t>(static_cast<char*>(blocks[i]) - region::blocks_of(c));
      const std::uint32_t block = offset / block_bytes_;
      if (c.some == 0) list(c);
      c.free[block / 64] |= std::uint64_t{1} << block % 64;
      c.some |= std::uint64_t{1} << block / 64;
    }
    lock_.unlock();
  }

 private:
  void list(chunk& c) noexcept { c.next = std::exchange(first_, &c); }

  void fill(chunk& c) const noexcept {
    const std::size_t blocks = chunk::bytes / block_bytes_;
    c.some = 0;
    for (std::size_t i = 0; i < std::size(c.free); ++i) {
      const std::size_t here = std::min<std::size_t>(blocks - std::min(blocks, i * 64), 64);
      c.free[i] = here == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1;
      if (here != 0) c.some |= std::uint64_t{1} << i;
    }
  }

  std::size_t take_from(chunk& c, void** blocks, std::size_t most) const noexcept {
    char* const base = region::blocks_of(c);
    std::size_t n = 0;
    while (n != most && c.some != 0) {
      const auto word = static_cast<std::size_t>(std::countr_zero(c.some));
      std::uint64_t& bits = c.free[word];
      for (; n != most && bits != 0; bits &= bits - 1)
        blocks[n++] = base + (word * 64 + static_cast<std::size_t>(std::countr_zero(bits))) * block_bytes_;
      if (bits == 0) c.some &= c.some - 1;
    }
    return n;
  }

  spin_lock lock_;  // never held together with that of chunks
  chunk* first_ = nullptr;
  const std::uint32_t block_bytes_;
};

template <std::size_t... Classes>
constexpr std::array<depot, class_count> make_depots(std::index_sequence<Classes...>) noexcept {
  return {depot(class_bytes(Classes))...};
}

// Never destroyed: threads may end after static destructors have run.
constinit std::array<depot, class_count> depots = make_depots(std::make_index_sequence<class_count>());
constinit depot arrays(cached * sizeof(void*));  // of caches

/// Free blocks; the last is used next. They are in an array, so that taking a block does not touch it: a block that
/// another core has freed costs its new user a store and not a load.
struct block_cache {
  void** blocks = nullptr;
  std::uint32_t count = 0;
  std::uint32_t room = 0;
};

struct thread_cache {
  std::array<block_cache, class_count> of_class;
  bool registered = false;
};

thread_local thread_cache cache_of_this_thread __attribute__((tls_model("initial-exec")));

[[gnu::noinline]] thread_cache& this_cache() noexcept {
  asm volatile("" ::: "memory");
  return cache_of_this_thread;
}

/// Hands the blocks of an ending thread back.
void give_cache_back(void*) noexcept {
  thread_cache& t = this_cache();
  for (std::size_t c = 0; c < class_count; ++c) {
    const block_cache ended = std::exchange(t.of_class[c], {});
    if (ended.blocks == nullptr) continue;
    depots[c].put(ended.blocks, ended.count);
    void* const array = ended.blocks;
    arrays.put(&array, 1);
  }
  t.registered = false;
}

/// Throws std::bad_alloc.
void make_array(thread_cache& t, block_cache& l) {
  if (!t.registered) at_thread_end(&give_cache_back);
  t.registered = true;
  void* array = nullptr;
  arrays.take(&array, 1);
  l.blocks = static_cast<void**>(array);
  l.room = cached;
}

[[gnu::noinline]] void refill(thread_cache& t, std::size_t c) {
  block_cache& l = t.of_class[c];
  if (l.blocks == nullptr) make_array(t, l);
  const std::size_t n = depots[c].take(l.blocks, batch);
  std::reverse(l.blocks, l.blocks + n);
  l.count = static_cast<std::uint32_t>(n);
}

/// Frees a block that its thread's cache has no room for.
[[gnu::noinline]] void free_in_full(thread_cache& t, std::size_t c, void* p) noexcept {
  block_cache& l = t.of_class[c];
  if (l.blocks == nullptr) {
    try {
      make_array(t, l);
    } catch (const std::bad_alloc&) {
      depots[c].put(&p, 1);
      return;
    }
  } else {
    depots[c].put(l.blocks, batch);
    std::copy(l.blocks + batch, l.blocks + cached, l.blocks);
    l.count = cached - batch;
  }
  l.blocks[l.count++] = p;  // NOLINT(clang-analyzer-core.NullDereference): make_array() has seen to it
}

}  // namespace

void* allocate_record(std::size_t size, std::size_t alignment) {
  if (size > largest || alignment > smallest) [[unlikely]]
    return ::operator new(size, std::align_val_t{alignment});  // a user's closure, never the runtime's own
  if constexpr (!pooled) {
    void* const p = allocate_internal(size, alignment);
    if (p == nullptr) throw std::bad_alloc();
    return p;
  }
  const std::size_t c = class_of(rounded(size, alignment));
  thread_cache& t = this_cache();
  block_cache& l = t.of_class[c];
  if (l.count == 0) [[unlikely]]
    refill(t, c);
  void* p = l.blocks[--l.count];
  if (l.count >= fetch_ahead) __builtin_prefetch(l.blocks[l.count - fetch_ahead], 1);
  return p;
}

void free_record(void* p, std::size_t size, std::size_t alignment) noexcept {
  if (size > largest || alignment > smallest) [[unlikely]] {
    ::operator delete(p, std::align_val_t{alignment});
    return;
  }
  if constexpr (!pooled) return free_internal(p);
  const std::size_t c = class_of(rounded(size, alignment));
  thread_cache& t = this_cache();
  block_cache& l = t.of_class[c];
  if (l.count == l.room) [[unlikely]] {
    free_in_full(t, c, p);
    return;
  }
  l.blocks[l.count++] = p;
}

}  // namespace coir::detail
