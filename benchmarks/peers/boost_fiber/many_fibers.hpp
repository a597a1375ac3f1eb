// The rows that start many fibers: spawn_join, parked, skynet, fib, sleepers, idle.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "../../workloads/counts.hpp"
#include "../../workloads/measure.hpp"
#include "crew.hpp"

namespace peer {

using bench::check;
using bench::parked_result;
using bench::seconds;
using bench::sleepers_result;
using bench::stopwatch;
using bench::usage;

inline seconds spawn_join(int count) {
  const stopwatch time;
  wait_group done(count);
  for (int i = 0; i < count; ++i) go([&done] { done.done(); });
  done.wait();
  return time.elapsed();
}

inline parked_result parked(int count) {
  parked_result result{};
  const std::int64_t before = bench::resident_bytes();
  wait_group done(count);
  std::atomic<int> arrived{0};
  fibers::unbuffered_channel<char> never;

  const stopwatch create;
  for (int i = 0; i < count; ++i) {
    go([&done, &arrived, &never] {
      arrived.fetch_add(1, std::memory_order_relaxed);
      char nothing;
      never.pop(nothing);
      done.done();
    });
  }
  while (arrived.load(std::memory_order_relaxed) < count) boost::this_fiber::yield();
  result.create = create.elapsed();
  result.resident_bytes = static_cast<double>(bench::resident_bytes() - before) / count;

  const stopwatch wake;
  never.close();
  done.wait();
  result.wake = wake.elapsed();
  return result;
}

using sums = std::shared_ptr<fibers::unbuffered_channel<std::int64_t>>;

inline void skynet_node(const sums& up, std::int64_t first, std::int64_t leaves) {
  if (leaves == 1) {
    up->push(first);
    return;
  }
  const auto down = std::make_shared<fibers::unbuffered_channel<std::int64_t>>();
  const std::int64_t each = leaves / 10;
  for (std::int64_t i = 0; i < 10; ++i) go([down, child = first + i * each, each] { skynet_node(down, child, each); });
  std::int64_t sum = 0;
  for (int i = 0; i < 10; ++i) sum += down->value_pop();
  up->push(sum);
}

inline seconds skynet(std::int64_t leaves) {
  const stopwatch time;
  const auto root = std::make_shared<fibers::unbuffered_channel<std::int64_t>>();
  go([root, leaves] { skynet_node(root, 0, leaves); });
  const std::int64_t sum = root->value_pop();
  const seconds took = time.elapsed();
  check(sum == leaves * (leaves - 1) / 2, "skynet");
  return took;
}

inline int fib(int n) {
  if (n < 2) return n;
  auto a = fibers::async([n] { return fib(n - 1); });
  auto b = fibers::async([n] { return fib(n - 2); });
  return a.get() + b.get();
}

inline seconds fib_timed(int n, int expected) {
  const stopwatch time;
  const int result = fib(n);
  const seconds took = time.elapsed();
  check(result == expected, "fib");
  return took;
}

inline sleepers_result sleepers() {
  constexpr int count = bench::sleeping_fibers;
  const usage before = usage::now();
  const stopwatch time;
  wait_group done(count);
  for (int i = 0; i < count; ++i) {
    go([&done, d = bench::sleep_time(i)] {
      boost::this_fiber::sleep_for(d);
      done.done();
    });
  }
  done.wait();
  const seconds wall = time.elapsed();
  return {wall, (usage::now() - before).cpu};
}

inline usage idle() {
  constexpr int count = bench::idle_fibers;
  wait_group done(count);
  fibers::unbuffered_channel<char> never;
  for (int i = 0; i < count; ++i) {
    go([&done, &never] {
      char nothing;
      never.pop(nothing);
      done.done();
    });
  }
  const usage before = usage::now();
  boost::this_fiber::sleep_for(std::chrono::seconds(5));
  const usage used = usage::now() - before;
  never.close();
  done.wait();
  return used;
}

}  // namespace peer
