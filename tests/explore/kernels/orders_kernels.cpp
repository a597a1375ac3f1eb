// Order and atomicity: used before it is there or after it is gone, checked and then acted upon, made twice.
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>

#include "kernels.hpp"

namespace kernels {

namespace {

/// A fiber uses what its parent sets after it has started it.
template <bool mended>
void used_before_it_is_set() {
  std::atomic<int> config = 0;
  int seen = 0;
  if (mended) config = 7;
  auto worker = coir::spawn([&] {
    coir::yield();
    seen = config;
  });
  coir::yield();
  if (!mended) config = 7;
  worker.get();
  require(seen == 7, "used before it is set");
}

/// A log is closed while a fiber still writes.
template <bool mended>
void used_after_shutdown() {
  std::atomic<bool> open = true;
  bool late = false;
  auto writer = coir::spawn([&] {
    for (int i = 0; i < 2; ++i) {
      decision();
      late |= !open;
    }
  });
  if (mended) writer.wait();
  coir::yield();
  open = false;
  writer.get();
  require(!late, "written to a closed log");
}

/// The result of a fiber is read before the fiber was joined.
template <bool mended>
void read_without_join() {
  std::atomic<int> result = 0;
  auto worker = coir::spawn([&] {
    decision();
    result = 42;
  });
  if (mended)
    worker.wait();
  else
    coir::yield();
  const int seen = result;
  worker.get();
  require(seen == 42, "the result is not there yet");
}

/// Lazy initialization: checked, and then made.
template <bool mended>
void lazy_initialization() {
  coir::once made;
  std::atomic<bool> is_made = false;
  std::atomic<int> times = 0;
  const auto make = [&] {
    ++times;
    decision();
    is_made = true;
  };
  const auto use = [&] {
    if (mended)
      coir::call_once(made, make);
    else if (!is_made)
      make();
  };
  auto other = coir::spawn(use);
  use();
  other.get();
  require(times == 1, "made twice");
}

/// "Is made" is set before it is.
template <bool mended>
void published_too_early() {
  std::atomic<bool> is_made = false;
  std::atomic<int> value = 0;
  int seen = 42;
  auto reader = coir::spawn([&] {
    decision();
    if (is_made) seen = value;
  });
  if (!mended) is_made = true;
  decision();
  value = 42;
  if (mended) is_made = true;
  reader.get();
  require(seen == 42, "half made");
}

/// call_once waits for a fiber that calls call_once.
template <bool mended>
void once_within_once() {
  coir::once warm;
  coir::once ready;
  coir::latch warmed(1);
  auto other = coir::spawn([&] { coir::call_once(mended ? ready : warm, [&] { warmed.wait(); }); });
  coir::call_once(warm, [] {});
  warmed.count_down();
  other.get();
}

/// The last ticket is seen by two, and sold twice.
template <bool mended>
void sold_twice() {
  std::atomic<int> tickets = 1;
  const auto buy = [&] {
    int seen = tickets;
    if (mended) {
      while (seen > 0 && !tickets.compare_exchange_strong(seen, seen - 1)) coir::yield();
    } else if (seen > 0) {
      decision();
      --tickets;
    }
  };
  auto other = coir::spawn(buy);
  buy();
  other.get();
  require(tickets == 0, "sold twice");
}

/// A load and a store instead of one addition.
template <bool mended>
void load_and_store() {
  std::atomic<int> count = 0;
  const auto add = [&] {
    if (mended) {
      ++count;
    } else {
      const int seen = count;
      coir::yield();
      count = seen + 1;
    }
  };
  auto other = coir::spawn(add);
  add();
  other.get();
  require(count == 2, "an update is lost");
}

/// A free list as a stack of indices. Its head is the same again, but the one below is not (ABA).
template <bool mended>
void same_head_again() {
  constexpr int none = 7;
  std::array<std::atomic<int>, 3> below = {none, 0, 1};  // 2 on 1 on 0
  std::atomic<int> head = 2;                             // and 8 for each change, in the twin
  std::array<std::atomic<int>, 3> owners = {};
  const auto next = [](int seen, int index) { return mended ? (seen / 8 + 1) * 8 + index : index; };
  const auto pop = [&] {
    for (int seen = head;;) {
      if (seen % 8 == none) return none;
      const int second = below[static_cast<std::size_t>(seen % 8)];
      decision();
      const int top = seen % 8;
      if (!head.compare_exchange_strong(seen, next(seen, second))) continue;
      ++owners[static_cast<std::size_t>(top)];
      return top;
    }
  };
  const auto push = [&](int index) {
    --owners[static_cast<std::size_t>(index)];
    int seen = head;
    do {
      below[static_cast<std::size_t>(index)] = seen % 8;
    } while (!head.compare_exchange_strong(seen, next(seen, index)));
  };
  auto other = coir::spawn([&] {
    pop();
    pop();
  });
  const int first = pop();
  pop();
  if (first != none) push(first);
  other.get();
  for (const auto& n : owners) require(n <= 1, "one index has two owners");
}

/// Two owners give a thing up. Each looks whether it is the last, and then says that it is gone.
template <bool mended>
void released_by_nobody() {
  std::atomic<int> owners = 2;
  std::atomic<int> freed = 0;
  const auto release = [&] {
    if (mended) {
      if (owners.fetch_sub(1) == 1) ++freed;
    } else {
      const bool last = owners == 1;
      decision();
      --owners;
      if (last) ++freed;
    }
  };
  auto other = coir::spawn(release);
  release();
  other.get();
  require(freed == 1, "not freed once");
}

/// A flag says who frees. It is checked, and then set.
template <bool mended>
void freed_twice() {
  std::atomic<bool> gone = false;
  std::atomic<int> freed = 0;
  const auto release = [&] {
    if (mended) {
      if (gone.exchange(true)) return;
    } else {
      if (gone) return;
      decision();
      gone = true;
    }
    ++freed;
  };
  auto other = coir::spawn(release);
  release();
  other.get();
  require(freed == 1, "freed twice");
}

/// A reader fills the cache with what it has read before a writer invalidated it.
template <bool mended>
void stale_in_the_cache() {
  coir::mutex lock;
  int stored = 1;
  int version = 0;
  std::optional<int> cached;
  auto reader = coir::spawn([&] {
    std::unique_lock held(lock);
    const int value = stored;
    const int seen = version;
    held.unlock();
    held.lock();
    if (!mended || seen == version) cached = value;
  });
  {
    const std::scoped_lock held(lock);
    stored = 2;
    ++version;
    cached.reset();
  }
  reader.get();
  require(!cached || *cached == stored, "the cache is stale");
}

/// Both look at the flag of the other, and then set their own.
template <bool mended>
void both_enter() {
  std::array<std::atomic<bool>, 2> wants = {};
  std::atomic<int> inside = 0;
  std::atomic<bool> both = false;
  const auto enter = [&](std::size_t i) {
    if (mended) {
      wants[i] = true;
      decision();
      if (wants[1 - i]) {
        wants[i] = false;
        return;
      }
    } else {
      if (wants[1 - i]) return;
      decision();
      wants[i] = true;
    }
    if (++inside == 2) both = true;
    decision();
    --inside;
    wants[i] = false;
  };
  auto other = coir::spawn([&] { enter(0); });
  enter(1);
  other.get();
  require(!both, "both are inside");
}

constexpr kernel all[] = {
    {"used_before_it_is_set", "A fiber uses what its parent sets after the spawn", effect::exception,
     used_before_it_is_set<false>, used_before_it_is_set<true>},
    {"used_after_shutdown", "A log is closed while a fiber writes", effect::exception,  //
     used_after_shutdown<false>, used_after_shutdown<true>},
    {"read_without_join", "A result is read before the join", effect::exception,  //
     read_without_join<false>, read_without_join<true>},
    {"lazy_initialization", "Lazy initialization: checked, then made", effect::exception,  //
     lazy_initialization<false>, lazy_initialization<true>},
    {"published_too_early", "The flag is set before the value", effect::exception,  //
     published_too_early<false>, published_too_early<true>},
    {"once_within_once", "call_once waits for a fiber that calls it", effect::deadlock,  //
     once_within_once<false>, once_within_once<true>},
    {"sold_twice", "Check, then act on an atomic", effect::exception,  //
     sold_twice<false>, sold_twice<true>},
    {"load_and_store", "Load, then store of an atomic", effect::exception,  //
     load_and_store<false>, load_and_store<true>},
    {"same_head_again", "ABA: the head of a free list is the same again", effect::exception,  //
     same_head_again<false>, same_head_again<true>},
    {"released_by_nobody", "Two owners look whether they are the last", effect::exception,  //
     released_by_nobody<false>, released_by_nobody<true>},
    {"freed_twice", "A flag of ownership is checked, then set", effect::exception,  //
     freed_twice<false>, freed_twice<true>},
    {"stale_in_the_cache", "A cache is filled after it was invalidated", effect::exception,  //
     stale_in_the_cache<false>, stale_in_the_cache<true>},
    {"both_enter", "Two fibers look at each other's flag, then set their own", effect::exception,  //
     both_enter<false>, both_enter<true>},
};

}  // namespace

std::span<const kernel> orders() { return all; }

}  // namespace kernels
