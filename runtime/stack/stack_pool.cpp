#include "stack/stack_pool.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <limits>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "base/madvise.hpp"
#include "base/sanitizer.hpp"
#include "base/tsan_contexts.hpp"
#include "fiber/fiber.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::size_t first_slab = 16;
constexpr std::size_t largest_slab_bytes = std::size_t{2} << 30;
constexpr std::size_t colours = 12;
constexpr std::size_t least_guard = 64 * 1024;
constexpr std::size_t colour_step = 256;

constexpr std::size_t whole_pages(std::size_t bytes, std::size_t page) { return (bytes + page - 1) / page * page; }

std::size_t map_count_limit() {
  std::ifstream in("/proc/sys/vm/max_map_count");
  std::size_t limit = 65'530;
  in >> limit;
  return limit;
}

// One call for many pages; false if the kernel cannot (then nothing is known of the pages).
bool advise_all(int self, const iovec* pages, std::size_t count, std::size_t bytes, int advice) {
  return self >= 0 && ::syscall(SYS_process_madvise, self, pages, count, advice, 0U) == static_cast<long>(bytes);
}

template <class T>
void make_room(internal_vector<T>& v, std::size_t count) {
  if (count > v.capacity()) v.reserve(2 * count);
}

/// Address space for so many stacks with their guards, or for `least` if there is not so much, or for none. Its owner
/// gives it back, except for the released part.
class mapping {
 public:
  mapping(std::size_t count, std::size_t least, std::size_t stride) noexcept : stride_(stride) {
    if (!map(count) && least < count) static_cast<void>(map(least));
  }
  ~mapping() {
    if (count_ != 0) ::munmap(base_, count_ * stride_);
  }
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;

  char* base() const noexcept { return static_cast<char*>(base_); }
  std::size_t count() const noexcept { return count_; }
  int error() const noexcept { return error_; }

  void release() noexcept { count_ = 0; }

 private:
  bool map(std::size_t count) noexcept {
    const std::size_t bytes = count * stride_;
    base_ =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (base_ == MAP_FAILED) {
      error_ = errno;
      return false;
    }
    ::madvise(base_, bytes, MADV_NOHUGEPAGE);  // a huge page would commit several stacks at the first touch of one
    count_ = count;
    return true;
  }

  std::size_t stride_;
  void* base_ = nullptr;
  std::size_t count_ = 0;
  int error_ = 0;
};

}  // namespace

stack_pool::stack_pool(std::size_t stack_size, guard g)
    : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
      stack_size_(stack_size),
      stride_((whole_pages(stack_size + least_guard, page_) / page_ | 1) * page_),
      guard_size_(stride_ - whole_pages(stack_size, page_)),
      guard_(g),
      mprotect_budget_(map_count_limit() / 4) {
#if defined(SYS_pidfd_open) && defined(SYS_process_madvise)
  self_ = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0U));
#endif
}

stack_pool::~stack_pool() {
  tsan_acquire(this);
  for (fiber* f : fibers_)
    if (f != nullptr) tsan_context_end(f->tsan);
  // The suspended contexts hold nothing but their stacks, so they are not unwound.
  for (const slab* s = slabs_.load(std::memory_order_relaxed); s != nullptr;) {  // nobody else is there
    asan_unpoison(s->all.base, s->all.count * stride_);
    ::munmap(s->all.base, s->all.count * stride_);
    delete std::exchange(s, s->older);
  }
  if (self_ >= 0) ::close(self_);
}

// The system is asked without the lock: it takes some 100 us for a part, and a worker that finds no stack meanwhile
// prepares another part. If the system refuses, the worker fails only if no other worker is preparing stacks.
stack_pool::stack stack_pool::make() {
  backoff wait;
  for (;;) {
    span part{nullptr, 0};
    std::size_t to_reserve = 0;
    {
      const std::lock_guard locked(lock_);
      const tsan_section section(this);
      if (!blank_.empty()) {
        const stack s = blank_.back();
        blank_.pop_back();
        return s;
      }
      if (!ready_.empty()) return cut_stack();
      if (!reserved_.empty())
        part = cut_part();
      else
        to_reserve = next_slab();
      ++preparing_;
    }
    if (to_reserve != 0) {
      if (!reserve_slab(to_reserve)) wait();
      continue;
    }
    if (guard_ != guard::automatic || !guard_by_madvise(part)) guard_by_mprotect(part);

    const std::lock_guard locked(lock_);
    const tsan_section section(this);
    --preparing_;
    ready_.push_back(part);
    return cut_stack();
  }
}

