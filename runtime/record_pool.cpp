// Memory for start records and other small, short-lived blocks of the runtime (timers): per-thread magazines by size
// class, exchanged with shared depots. A block may be freed by another thread than allocated it.
// Under AddressSanitizer and ThreadSanitizer every block goes to the heap, whose use they understand.
//
// Thread safety: a cache is touched by its own thread alone. Fibers migrate, so a cache is looked up anew for each
// call, by a function that is never inlined (docs/thread-local-storage.md).
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <utility>

#include <sys/mman.h>

#include <coir/spin_lock.hpp>
#include <coir/start_record.hpp>

#include "immortal.hpp"
#include "madvise.hpp"

namespace coir::detail {

namespace {

// Two classes of whole cache lines, for the records of fibers; beyond them finer ones, for coroutine frames: 64, 128,
// then 160, 192, ... 512.
constexpr std::size_t class_count = 14;
constexpr std::size_t smallest = 64;
constexpr std::size_t step = 32;
constexpr std::size_t largest = 2 * smallest + (class_count - 2) * step;
constexpr std::size_t batch = 64;
constexpr std::size_t chunk_bytes = 64 * 1024;
constexpr std::size_t fetch_ahead = 4;

/// Free blocks, as an array: taking one does not touch it, so a block that another core has freed costs its new user a
/// store and not a load.
struct magazine {
  magazine* next = nullptr;  // in the depot
  void* blocks[batch];
};

#if defined(COIR_ASAN) || defined(COIR_TSAN)
constexpr bool pooled = false;
#else
constexpr bool pooled = true;
#endif

/// Blocks of whole cache lines are as aligned as one; the others, as chunks are, to `step`.
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

/// Where the memory comes from, all size classes'. A program with few records has it from the heap. One with many gets
/// it from regions of its own, since a thread's heap grows by a page at a time, each time with all memory of the
/// process locked; and a chunk's pages in one call. It is kept for the process's life. Rejected: huge pages. They are
/// faster, but for the first touch of each, which takes long, and very long on a virtual machine whose host takes back
/// just such memory: too long while a lock may be held.
class chunk_source {
 public:
  /// Throws std::bad_alloc.
  char* take() {
    if (taken_.fetch_add(1, std::memory_order_relaxed) < from_heap) return from_the_heap();
    char* fresh = nullptr;
    for (;;) {
      lock_.lock();
      if (next_ == end_ && fresh != nullptr) {
        next_ = std::exchange(fresh, nullptr);
        end_ = next_ + region_bytes;
      }
      char* const chunk = next_ != end_ ? std::exchange(next_, next_ + chunk_bytes) : nullptr;
      lock_.unlock();
      if (fresh != nullptr) ::munmap(fresh, region_bytes);  // somebody else was faster
      if (chunk != nullptr) {
        ::madvise(chunk, chunk_bytes, madv_populate_write);  // if it can: else they fault in
        return chunk;
      }
      fresh = map_region();
      if (fresh == nullptr) return from_the_heap();
    }
  }

 private:
  static constexpr std::size_t region_bytes = 2 * 1024 * 1024;
  static constexpr std::size_t from_heap = region_bytes / chunk_bytes;

  static char* from_the_heap() { return static_cast<char*>(::operator new (chunk_bytes, std::align_val_t{64})); }

  // Null if there is no memory.
  static char* map_region() noexcept {
    void* const p = ::mmap(nullptr, region_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p != MAP_FAILED ? static_cast<char*>(p) : nullptr;
  }

  std::atomic<std::size_t> taken_{0};
  spin_lock lock_;
  char* next_ = nullptr;
  char* end_ = nullptr;
};

constinit chunk_source chunks;

/// Not from the heap either, for the same reason.
class magazine_source {
 public:
  /// Throws std::bad_alloc.
  magazine* take() {
    for (;;) {
      if (magazine* m = cut()) return m;
      char* const chunk = chunks.take();  // without the lock: operator new may be the user's
      lock_.lock();
      top_ = ::new (chunk) rest{top_, chunk_bytes / sizeof(magazine)};
      lock_.unlock();
    }
  }

