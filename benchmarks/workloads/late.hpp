// How late does work begin that became due: a sleeper and a fiber from another thread while every processor computes,
// and a receiver whose sender computes on while another processor is idle?
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/sleep.hpp>
#include <coir/wait_group.hpp>

#include "latency.hpp"

namespace bench {

/// While one lives, four fibers a processor compute for 5 ms at a time and yield.
class load {
 public:
  load() {
    const int fibers = 4 * static_cast<int>(coir::runtime::current().processors());
    ended_.add(fibers);
    for (int i = 0; i < fibers; ++i) {
      coir::go([this] {
        while (!stop_.load(std::memory_order_relaxed)) {
          compute(std::chrono::milliseconds(5));
          coir::yield();
        }
        ended_.done();
      });
    }
  }

  ~load() {
    stop_.store(true, std::memory_order_relaxed);  // nothing is read because of it
    ended_.wait();
  }

  load(const load&) = delete;
  load& operator=(const load&) = delete;

 private:
  std::atomic<bool> stop_{false};
  coir::wait_group ended_;
};

inline latency late_sleep() {
  const load others;
  samples late;
  while (late.wants_more()) {
    constexpr std::chrono::milliseconds wanted(1);
    const auto start = steady::now();
    coir::sleep_for(wanted);
    late.record(steady::now() - start - wanted);
  }
  return {late};
}

inline latency late_injected() {
  const load others;
  coir::runtime& here = coir::runtime::current();
  samples late;
  coir::wait_group ended;
  ended.add(1);
  auto ran = coir::make_chan<microseconds>(1);
  std::thread foreign([&] {
    for (int i = 0; late.wants_more(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2 + i % 4));  // another moment of the slices each time
      here.go([ran, asked = steady::now()] { ran.send(steady::now() - asked); });
      late.record(*ran.recv());
    }
    ended.done();
  });
  ended.wait();
  foreign.join();
  return {late};
}

inline latency late_handoff() {
  samples late;
  coir::wait_group ended;
  ended.add(1);
  auto times = coir::make_chan<steady::time_point>();
  coir::go([&, times] {
    while (auto sent = times.recv()) late.record(steady::now() - *sent);
    ended.done();
  });
  const usage before = usage::now();
  for (std::size_t i = 0; i < latency_samples; ++i) {
    coir::sleep_for(std::chrono::milliseconds(2));  // the receiver waits again, and the processors are idle
    times.send(steady::now());
    compute(std::chrono::milliseconds(3));
  }
  const usage used = usage::now() - before;
  times.close();
  ended.wait();
  return {late, used.cpu};
}

}  // namespace bench
