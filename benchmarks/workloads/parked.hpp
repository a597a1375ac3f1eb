// A million fibers blocked in a receive on one channel: how long until they are, what memory they hold, and how long
// until all have ended once the channel is closed. Cold is the honest way: run it once in a process.
//
// parked_async() is the same with stackless coroutines.
#pragma once

#include <atomic>

#include <coir/async.hpp>
#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/wait_group.hpp>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

namespace detail {

struct parking_place {
  coir::chan<void> never = coir::make_chan<void>();
  std::atomic<int> arrived{0};
  coir::wait_group done;

  void arrive() { arrived.fetch_add(1, std::memory_order_relaxed); }  // a count, read in parked_by; orders nothing
};

/// `start(place)` starts one that arrives, receives, and is done.
template <class Start>
parked_result parked_by(int count, Start start) {
  parked_result result{};
  const std::int64_t before = resident_bytes();
  parking_place place;

  const stopwatch create;
  place.done.add(count);
  for (int i = 0; i < count; ++i) start(place);
  while (place.arrived.load(std::memory_order_relaxed) < count) coir::yield();
  result.create = create.elapsed();
  result.resident_bytes = static_cast<double>(resident_bytes() - before) / count;

  const stopwatch wake;
  place.never.close();
  place.done.wait();
  result.wake = wake.elapsed();
  return result;
}

inline coir::async<void> park_coroutine(coir::recv_chan<void> never, parking_place& place) {
  place.arrive();
  co_await never.async_recv();
  place.done.done();
}

}  // namespace detail

inline parked_result parked(int fibers = parked_fibers) {
  return detail::parked_by(fibers, [](detail::parking_place& place) {
    coir::go([&place] {
      place.arrive();
      place.never.recv();
      place.done.done();
    });
  });
}

inline parked_result parked_async(int coroutines = parked_fibers) {
  return detail::parked_by(coroutines,
                           [](detail::parking_place& place) { coir::go(detail::park_coroutine(place.never, place)); });
}

}  // namespace bench
