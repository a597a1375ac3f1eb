// The same as parked.hpp with stackless coroutines: a million that await a receive on one channel.
#pragma once

#include <atomic>

#include <coir/async.hpp>
#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/wait_group.hpp>

#include "measure.hpp"
#include "parked.hpp"

namespace bench {

namespace detail {

inline coir::async<void> park_once(coir::recv_chan<void> never, std::atomic<int>& arrived, coir::wait_group& done) {
  arrived.fetch_add(1, std::memory_order_relaxed);  // a count, read by the loop below; orders nothing
  co_await never.async_recv();
  done.done();
}

}  // namespace detail

inline parked_result parked_async(int coroutines = parked_fibers) {
  parked_result result{};
  const std::int64_t before = resident_bytes();
  coir::wait_group done;
  std::atomic<int> arrived{0};
  auto never = coir::make_chan<void>();

  const stopwatch create;
  done.add(coroutines);
  for (int i = 0; i < coroutines; ++i) coir::go(detail::park_once(never, arrived, done));
  while (arrived.load(std::memory_order_relaxed) < coroutines) coir::yield();
  result.create = create.elapsed();
  result.resident_bytes = static_cast<double>(resident_bytes() - before) / coroutines;

  const stopwatch wake;
  never.close();
  done.wait();
  result.wake = wake.elapsed();
  return result;
}

}  // namespace bench
