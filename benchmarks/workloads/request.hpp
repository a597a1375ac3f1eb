// A server at light load: eight clients, each with a request every millisecond, and eight fibers that take the
// requests from one channel and compute for 20 us. How long does a client wait for its answer?
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/sleep.hpp>
#include <coir/wait_group.hpp>

#include "latency.hpp"

namespace bench {

inline latency request() {
  constexpr int clients = 8;
  constexpr int servers = 8;
  constexpr std::size_t requests = 1000;  // of a client
  constexpr std::chrono::milliseconds pause(1);

  using answers = coir::chan<int>;
  struct question {
    int number;
    answers to;
  };
  auto questions = coir::make_chan<question>();
  coir::wait_group served;
  served.add(servers);
  for (int i = 0; i < servers; ++i) {
    coir::go([&served, questions] {
      while (auto q = questions.recv()) {
        compute(std::chrono::microseconds(20));
        q->to.send(q->number);
      }
      served.done();
    });
  }

  std::vector<samples> trips(clients, samples(requests));
  coir::wait_group ended;
  ended.add(clients);
  const usage before = usage::now();
  for (int c = 0; c < clients; ++c) {
    coir::go([&, c] {
      samples& own = trips[static_cast<std::size_t>(c)];
      auto mine = coir::make_chan<int>();
      coir::sleep_for(pause * c / clients);  // not all at once
      for (int n = 0; own.wants_more(); ++n) {
        coir::sleep_for(pause);
        const auto asked = steady::now();
        questions.send({n, mine});
        check(mine.recv() == n, "request");
        own.record(steady::now() - asked);
      }
      ended.done();
    });
  }
  ended.wait();
  const usage used = usage::now() - before;
  questions.close();
  served.wait();

  samples all(clients * requests);
  for (const samples& s : trips) all.append(s);
  return {all, used.cpu};
}

}  // namespace bench
