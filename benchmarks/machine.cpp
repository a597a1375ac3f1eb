// What do the machine, its operating system and its libraries cost by themselves: what a design weighs its choices
// against (docs/internals/scheduler.md)? Nothing of coir is measured here.
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <boost/context/detail/fcontext.hpp>
#include <boost/context/fiber.hpp>

#include "workloads/measure.hpp"

namespace {

// ---- switching stacks ----------------------------------------------------------------------------------------------

namespace context = boost::context;
using context::detail::fcontext_t;
using context::detail::jump_fcontext;
using context::detail::transfer_t;

constexpr std::size_t page = 4096;

/// Memory for so many stacks, `stride` bytes apart.
class stack_memory {
 public:
  stack_memory(std::size_t count, std::size_t stride) : bytes_(count * stride), stride_(stride) {
    void* const memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bench::check(memory != MAP_FAILED, "mmap");
    base_ = static_cast<char*>(memory);
    madvise(base_, bytes_, MADV_NOHUGEPAGE);
  }
  ~stack_memory() { munmap(base_, bytes_); }
  stack_memory(const stack_memory&) = delete;
  stack_memory& operator=(const stack_memory&) = delete;

  char* top(std::size_t i) const { return base_ + (i + 1) * stride_; }

 private:
  std::size_t bytes_;
  std::size_t stride_;
  char* base_;
};

void bounce(transfer_t from) {
  for (;;) from = jump_fcontext(from.fctx, nullptr);
}

/// As fibers do, whose frames take some cache lines.
void bounce_and_touch(transfer_t from) {
  constexpr std::size_t line = 64;
  volatile char frames[12 * line] = {};
  for (;;) {
    from = jump_fcontext(from.fctx, nullptr);
    for (std::size_t i = 0; i < sizeof frames; i += line) frames[i] = 1;
  }
}

/// By turns to each of so many stacks and back.
void there_and_back(benchmark::State& state, std::size_t count, std::size_t stride, std::size_t colours,
                    void (*body)(transfer_t)) {
  constexpr std::size_t step = 256;
  const stack_memory memory(count, stride);
  std::vector<fcontext_t> contexts;
  for (std::size_t i = 0; i < count; ++i)
    contexts.push_back(context::detail::make_fcontext(memory.top(i) - i % colours * step, 4 * page, body));
  std::size_t next = 0;
  for (auto _ : state) {
    contexts[next] = jump_fcontext(contexts[next], nullptr).fctx;
    next = next + 1 == count ? 0 : next + 1;
  }
}

void switch_there_and_back(benchmark::State& state) { there_and_back(state, 1, 64 * page, 1, &bounce); }
BENCHMARK(switch_there_and_back);

void switch_there_and_back_1000_stacks(benchmark::State& state) {
  there_and_back(state, 1000, static_cast<std::size_t>(state.range(0)) * page, static_cast<std::size_t>(state.range(1)),
                 &bounce_and_touch);
}
BENCHMARK(switch_there_and_back_1000_stacks)
    ->ArgNames({"pages", "colours"})
    ->Args({64, 1})
    ->Args({63, 1})
    ->Args({63, 12});

/// A hundred thousand stacks, all of which have left the caches when their turns come: what waking a fiber costs at
/// least if it is one of many, and starting one on a stack that was used long ago; scattered, or one after the other,
/// two of which are being fetched meanwhile.
void switch_there_and_back_cold(benchmark::State& state, bool scattered) {
  constexpr std::size_t count = 100'000;
  const std::size_t stride = scattered ? 7919 : 1;  // it visits all
  const stack_memory memory(count, 63 * page);
  std::vector<fcontext_t> contexts;
  for (std::size_t i = 0; i < count; ++i) {
    contexts.push_back(context::detail::make_fcontext(memory.top(i) - i % 12 * 256, 4 * page, &bounce_and_touch));
    contexts[i] = jump_fcontext(contexts[i], nullptr).fctx;
  }
  std::size_t next = 0;
  for (auto _ : state) {
    if (!scattered) __builtin_prefetch(contexts[(next + 2) % count], 1);
    contexts[next] = jump_fcontext(contexts[next], nullptr).fctx;
    next = (next + stride) % count;
  }
}
BENCHMARK_CAPTURE(switch_there_and_back_cold, scattered, true)->Iterations(200'000);
BENCHMARK_CAPTURE(switch_there_and_back_cold, in_order, false)->Iterations(200'000);

void boost_fiber_resume_there_and_back(benchmark::State& state) {
  context::fiber other([](context::fiber&& consumer) {
    for (;;) consumer = std::move(consumer).resume();
    return std::move(consumer);
  });
  for (auto _ : state) other = std::move(other).resume();
}
BENCHMARK(boost_fiber_resume_there_and_back);

// ---- memory orders -------------------------------------------------------------------------------------------------

void read_modify_write(benchmark::State& state) {
  std::atomic<int> word{0};
  for (auto _ : state) word.fetch_add(1, std::memory_order_seq_cst);
}
BENCHMARK(read_modify_write);

void store_and_fence(benchmark::State& state) {
  std::atomic<int> word{0};
  for (auto _ : state) {
    word.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}
BENCHMARK(store_and_fence);

/// Enter and leave, so that another thread that makes this one fence (membarrier) can tell: with plain stores.
void bracket_of_plain_stores(benchmark::State& state) {
  std::atomic<int> inside{0};
  std::atomic<bool> wanted{false};
  benchmark::DoNotOptimize(&wanted);
  for (auto _ : state) {
    inside.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (wanted.load(std::memory_order_relaxed)) state.SkipWithError("nobody wants it");
    inside.store(0, std::memory_order_release);
  }
}
BENCHMARK(bracket_of_plain_stores);

void bracket_with_an_exchange(benchmark::State& state) {
  std::atomic<int> inside{0};
  std::atomic<bool> wanted{false};
  benchmark::DoNotOptimize(&wanted);
  for (auto _ : state) {
    inside.exchange(1, std::memory_order_seq_cst);
    if (wanted.load(std::memory_order_relaxed)) state.SkipWithError("nobody wants it");
    inside.store(0, std::memory_order_release);
  }
}
BENCHMARK(bracket_with_an_exchange);

// ---- the operating system ------------------------------------------------------------------------------------------

void read_the_clock(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(std::chrono::steady_clock::now());
}
BENCHMARK(read_the_clock);

// A fiber that waits takes a page at least, and its guard: the page by a fault, as for coir's stacks, and as many at
// once as one call takes; guards, of 17 pages below stacks of 64, as many at once.

constexpr std::size_t new_stacks = 64'000;
constexpr std::size_t batch = 64;
constexpr std::size_t guard_bytes = 17 * page;
constexpr std::size_t stack_and_guard = 64 * page + guard_bytes;
constexpr int guard_install = 102;  // MADV_GUARD_INSTALL
constexpr int populate_write = 23;  // MADV_POPULATE_WRITE

void first_touch_of_a_page(benchmark::State& state) {
  const stack_memory memory(new_stacks, stack_and_guard);
  std::size_t next = 0;
  for (auto _ : state) *(memory.top(next++) - 1) = 1;
}
BENCHMARK(first_touch_of_a_page)->Iterations(new_stacks);

/// An iteration is one page of each of `batch` stacks.
void advise_in_batches(benchmark::State& state, std::size_t offset, std::size_t length, int advice) {
  const stack_memory memory(new_stacks, stack_and_guard);
  const int self = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0U));
  std::size_t next = 0;
  for (auto _ : state) {
    std::vector<iovec> pages;
    for (std::size_t i = 0; i < batch; ++i) pages.push_back({memory.top(next++) - offset, length});
    if (syscall(SYS_process_madvise, self, pages.data(), batch, advice, 0U) != static_cast<long>(batch * length))
      state.SkipWithError("the kernel has no such process_madvise");
  }
  state.counters["per_op"] =
      benchmark::Counter(batch, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  close(self);
}
BENCHMARK_CAPTURE(advise_in_batches, first_page, page, page, populate_write)->Iterations(new_stacks / batch);
BENCHMARK_CAPTURE(advise_in_batches, guard, stack_and_guard, guard_bytes, guard_install)
    ->Iterations(new_stacks / batch);

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation | FUTEX_PRIVATE_FLAG, value, nullptr);
}

void futex_wake_of_nobody(benchmark::State& state) {
  std::atomic<std::uint32_t> word{0};
  for (auto _ : state) futex(word, FUTEX_WAKE, 1);
}
BENCHMARK(futex_wake_of_nobody);

enum class until { the_call_returns, the_sleeper_runs };

/// A thread that sleeps on a futex is woken, after it has slept for a while.
template <until What>
void futex_wake_of_a_sleeper(benchmark::State& state) {
  using clock = std::chrono::steady_clock;
  std::atomic<std::uint32_t> turn{0};  // odd: the sleeper's
  std::atomic<bool> ended{false};
  clock::time_point ran;
  std::thread sleeper([&] {
    for (std::uint32_t seen = 0;; seen += 2) {
      while (turn.load(std::memory_order_acquire) == seen) futex(turn, FUTEX_WAIT, seen);
      ran = clock::now();
      if (ended.load(std::memory_order_relaxed)) return;
      turn.store(seen + 2, std::memory_order_release);
    }
  });
  std::uint32_t now = 0;
  for (auto _ : state) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // by then it is asleep
    const clock::time_point start = clock::now();
    turn.store(++now, std::memory_order_release);
    futex(turn, FUTEX_WAKE, 1);
    const clock::time_point called = clock::now();
    ++now;
    while (turn.load(std::memory_order_acquire) != now) std::this_thread::yield();
    state.SetIterationTime(bench::seconds((What == until::the_call_returns ? called : ran) - start).count());
  }
  ended.store(true, std::memory_order_relaxed);
  turn.store(now + 1, std::memory_order_release);
  futex(turn, FUTEX_WAKE, 1);
  sleeper.join();
}
BENCHMARK(futex_wake_of_a_sleeper<until::the_call_returns>)
    ->Name("futex_wake_until_the_call_returns")
    ->UseManualTime()
    ->Iterations(500);
BENCHMARK(futex_wake_of_a_sleeper<until::the_sleeper_runs>)
    ->Name("futex_wake_until_the_sleeper_runs")
    ->UseManualTime()
    ->Iterations(500);

}  // namespace

BENCHMARK_MAIN();
