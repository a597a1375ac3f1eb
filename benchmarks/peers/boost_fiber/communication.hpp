// The rows in which fibers talk: yield, pingpong, streams, sieve, ring. Boost.Fiber has no select, so the
// sieve's generator is stopped by closing its channel. Its buffered channel wants a power of two and holds one value
// fewer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "../../workloads/measure.hpp"
#include "crew.hpp"

namespace peer {

using bench::check;
using bench::seconds;
using bench::stopwatch;

using ints = fibers::unbuffered_channel<int>;

inline seconds yield_in_turn(int count, int yields) {
  const stopwatch time;
  wait_group done(count);
  for (int i = 0; i < count; ++i) {
    go([&done, each = yields / count] {
      for (int n = 0; n < each; ++n) boost::this_fiber::yield();
      done.done();
    });
  }
  done.wait();
  return time.elapsed();
}

inline seconds ping_pong(int round_trips) {
  ints ping;
  ints pong;
  wait_group done(1);
  go([&ping, &pong, &done] {
    for (int v : ping) pong.push(v + 1);
    done.done();
  });
  const stopwatch time;
  int v = 0;
  for (int i = 0; i < round_trips; ++i) {
    ping.push(v);
    v = pong.value_pop();
  }
  const seconds took = time.elapsed();
  ping.close();
  done.wait();
  check(v == round_trips, "pingpong");
  return took;
}

template <class Channel>
seconds stream(Channel& ch, int pairs, int values) {
  const stopwatch time;
  std::atomic<std::int64_t> sum{0};
  wait_group producers(pairs);
  wait_group consumers(pairs);
  for (int p = 0; p < pairs; ++p) {
    go([&ch, &producers, each = values / pairs] {
      for (int i = 0; i < each; ++i) ch.push(i);
      producers.done();
    });
    go([&ch, &sum, &consumers] {
      std::int64_t own = 0;
      for (int v : ch) own += v;
      sum.fetch_add(own, std::memory_order_relaxed);
      consumers.done();
    });
  }
  producers.wait();
  ch.close();
  consumers.wait();
  const seconds took = time.elapsed();
  const std::int64_t each = values / pairs;
  check(sum.load() == pairs * (each * (each - 1) / 2), "stream");
  return took;
}

inline seconds stream_buffered(int pairs, int values) {
  fibers::buffered_channel<int> ch(128);
  return stream(ch, pairs, values);
}

inline seconds stream_unbuffered(int pairs, int values) {
  ints ch;
  return stream(ch, pairs, values);
}

inline seconds sieve(int primes, int last_prime) {
  const stopwatch time;
  auto in = std::make_shared<ints>();
  auto generated = in;
  wait_group filters(primes);
  go([out = in, &filters] {
    for (int i = 2; out->push(i) == fibers::channel_op_status::success; ++i) {
    }
    filters.done();
  });
  int prime = 0;
  for (int n = 1;; ++n) {
    prime = in->value_pop();
    if (n == primes) break;
    auto out = std::make_shared<ints>();
    go([in, out, prime, &filters] {
      for (int i : *in)
        if (i % prime != 0) out->push(i);
      out->close();
      filters.done();
    });
    in = out;
  }
  const seconds took = time.elapsed();
  check(prime == last_prime, "sieve");
  generated->close();
  int drained;
  while (in->pop(drained) == fibers::channel_op_status::success) {
  }
  filters.wait();
  return took;
}

inline seconds ring(int count, int hops) {
  std::vector<std::unique_ptr<ints>> channels;
  for (int i = 0; i < count; ++i) channels.push_back(std::make_unique<ints>());
  ints finished;
  wait_group done(count);
  for (std::size_t i = 0; i < channels.size(); ++i) {
    go([&in = *channels[i], &out = *channels[(i + 1) % channels.size()], &finished, &done] {
      for (int left : in) {
        if (left == 0)
          finished.push(left);
        else
          out.push(left - 1);
      }
      done.done();
    });
  }
  const stopwatch time;
  channels[0]->push(hops);
  finished.value_pop();
  const seconds took = time.elapsed();
  for (auto& ch : channels) ch->close();
  done.wait();
  return took;
}

}  // namespace peer
