// Values through channels: as many come out as went in, and the same ones.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include <coir/coir.hpp>

#include "episodes.hpp"

namespace stress {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

struct belt {
  explicit belt(std::size_t capacity, int p) : ch(coir::make_chan<std::uint64_t>(capacity)), producers(p) {}

  coir::chan<std::uint64_t> ch;
  std::atomic<int> producers;
  std::atomic<std::uint64_t> sent{0}, received{0};  // sums

  void producer_ends() {
    if (--producers == 0) ch.close();
  }
  void check() const {
    EXPECT_EQ(sent, received);
    EXPECT_EQ(ch.len(), 0U);
  }
};

struct leaves {
  belt& from;
  ~leaves() { from.producer_ends(); }
};

void send_somehow(choices& random, const coir::chan<std::uint64_t>& ch, std::uint64_t value) {
  switch (random.draw(5)) {
    case 0:
      while (!ch.send_for(value, random.draw_time(60))) {
      }
      return;
    case 1:
      while (coir::select(coir::on_timeout(random.draw_time(60)), coir::on_send(ch, value)) == 0) {
      }
      return;
    case 2: {
      coir::select_set set;
      set.recv(coir::chan<int>());
      const std::size_t sends = set.send(ch, value);
      set.timeout(1us + random.draw_time(60));  // with none it would never look whether it is cancelled
      while (set.wait() != sends) {
      }
      return;
    }
    case 3:
      for (int tries = 0; tries < 3; ++tries) {  // for ever it could miss one who does the same
        if (ch.try_send(value) == coir::send_status::done) return;
        dawdle(random);
      }
      break;
  }
  ch.send(value);
}

/// False: closed and drained.
bool receive_somehow(choices& random, const coir::chan<std::uint64_t>& ch, std::uint64_t& value) {
  std::optional<std::uint64_t> got;
  switch (random.draw(5)) {
    case 0:
      for (;;) {
        const coir::recv_status status = ch.recv_for(value, random.draw_time(60));
        if (status != coir::recv_status::timed_out) return status == coir::recv_status::done;
      }
    case 1:
      while (coir::select(coir::on_timeout(random.draw_time(60)), coir::on_recv(ch, got)) == 0) {
      }
      break;
    case 2:
      // Twice the same channel: either may be taken.
      coir::select(coir::on_recv(ch, got), coir::on_recv(coir::chan<int>()), coir::on_recv(ch, got));
      break;
    case 3:
      if (coir::select(coir::on_recv(ch, got), coir::otherwise()) == 0) break;
      dawdle(random);
      got = ch.recv();
      break;
    default:
      got = ch.recv();
  }
  value = got.value_or(0);
  return got.has_value();
}

}  // namespace

void pipeline(place& p) {
  belt b(p.random.draw(5), 1 + static_cast<int>(p.random.draw(4)));
  crew all(p);
  for (int left = b.producers; left > 0; --left)
    all.start([&b](place& here) {
      const leaves at_end{b};
      for (std::uint64_t n = here.random.draw(30); n > 0; --n) {
        if (here.random.draw(40) == 0) play(here);
        const std::uint64_t value = here.random.draw(1'000'000);
        send_somehow(here.random, b.ch, value);
        b.sent += value;
      }
    });
  for (std::uint64_t left = 1 + p.random.draw(4); left > 0; --left)
    all.start([&b](place& here) {
      for (std::uint64_t value = 0; receive_somehow(here.random, b.ch, value); b.received += value) {
      }
    });
  if (all.end()) b.check();
}