// False: the system refused, but other threads may have stacks soon. Throws if none will.
bool stack_pool::reserve_slab(std::size_t count) {
  mapping fresh(count, std::min(count, part_stacks), stride_);
  {
    const std::lock_guard locked(lock_);
    const tsan_section section(this);
    --preparing_;
    if (!blank_.empty() || !ready_.empty() || !reserved_.empty()) return true;  // somebody else was faster
    if (fresh.count() != 0) {
      add_slab({fresh.base(), fresh.count()});
      fresh.release();
      return true;
    }
    if (preparing_ != 0) return false;
  }
  throw std::system_error(fresh.error(), std::generic_category(), "coir: cannot reserve fiber stacks");
}

// From here to cut_stack() all are called under the lock.

std::size_t stack_pool::next_slab() const noexcept {
  if (capacity_ == 0) return first_slab;
  const std::size_t most = std::max(largest_slab_bytes / stride_, part_stacks);
  return std::clamp(capacity_ / 2 / part_stacks * part_stacks, part_stacks, most);
}

// Makes room for everything that later happens to its stacks, too.
void stack_pool::add_slab(span added) {
  const std::size_t all = capacity_ + added.count;
  if (all > std::numeric_limits<std::uint32_t>::max()) throw std::bad_alloc();  // fiber::stack_number
  make_room(reserved_, slab_count_ + 1);
  make_room(ready_, slab_count_ + 1 + all / part_stacks);
  make_room(fibers_, all);
  make_room(blank_, all);
  free_.reserve(all);
  const auto* newest = new slab(added, slabs_.load(std::memory_order_relaxed));  // written under the lock
  slabs_.store(newest, std::memory_order_release);                               // pairs with stack_above_guard()
  ++slab_count_;  // NOLINT(clang-analyzer-unix.Malloc): ~stack_pool() deletes the list that begins with `newest`
  capacity_ = all;
  reserved_.push_back(added);
}

char* stack_pool::cut(internal_vector<span>& from, std::size_t count) noexcept {
  span& last = from.back();
  char* const base = last.base;
  last.base += count * stride_;
  last.count -= count;
  if (last.count == 0) from.pop_back();
  return base;
}

stack_pool::span stack_pool::cut_part() noexcept {
  const std::size_t count = std::min(reserved_.back().count, part_stacks);
  return {cut(reserved_, count), count};
}

stack_pool::stack stack_pool::cut_stack() noexcept {
  char* const base = cut(ready_, 1);
  const std::size_t number = fibers_.size();
  fibers_.push_back(nullptr);
  registered_.add(base + guard_size_, base + stride_);
  return {base + guard_size_, top_of(base), number};
}

// The colour depends on the address alone, because stack_above_guard() has nothing else to tell it from. Neighbours get
// different ones.
char* stack_pool::top_of(char* base) const noexcept {
  return base + stride_ - reinterpret_cast<std::uintptr_t>(base) / stride_ % colours * colour_step;
}

void stack_pool::made(fiber& f) noexcept {
  tsan_context_made();
  const std::lock_guard locked(lock_);
  const tsan_section section(this);
  fibers_[f.stack_number] = &f;
}

void stack_pool::put(fiber* const* stacks, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) tsan_context_give_up(stacks[i]->tsan, stacks[i]);
  lock_.lock();
  for (std::size_t i = 0; i < count; ++i) free_.insert(stacks[i]->stack_number);
  free_count_.store(free_count() + count, std::memory_order_relaxed);
  lock_.unlock();
}

std::size_t stack_pool::take(fiber** stacks, std::size_t most) noexcept {
  if (free_count() == 0) return 0;
  lock_.lock();
  const std::size_t n = std::min(most, free_count());
  const std::size_t left = free_count() - n;
  for (std::size_t i = n; i-- != 0;) stacks[i] = fibers_[free_.take_least()];
  free_count_.store(left, std::memory_order_relaxed);
  free_low_ = std::min(free_low_, left);
  lock_.unlock();
  for (std::size_t i = 0; i < n; ++i) tsan_context_renew(stacks[i]->tsan, stacks[i]);
  return n;
}

