// Memory for start records: aligned, never given out twice, in order, handed back by threads that end.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <coir/detail/start_record.hpp>

#include "coir_test.hpp"

namespace {

using coir::detail::allocate_record;
using coir::detail::free_record;
using coir_test::scaled;

long resident_pages() {
  std::ifstream in("/proc/self/statm");
  long size = 0, resident = 0;
  in >> size >> resident;
  return resident;
}

constexpr bool can_measure = !coir_test::address_sanitizer && !coir_test::thread_sanitizer;

TEST(RecordPool, GivesAlignedMemoryOfAnySizeThatDoesNotOverlap) {
  struct piece {
    unsigned char* at;
    std::size_t size, alignment;
    unsigned char mark;
  };
  std::vector<piece> all;
  for (int round = 0; round < 5; ++round) {
    for (const std::size_t size : {1U, 24U, 63U, 64U, 65U, 128U, 200U, 256U, 400U, 512U, 513U, 5000U}) {
      for (const std::size_t alignment : {1U, 8U, 16U, 64U, 128U, 4096U}) {
        for (int i = 0; i < 20; ++i) {
          auto* p = static_cast<unsigned char*>(allocate_record(size, alignment));
          ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0U);
          const auto mark = static_cast<unsigned char>(all.size() % 251);
          std::memset(p, mark, size);
          all.push_back({p, size, alignment, mark});
        }
      }
    }
    for (const piece& p : all)
      for (std::size_t i = 0; i < p.size; ++i) ASSERT_EQ(p.at[i], p.mark) << "overwritten by another";
    for (const piece& p : all) free_record(p.at, p.size, p.alignment);
    all.clear();
  }
}

TEST(RecordPool, IsReused) {
  std::vector<void*> pieces(1000);
  const auto round = [&] {
    for (void*& p : pieces) p = allocate_record(64, 8);
    for (void* p : pieces) free_record(p, 64, 8);
  };
  for (int i = 0; i < 10; ++i) round();
  const long before = resident_pages();
  for (int i = 0; i < scaled(1000); ++i) round();
  if (can_measure) {
    EXPECT_LT(resident_pages() - before, 200);  // a million pieces would be 15,000 pages
  }
}