  /// Null if there is no memory.
  magazine* try_take() noexcept {
    try {
      return take();
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

 private:
  /// What is left of a chunk, at its begin.
  struct rest {
    rest* below;
    std::size_t left;
  };

  magazine* cut() noexcept {
    lock_.lock();
    rest* const from = top_;
    if (from != nullptr) {
      const rest r = *from;
      top_ = r.left == 1 ? r.below : ::new (reinterpret_cast<char*>(from) + sizeof(magazine)) rest{r.below, r.left - 1};
    }
    lock_.unlock();
    return from != nullptr ? ::new (from) magazine : nullptr;
  }

  spin_lock lock_;
  rest* top_ = nullptr;
};

constinit magazine_source magazines;

/// What all threads share, a size class: full magazines and empty ones. Never destroyed: threads may end after static
/// destructors have run.
class depot {
 public:
  /// A full magazine, for an empty one or none. Throws std::bad_alloc, `empty` being kept then.
  magazine* exchange_for_full(magazine*& empty, std::size_t block_bytes) {
    lock_.lock();
    if (magazine* m = full_) {
      full_ = m->next;
      push(empty_, empty);
      empty = nullptr;
      lock_.unlock();
      return m;
    }
    lock_.unlock();
    return carve(block_bytes, empty);
  }

  /// An empty magazine, for a full one or none; null if there is no memory for one.
  magazine* exchange_for_empty(magazine* full) noexcept {
    lock_.lock();
    push(full_, full);
    magazine* m = empty_;
    if (m != nullptr) empty_ = m->next;
    lock_.unlock();
    return m != nullptr ? m : magazines.try_take();
  }

  void put_partial(magazine* m, std::size_t count) noexcept {
    lock_.lock();
    while (count != 0) {
      if (loose_count_ == batch && !gather_loose()) break;  // what finds no room stays in its chunk, unused
      loose_[loose_count_++] = m->blocks[--count];
    }
    push(empty_, m);
    lock_.unlock();
  }

 private:
  static void push(magazine*& list, magazine* m) noexcept {
    if (m == nullptr) return;
    m->next = list;
    list = m;
  }

  // Makes a full magazine of the loose blocks. Under the lock.
  bool gather_loose() noexcept {
    magazine* m = empty_;
    if (m != nullptr)
      empty_ = m->next;
    else
      m = magazines.try_take();
    if (m == nullptr) return false;
    std::copy_n(loose_, batch, m->blocks);
    loose_count_ = 0;
    push(full_, m);
    return true;
  }

  // A new chunk: its first magazine is the caller's, the others go to the depot. Chunks are kept for the process's
  // life.
  magazine* carve(std::size_t block_bytes, magazine*& empty) {
    magazine* mine = empty != nullptr ? empty : magazines.take();
    empty = mine;  // should what follows throw
    char* chunk = chunks.take();
    const auto load = [&](magazine& m, std::size_t first) {
      // Handed out from the back: in the order of their addresses.
      for (std::size_t i = 0; i < batch; ++i) m.blocks[batch - 1 - i] = chunk + (first + i) * block_bytes;
    };
    load(*mine, 0);
    empty = nullptr;
    for (std::size_t first = batch; first + batch <= chunk_bytes / block_bytes; first += batch) {
      auto* m = magazines.try_take();
      if (m == nullptr) break;
      load(*m, first);
      exchange_full_in(m);
    }
    return mine;
  }

  void exchange_full_in(magazine* m) noexcept {
    lock_.lock();
    // At the end of the list, so that a new chunk is used in the order of its addresses.
    magazine** last = &full_;
    while (*last != nullptr) last = &(*last)->next;
    m->next = nullptr;
    *last = m;
    lock_.unlock();
  }

  spin_lock lock_;  // before those of magazines and of chunks
  magazine* full_ = nullptr;
  magazine* empty_ = nullptr;
  std::size_t loose_count_ = 0;  // blocks that ended threads had left in part-full magazines
  void* loose_[batch];
};

std::array<depot, class_count>& depots() { return immortal<std::array<depot, class_count>>(); }

/// `current` is taken from and put to; `spare` is full or empty, so that taking and putting in turn does not go to the
/// depot.
struct free_list {
  magazine* current = nullptr;
  std::size_t count = 0;
  magazine* spare = nullptr;
  bool spare_full = false;
};

struct thread_cache {
  std::array<free_list, class_count> lists;
  bool registered = false;
};

thread_local thread_cache cache_of_this_thread __attribute__((tls_model("initial-exec")));

/// Hands the blocks of an ending thread back.
struct cache_owner {
  ~cache_owner() {
    for (std::size_t c = 0; c < class_count; ++c) {
      free_list& l = cache_of_this_thread.lists[c];
      if (l.spare != nullptr) depots()[c].put_partial(l.spare, l.spare_full ? batch : 0);
      if (l.current != nullptr) depots()[c].put_partial(l.current, l.count);
      l = {};
    }
  }
};

[[gnu::noinline]] thread_cache& this_cache() noexcept {
  asm volatile("" ::: "memory");
  return cache_of_this_thread;
}

[[gnu::noinline]] void register_cache(thread_cache& t) {
  static thread_local cache_owner owner;
  asm volatile("" : : "r"(&owner) : "memory");
  t.registered = true;
}

[[gnu::noinline]] void refill(thread_cache& t, std::size_t c) {
  if (!t.registered) register_cache(t);
  free_list& l = t.lists[c];
  if (l.spare_full) {
    std::swap(l.current, l.spare);
    l.spare_full = false;
  } else {
    l.current = depots()[c].exchange_for_full(l.current, class_bytes(c));
  }
  l.count = batch;
}

/// False: there is no memory for another magazine.
[[gnu::noinline]] bool make_room(thread_cache& t, std::size_t c) noexcept {
  if (!t.registered) register_cache(t);
  free_list& l = t.lists[c];
  if (l.spare == nullptr || l.spare_full) {
    magazine* empty = depots()[c].exchange_for_empty(l.spare);
    l.spare = empty;
    l.spare_full = false;
    if (empty == nullptr) return false;
  }
  std::swap(l.current, l.spare);
  l.spare_full = l.spare != nullptr;
  l.count = 0;
  return true;
}

}  // namespace

void* allocate_record(std::size_t size, std::size_t alignment) {
  if (!pooled || size > largest || alignment > smallest) [[unlikely]]
    return ::operator new (size, std::align_val_t{alignment});
  const std::size_t c = class_of(rounded(size, alignment));
  thread_cache& t = this_cache();
  free_list& l = t.lists[c];
  if (l.count == 0) [[unlikely]]
    refill(t, c);
  void* p = l.current->blocks[--l.count];
  if (l.count >= fetch_ahead) __builtin_prefetch(l.current->blocks[l.count - fetch_ahead], 1);
  return p;
}

void free_record(void* p, std::size_t size, std::size_t alignment) noexcept {
  if (!pooled || size > largest || alignment > smallest) [[unlikely]] {
    ::operator delete (p, std::align_val_t{alignment});
    return;
  }
  const std::size_t c = class_of(rounded(size, alignment));
  thread_cache& t = this_cache();
  free_list& l = t.lists[c];
  if (l.current == nullptr || l.count == batch) [[unlikely]] {
    if (!make_room(t, c)) return;  // no memory to note it down: the block stays in its chunk, unused
  }
  l.current->blocks[l.count++] = p;  // NOLINT(clang-analyzer-core.NullDereference): make_room() has seen to it
}

}  // namespace coir::detail
