#include "stack_pool.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <fstream>
#include <mutex>
#include <system_error>
#include <utility>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fiber.hpp"
#include "sanitizer.hpp"

namespace coir::detail {

namespace {

// Newer than Debian 12's headers.
constexpr int madv_guard_install = 102;
constexpr int madv_populate_write = 23;

constexpr std::size_t first_slab = 16;
constexpr std::size_t slab_stacks = 64;
// A program with so many stacks is going to use the next ones too: commit their first pages a slab at a time.
constexpr std::size_t populate_from = 512;
constexpr std::size_t colours = 12;
constexpr std::size_t large_stack = 128 * 1024;
constexpr std::size_t guard_pages = 4;
constexpr std::size_t colour_step = 256;

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

}  // namespace

stack_pool::stack_pool(std::size_t stack_size, guard g)
    : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
      stack_size_(((stack_size + page_ - 1) / page_ | 1) * page_),
      guard_size_(stack_size_ >= large_stack ? guard_pages * page_ : page_),
      guard_(g),
      mprotect_budget_(map_count_limit() / 4) {
#if defined(SYS_pidfd_open) && defined(SYS_process_madvise)
  self_ = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0U));
#endif
}

stack_pool::~stack_pool() {
  tsan_acquire(this);
  for (fiber* f : fibers_) tsan_destroy(f->tsan);
  // The suspended contexts hold nothing but their stacks, so they are not unwound.
  for (const slab& s : slabs_) {
    asan_unpoison(s.base, s.bytes);
    ::munmap(s.base, s.bytes);
  }
  if (self_ >= 0) ::close(self_);
}

stack_pool::stack stack_pool::make() {
  const std::lock_guard locked(lock_);
  const tsan_section section(this);
  if (!blank_.empty()) {
    const stack s = blank_.back();
    blank_.pop_back();
    return s;
  }
  if (left_ == 0) grow();
  char* base = next_;
  next_ += stack_size_;
  --left_;
  const std::size_t colour = made_++ % colours * colour_step;
  return {base + guard_size_, base + stack_size_ - colour};
}

void stack_pool::made(fiber& f) {
  const std::lock_guard locked(lock_);
  const tsan_section section(this);
  f.pool_index = fibers_.size();
  fibers_.push_back(&f);
}

void stack_pool::put(fiber* const* stacks, std::size_t count) noexcept {
  lock_.lock();
  const std::size_t free = free_count();
  for (std::size_t i = 0; i < count; ++i) free_at(coldest_ + free + i) = stacks[i];
  free_count_.store(free + count, std::memory_order_relaxed);
  lock_.unlock();
}

std::size_t stack_pool::take(fiber** stacks, std::size_t most) noexcept {
  if (free_count() == 0) return 0;
  lock_.lock();
  const std::size_t n = std::min(most, free_count());
  const std::size_t left = free_count() - n;
  for (std::size_t i = 0; i < n; ++i) stacks[i] = free_at(coldest_ + left + i);
  free_count_.store(left, std::memory_order_relaxed);
  free_low_ = std::min(free_low_, left);
  lock_.unlock();
  return n;
}

std::vector<fiber*> stack_pool::fibers() {
  const std::lock_guard locked(lock_);
  const tsan_section section(this);
  return fibers_;
}

stack_pool::counts stack_pool::count() noexcept {
  const std::lock_guard locked(lock_);
  return {made_, free_count() + blank_.size()};
}

std::size_t stack_pool::unused() noexcept {
  const std::lock_guard locked(lock_);
  return std::exchange(free_low_, free_count());
}

// Who still holds a pointer to the control block of a fiber that has ended (a timer that fires late, a list of fibers)
// finds zeros, or the next one's: a free fiber, and a claim word that is not the one it looks for.
std::size_t stack_pool::trim(std::size_t keep, std::size_t most) noexcept {
  const std::lock_guard locked(lock_);
  const tsan_section section(this);
  std::size_t n = free_count() > keep ? std::min(free_count() - keep, most) : 0;
  try {
    // Doubled, not made just large enough: of a million stacks each batch would copy all before it.
    if (blank_.size() + n > blank_.capacity()) blank_.reserve(2 * (blank_.size() + n));
  } catch (const std::bad_alloc&) {
    n = 0;
  }
  for (std::size_t i = 0; i < n; ++i) {
    fiber* f = free_at(coldest_++);
    const stack s{f->bottom, f->top};
    fibers_[f->pool_index] = fibers_.back();
    fibers_[f->pool_index]->pool_index = f->pool_index;
    fibers_.pop_back();
    tsan_destroy(f->tsan);
    f->~fiber();
    const auto used = static_cast<std::size_t>(s.top - s.bottom);
    const std::size_t bytes = (used + page_ - 1) / page_ * page_;  // bottom is at a page's begin
    asan_unpoison(s.bottom, bytes);
    ::madvise(s.bottom, bytes, MADV_DONTNEED);
    blank_.push_back(s);
  }
  free_count_.store(free_count() - n, std::memory_order_relaxed);
  free_low_ = std::min(free_low_, free_count());
  return n;
}

void stack_pool::grow() {
  const std::size_t count = slabs_.empty() ? first_slab : slab_stacks;
  const std::size_t bytes = count * stack_size_;
  if (slabs_.size() == slabs_.capacity()) slabs_.reserve(2 * slabs_.size() + 1);
  if (made_ + count > fibers_.capacity()) fibers_.reserve(2 * (made_ + count));
  if (made_ + count > free_.size()) grow_free(made_ + count);
  void* p =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (p == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "coir: cannot reserve fiber stacks");
  char* base = static_cast<char*>(p);
  ::madvise(base, bytes, MADV_NOHUGEPAGE);  // a huge page would commit eight stacks at the first touch of one
  install_guards(base, count);
  if (made_ >= populate_from) populate(base, count);
  slabs_.push_back({base, bytes});
  next_ = base;
  left_ = count;
}

void stack_pool::grow_free(std::size_t least) {
  std::vector<fiber*> larger(std::bit_ceil(least));
  for (std::size_t i = 0; i < free_count(); ++i) larger[i] = free_at(coldest_ + i);
  free_.swap(larger);
  coldest_ = 0;
}

void stack_pool::install_guards(char* base, std::size_t count) {
  if (guard_ == guard::automatic && guard_by_madvise(base, count)) return;
  for (std::size_t i = 0; i < count; ++i) {
    if (mprotect_budget_ < 2 || ::mprotect(base + i * stack_size_, guard_size_, PROT_NONE) != 0) {
      ++unguarded_;
      continue;
    }
    mprotect_budget_ -= 2;
  }
}

bool stack_pool::guard_by_madvise(char* base, std::size_t count) const noexcept {
  std::array<iovec, slab_stacks> pages;
  for (std::size_t i = 0; i < count; ++i) pages[i] = {base + i * stack_size_, guard_size_};
  if (advise_all(self_, pages.data(), count, count * guard_size_, madv_guard_install)) return true;
  for (std::size_t i = 0; i < count; ++i)
    if (::madvise(base + i * stack_size_, guard_size_, madv_guard_install) != 0) return false;
  return true;
}

void stack_pool::populate(char* base, std::size_t count) const noexcept {
  std::array<iovec, slab_stacks> pages;
  for (std::size_t i = 0; i < count; ++i) pages[i] = {base + (i + 1) * stack_size_ - page_, page_};
  advise_all(self_, pages.data(), count, count * page_, madv_populate_write);  // only a hint: else they fault in
}

}  // namespace coir::detail