/// A stream of pieces from one thread to the next, each marked by who allocates it and checked by who frees it.
TEST(RecordPool, APieceMayBeFreedByAnotherThread) {
  constexpr std::size_t slots = 256;
  std::vector<std::atomic<std::uint64_t*>> exchange(slots);
  const int n = scaled(200'000);
  std::atomic<bool> done{false};
  std::thread consumer([&] {
    for (bool last = false;;) {
      bool found = false;
      for (auto& slot : exchange) {
        if (std::uint64_t* p = slot.exchange(nullptr)) {
          found = true;
          ASSERT_EQ(p[0], ~p[1]);
          free_record(p, 100, 8);
        }
      }
      if (found) continue;
      if (last) return;
      last = done;
      std::this_thread::yield();
    }
  });
  const long before = resident_pages();
  for (int i = 0; i < n; ++i) {
    auto* p = static_cast<std::uint64_t*>(allocate_record(100, 8));
    p[0] = static_cast<std::uint64_t>(i);
    p[1] = ~p[0];
    std::uint64_t* nothing = nullptr;
    if (!exchange[static_cast<std::size_t>(i) % slots].compare_exchange_strong(nothing, p)) free_record(p, 100, 8);
  }
  done = true;
  consumer.join();
  if (can_measure) {
    EXPECT_LT(resident_pages() - before, 2'000);
  }
}

TEST(RecordPool, ThreadsThatOnlyFreeHandBackWhatTheyHadWhenTheyEnd) {
  const auto round = [] {
    std::vector<void*> pieces(63);  // less than what makes a thread give a batch away
    for (void*& p : pieces) p = allocate_record(512, 8);
    std::thread([&] {
      for (void* p : pieces) free_record(p, 512, 8);
    }).join();
  };
  for (int i = 0; i < 50; ++i) round();
  const long before = resident_pages();
  const int rounds = scaled(2000);
  for (int i = 0; i < rounds; ++i) round();
  if (can_measure) {
    EXPECT_LT(resident_pages() - before, 1'000);  // lost, it would be 15,000
  }
}

TEST(RecordPool, ThreadsThatOnlyAllocateHandBackWhatTheyDidNotUse) {
  const auto round = [] {
    void* p = nullptr;
    std::thread([&] { p = allocate_record(512, 8); }).join();
    free_record(p, 512, 8);
  };
  for (int i = 0; i < 50; ++i) round();
  const long before = resident_pages();
  for (int i = 0; i < scaled(2000); ++i) round();
  if (can_measure) {
    EXPECT_LT(resident_pages() - before, 1'000);
  }
}

/// Frees what it has, after the thread's cache has been handed back: it was made before that.
struct late_owner {
  ~late_owner() {
    for (void* p : pieces) free_record(p, 512, 8);
    free_record(allocate_record(512, 8), 512, 8);
  }
  std::vector<void*> pieces;
};

TEST(RecordPool, ThreadsWhoseLastDestructorsUseItHandBackEverything) {
  const auto round = [] {
    std::thread([] {
      static thread_local late_owner owner;
      owner.pieces.resize(63);
      for (void*& p : owner.pieces) p = allocate_record(512, 8);
    }).join();
  };
  for (int i = 0; i < 50; ++i) round();
  const long before = resident_pages();
  for (int i = 0; i < scaled(2000); ++i) round();
  if (can_measure) {
    EXPECT_LT(resident_pages() - before, 1'000);  // lost, it would be 15,000
  }
}

// However they were freed: the first to touch them again goes from one to the next.
TEST(RecordPool, BlocksComeBackInTheOrderOfTheirAddresses) {
  if (!can_measure) GTEST_SKIP() << "from the heap under a sanitizer";
  for (const std::size_t size : {64U, 128U, 160U, 352U, 512U}) {
    std::vector<char*> pieces(20'000);
    const auto allocate = [&] {
      for (char*& p : pieces) p = static_cast<char*>(allocate_record(size, 8));
    };
    allocate();
    std::shuffle(pieces.begin(), pieces.end(), std::mt19937(1));
    for (char* p : pieces) free_record(p, size, 8);
    allocate();
    std::size_t neighbours = 0;
    for (std::size_t i = 1; i < pieces.size(); ++i)
      if (pieces[i] == pieces[i - 1] + size) ++neighbours;
    EXPECT_GT(neighbours, pieces.size() * 9 / 10) << "of " << size << " bytes";
    for (char* p : pieces) free_record(p, size, 8);
  }
}

/// Threads that allocate, hand to each other and free pieces of several sizes; each piece knows what was written to it.
TEST(RecordPool, NoPieceIsGivenToTwo) {
  constexpr std::size_t sizes[] = {64, 128, 160, 352, 512};
  struct piece {
    std::uint64_t* at;
    std::size_t size;
    std::uint64_t mark;
  };
  std::mutex lock;
  std::vector<piece> shared;
  std::atomic<int> wrong{0};
  const auto mark_ends = [](const piece& p) {
    p.at[0] = p.mark;
    p.at[p.size / sizeof(std::uint64_t) - 1] = ~p.mark;
  };
  const auto end = [&](const piece& p) {
    if (p.at[0] != p.mark || p.at[p.size / sizeof(std::uint64_t) - 1] != ~p.mark) ++wrong;
    free_record(p.at, p.size, 8);
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<piece> mine;
      for (int i = 0; i < scaled(500); ++i) {
        for (auto n = random() % 300; n != 0; --n) {
          const std::size_t size = sizes[random() % std::size(sizes)];
          const auto mark = (std::uint64_t{random()} << 32) + random();
          mine.push_back({static_cast<std::uint64_t*>(allocate_record(size, 8)), size, mark});
          mark_ends(mine.back());
        }
        std::shuffle(mine.begin(), mine.end(), random);
        {
          const std::lock_guard locked(lock);
          mine.swap(shared);
        }
        for (auto n = random() % (mine.size() + 1); n != 0; --n) {
          end(mine.back());
          mine.pop_back();
        }
      }
      for (const piece& p : mine) end(p);
    });
  }
  for (std::thread& t : threads) t.join();
  for (const piece& p : shared) end(p);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