internal_vector<fiber*> stack_pool::fibers() {
  const std::lock_guard locked(lock_);
  const tsan_section section(this);
  internal_vector<fiber*> all;
  all.reserve(fibers_.size() - blank_.size());
  std::copy_if(fibers_.begin(), fibers_.end(), std::back_inserter(all), [](fiber* f) { return f != nullptr; });
  return all;
}

stack_pool::counts stack_pool::count() noexcept {
  const std::lock_guard locked(lock_);
  return {fibers_.size(), free_count() + blank_.size()};
}

std::size_t stack_pool::unused() noexcept {
  const std::lock_guard locked(lock_);
  return std::exchange(free_low_, free_count());
}

// A late timer or a list of fibers may still point to the control block of a fiber that has ended. It finds zeros
// there, or the next fiber's block: a free fiber, and a claim word that is not the expected one.
std::size_t stack_pool::trim(std::size_t keep, std::size_t most) noexcept {
  std::array<stack, part_stacks> stacks;  // neither free nor blank meanwhile: nobody can take them
  std::size_t n = 0;
  {
    const std::lock_guard locked(lock_);
    const tsan_section section(this);
    n = free_count() > keep ? std::min({free_count() - keep, most, part_stacks}) : 0;
    for (std::size_t i = 0; i < n; ++i) {
      fiber* f = std::exchange(fibers_[free_.take_greatest()], nullptr);
      stacks[i] = {f->bottom, f->top, f->stack_number};
      tsan_context_end(f->tsan);
      f->~fiber();
    }
    free_count_.store(free_count() - n, std::memory_order_relaxed);
    free_low_ = std::min(free_low_, free_count());
  }
  if (n != 0) give_back(stacks.data(), n);
  return n;
}

void stack_pool::give_back(const stack* stacks, std::size_t count) noexcept {
  std::array<iovec, part_stacks> memory;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const stack& s = stacks[i];
    memory[i] = {s.bottom, whole_pages(static_cast<std::size_t>(s.top - s.bottom), page_)};  // from a page's begin
    bytes += memory[i].iov_len;
    asan_unpoison(s.bottom, memory[i].iov_len);
  }
  if (!advise_all(self_, memory.data(), count, bytes, MADV_DONTNEED))
    for (std::size_t i = 0; i < count; ++i) ::madvise(memory[i].iov_base, memory[i].iov_len, MADV_DONTNEED);

  const std::lock_guard locked(lock_);
  const tsan_section section(this);
  blank_.insert(blank_.end(), stacks, stacks + count);
}

std::optional<stack_pool::stack> stack_pool::stack_above_guard(std::uintptr_t address) const noexcept {
  for (const slab* s = slabs_.load(std::memory_order_acquire); s != nullptr; s = s->older) {  // pairs with add_slab()
    const std::uintptr_t offset = address - reinterpret_cast<std::uintptr_t>(s->all.base);    // huge if it lies below
    if (offset >= s->all.count * stride_ || offset % stride_ >= guard_size_) continue;
    char* const base = s->all.base + offset / stride_ * stride_;
    return stack{base + guard_size_, top_of(base), 0};
  }
  return std::nullopt;
}

void stack_pool::guard_by_mprotect(span part) noexcept {
  for (std::size_t i = 0; i < part.count; ++i) {
    std::size_t budget = mprotect_budget_.load(std::memory_order_relaxed);
    while (budget >= 2 && !mprotect_budget_.compare_exchange_weak(budget, budget - 2, std::memory_order_relaxed)) {
    }
    if (budget >= 2 && ::mprotect(part.base + i * stride_, guard_size_, PROT_NONE) == 0) continue;
    if (budget >= 2) mprotect_budget_.fetch_add(2, std::memory_order_relaxed);
    unguarded_.fetch_add(1, std::memory_order_relaxed);
  }
}

bool stack_pool::guard_by_madvise(span part) const noexcept {
  std::array<iovec, part_stacks> pages;
  for (std::size_t i = 0; i < part.count; ++i) pages[i] = {part.base + i * stride_, guard_size_};
  if (advise_all(self_, pages.data(), part.count, part.count * guard_size_, madv_guard_install)) return true;
  for (std::size_t i = 0; i < part.count; ++i)
    if (::madvise(part.base + i * stride_, guard_size_, madv_guard_install) != 0) return false;
  return true;
}

}  // namespace coir::detail
