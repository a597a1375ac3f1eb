// Memory for start records and other small, short-lived blocks of the runtime (timers): per-thread free lists by size
// class, refilled from and drained to shared depots in batches. A block may be freed by another thread than allocated it.
// Under AddressSanitizer and ThreadSanitizer every block goes to the heap, whose use they understand.
//
// Thread safety: a cache is touched by its own thread alone. Fibers migrate, so a cache is looked up anew for each call,
// by a function that is never inlined (docs/thread-local-storage.md).
#include <array>
#include <cstdlib>
#include <new>

#include <coir/spin_lock.hpp>
#include <coir/start_record.hpp>

namespace coir::detail {

namespace {

constexpr std::size_t class_count = 4;  // 64, 128, 256, 512
constexpr std::size_t smallest = 64;
constexpr std::size_t largest = smallest << (class_count - 1);
constexpr std::size_t batch = 64;
constexpr std::size_t chunk_bytes = 64 * 1024;

struct block {
  block* next;
  block* next_batch;  // in the depot: the first block of a batch links to the next batch
};

#if defined(COIR_ASAN) || defined(COIR_TSAN)
constexpr bool pooled = false;
#else
constexpr bool pooled = true;
#endif

std::size_t class_of(std::size_t size) noexcept {
  std::size_t c = 0;
  while ((smallest << c) < size) ++c;
  return c;
}

/// What all threads share, a size class. Never destroyed: threads may end after static destructors have run.
class depot {
 public:
  /// A batch of blocks linked by next; throws std::bad_alloc.
  block* take(std::size_t block_bytes) {
    lock_.lock();
    block* b = batches_;
    if (b != nullptr) {
      batches_ = b->next_batch;
      lock_.unlock();
      return b;
    }
    lock_.unlock();
    return carve(block_bytes);
  }

  void put(block* b) noexcept {
    lock_.lock();
    b->next_batch = batches_;
    batches_ = b;
    lock_.unlock();
  }

 private:
  // A new chunk: its first batch is the caller's, the others go to the depot. Chunks are kept for the process's life.
  block* carve(std::size_t block_bytes) {
    char* chunk = static_cast<char*>(::operator new(chunk_bytes, std::align_val_t{64}));
    const std::size_t blocks = chunk_bytes / block_bytes;
    block* first = nullptr;
    for (std::size_t start = 0; start < blocks; start += batch) {
      block* head = nullptr;
      for (std::size_t i = std::min(batch, blocks - start); i-- > 0;) {
        auto* b = reinterpret_cast<block*>(chunk + (start + i) * block_bytes);
        b->next = head;
        head = b;
      }
      if (start == 0)
        first = head;
      else
        put(head);
    }
    return first;
  }

  spin_lock lock_;  // innermost
  block* batches_ = nullptr;
};

std::array<depot, class_count>& depots() {
  static auto* all = new std::array<depot, class_count>;
  return *all;
}

/// Two batches at most: `current` is pushed to and popped from; `full` is one whole batch in reserve.
struct free_list {
  block* current = nullptr;
  std::size_t count = 0;
  block* full = nullptr;
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
      if (l.full != nullptr) depots()[c].put(l.full);
      if (l.current != nullptr) depots()[c].put(l.current);
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

}  // namespace

void* allocate_record(std::size_t size, std::size_t alignment) {
  if (!pooled || size > largest || alignment > smallest) [[unlikely]]
    return ::operator new(size, std::align_val_t{alignment});
  const std::size_t c = class_of(size);
  thread_cache& t = this_cache();
  free_list& l = t.lists[c];
  if (l.current == nullptr) [[unlikely]] {
    if (!t.registered) register_cache(t);
    if (l.full != nullptr) {
      l.current = l.full;
      l.full = nullptr;
      l.count = batch;
    } else {
      l.current = depots()[c].take(smallest << c);
      l.count = 0;
      for (block* b = l.current; b != nullptr; b = b->next) ++l.count;
    }
  }
  block* b = l.current;
  l.current = b->next;
  --l.count;
  return b;
}

void free_record(void* p, std::size_t size, std::size_t alignment) noexcept {
  if (!pooled || size > largest || alignment > smallest) [[unlikely]] {
    ::operator delete(p, std::align_val_t{alignment});
    return;
  }
  const std::size_t c = class_of(size);
  thread_cache& t = this_cache();
  free_list& l = t.lists[c];
  if (l.count == batch) [[unlikely]] {
    if (l.full != nullptr) depots()[c].put(l.full);
    l.full = l.current;
    l.current = nullptr;
    l.count = 0;
  }
  if (!t.registered) [[unlikely]]
    register_cache(t);
  auto* b = static_cast<block*>(p);
  b->next = l.current;
  l.current = b;
  ++l.count;
}

}  // namespace coir::detail