// Everybody is ready to send and to receive, on both channels, and to hear the end: whoever comes finds a partner.
void crossed_selects(place& p) {
  struct {
    coir::chan<int> a = coir::make_chan<int>(0), b = coir::make_chan<int>(0);
    coir::chan<void> over = coir::make_chan<void>();
    std::atomic<int> sent{0}, received{0};
  } w;
  const int enough = 5 + static_cast<int>(p.random.draw(60));
  struct closes {
    coir::chan<void> over;
    ~closes() { over.close(); }
  };
  crew all(p);
  all.start([&w, enough](place& here) {
    const closes at_end{w.over};
    while (w.received < enough) dawdle(here.random);
  });
  for (std::uint64_t left = 2 + p.random.draw(5); left > 0; --left)
    all.start([&w](place& here) {
      for (;;) {
        const std::size_t fired = here.random.draw(2) == 0
                                      ? coir::select(coir::on_recv(w.over), coir::on_send(w.a, 1), coir::on_recv(w.a),
                                                     coir::on_send(w.b, 1), coir::on_recv(w.b))
                                      : coir::select(coir::on_recv(w.over), coir::on_send(w.b, 1), coir::on_recv(w.b),
                                                     coir::on_send(w.a, 1), coir::on_recv(w.a));
        if (fired == 0) return;
        ++(fired % 2 == 1 ? w.sent : w.received);
      }
    });
  EXPECT_TRUE(!all.end() || w.sent == w.received);
}

void coroutine_pipeline(place& p) {
  belt b(p.random.draw(5), 2 + static_cast<int>(p.random.draw(3)));
  struct {
    coir::mutex lock;
    int guarded = 0;
    std::atomic<int> locked{0};
  } w;
  crew all(p);
  for (int left = b.producers; left > 0; --left)
    all.start_coroutine([&b, &w](choices c) -> coir::async<void> {
      const leaves at_end{b};
      for (std::uint64_t n = c.draw(30); n > 0; --n) {
        const std::uint64_t value = c.draw(1'000'000);
        co_await b.ch.async_send(value);
        b.sent += value;
        if (c.draw(5) == 0) {
          co_await w.lock.async_lock();
          const std::unique_lock held(w.lock, std::adopt_lock);
          ++w.guarded;
          ++w.locked;
          if (c.draw(3) == 0) co_await coir::async_sleep(c.draw_time(40));
        }
      }
    });
  for (std::uint64_t left = 1 + p.random.draw(3); left > 0; --left)
    all.start_coroutine([&b](choices c) -> coir::async<void> {
      while (const std::optional<std::uint64_t> value = co_await b.ch.async_recv()) {
        b.received += *value;
        if (c.draw(8) == 0) {
          coir::task<std::uint64_t> t = coir::spawn([v = *value] { return v; });
          const std::uint64_t same = co_await t;
          EXPECT_EQ(same, *value);
        }
      }
    });
  all.start([&b, &w](place& here) {
    for (std::uint64_t value = 0; receive_somehow(here.random, b.ch, value); b.received += value) {
      const std::scoped_lock held(w.lock);
      ++w.guarded;
      ++w.locked;
    }
  });
  if (all.end()) b.check();
  EXPECT_EQ(w.guarded, w.locked);
}

// Timers that are set, stopped and read by several: no tick comes early, or after a stop that prevented it.
void ticks(place& p) {
  const auto calls = std::make_shared<std::atomic<int>>(0);  // a call that has begun goes on if this is unwound
  int prevented = 0;
  const int made = 1 + static_cast<int>(p.random.draw(4));
  crew all(p);
  for (int i = 0; i < made; ++i)
    all.start([](place& here) {
      const auto d = here.random.draw_time(300);
      const auto begin = clock::now();
      coir::timer t(d);
      dawdle(here.random);
      if (here.random.draw(2) == 0) {
        if (t.stop()) {
          EXPECT_EQ(t.c().len(), 0U);
          t.reset(d);
        } else {
          EXPECT_GE(clock::now() - begin, d);
          return;
        }
      }
      const auto at = t.c().recv();
      EXPECT_TRUE(at && *at - begin >= d);
      EXPECT_FALSE(t.stop());
    });
  all.start([](place& here) {
    const auto d = 20us + here.random.draw_time(200);
    const auto begin = clock::now();
    coir::ticker t(d);
    for (int n = 1; n <= 3; ++n) {
      const auto at = t.c().recv();
      EXPECT_TRUE(at && *at - begin >= n * d);
    }
  });
  // after_func() wants a fiber.
  for (int i = 0; i < made; ++i) {
    const auto d = p.random.draw_time(200);
    coir::timer t = coir::after_func(d, [calls] { ++*calls; });
    dawdle(p.random);
    if (t.stop())
      ++prevented;
    else  // it has been called, or is about to be
      while (*calls + prevented <= i) coir::yield();
  }
  EXPECT_EQ(*calls + prevented, made);
  all.end();
}

}  // namespace stress
