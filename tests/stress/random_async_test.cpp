// Coroutines, fibers, callbacks, selects and threads over the same few channels, at random, with cancellations: nothing
// is lost, nothing doubled, nothing left behind.
#include <coir/async.hpp>
#include <coir/chan.hpp>
#include <coir/mutex.hpp>
#include <coir/select.hpp>

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "coir_test.hpp"

namespace {

using coir::async;
using coir::chan;
using coir_test::scaled;

class RandomAsync : public coir_test::with_processors {};

/// A value that knows how many of it there are.
class token {
 public:
  explicit token(std::atomic<int>& alive) : alive_(&alive) { ++*alive_; }
  token(token&& other) noexcept : alive_(std::exchange(other.alive_, nullptr)) {}
  token& operator=(token&& other) noexcept {
    std::swap(alive_, other.alive_);
    return *this;
  }
  ~token() {
    if (alive_ != nullptr) --*alive_;
  }

 private:
  std::atomic<int>* alive_;
};

struct world {
  std::vector<chan<token>> channels;
  coir::mutex lock;
  int guarded = 0;
  std::atomic<int> alive{0}, sent{0}, received{0}, locked{0};

  const chan<token>& some(std::mt19937& random) { return channels[random() % channels.size()]; }
};

async<void> child(world& w, std::mt19937& random) {
  if (random() % 2 == 0) {
    co_await w.lock.async_lock();
    const std::unique_lock held(w.lock, std::adopt_lock);
    ++w.guarded;
    ++w.locked;
  } else {
    co_await coir::async_sleep(std::chrono::microseconds(random() % 50));
  }
}

async<void> coroutine(world& w, unsigned seed, int steps) {
  std::mt19937 random(seed);
  for (int i = 0; i < steps; ++i) {
    const chan<token> ch = w.some(random);
    switch (random() % 10) {
      case 0:
      case 1:
      case 2:
        co_await ch.async_send(token(w.alive));
        ++w.sent;
        break;
      case 3:
      case 4:
      case 5:
        if (co_await ch.async_recv()) ++w.received;
        break;
      case 6:
        co_await child(w, random);
        break;
      case 7:
      case 8: {
        const chan<token> a = w.some(random), b = w.some(random);
        std::stop_source stop;
        if (random() % 4 == 0) coir::go([stop]() mutable { stop.request_stop(); });
        co_await coir::async_select(
            coir::on_recv(ch, [&w](std::optional<token> v) { w.received += v ? 1 : 0; }),
            coir::on_send(a, token(w.alive), [&w] { ++w.sent; }), coir::on_send(b, token(w.alive), [&w] { ++w.sent; }),
            coir::on_timeout(std::chrono::microseconds(random() % 100)), coir::on_stop(stop.get_token()));
        break;
      }
      default:
        if (random() % 2 == 0)
          ch.async_recv([&w](std::optional<token> v) { w.received += v ? 1 : 0; });
        else
          ch.async_send(token(w.alive), [&w](coir::send_status s) { w.sent += s == coir::send_status::done ? 1 : 0; });
    }
  }
}

void fiber(world& w, unsigned seed, int steps) {
  std::mt19937 random(seed);
  for (int i = 0; i < steps; ++i) {
    const chan<token> a = w.some(random), b = w.some(random);
    switch (random() % 5) {
      case 0:
        a.send(token(w.alive));
        ++w.sent;
        break;
      case 1:
        if (a.recv()) ++w.received;
        break;
      case 2:
        coir::select(coir::on_recv(a, [&](std::optional<token> v) { w.received += v ? 1 : 0; }),
                     coir::on_send(b, token(w.alive), [&] { ++w.sent; }));
        break;
      case 3: {
        const std::lock_guard held(w.lock);
        ++w.guarded;
        ++w.locked;
        break;
      }
      default:
        coir::yield();
    }
  }
}

TEST_P(RandomAsync, NothingIsLostDoubledOrLeftBehind) {
  for (int round = 0; round < scaled(40); ++round) {
    world w;
    std::mt19937 random(static_cast<unsigned>(round));
    for (int i = 0; i < 3; ++i) w.channels.push_back(coir::make_chan<token>(random() % 4));
    const int steps = 100;
    {
      coir::runtime rt{opts()};
      std::vector<coir::task<void>> all;
      for (int i = 0; i < 10; ++i) {
        all.push_back(rt.spawn(coroutine(w, static_cast<unsigned>(random()), steps)));
        all.push_back(rt.spawn([&w, seed = static_cast<unsigned>(random())] { fiber(w, seed, steps); }));
      }
      // Somebody on a plain thread keeps both sides going, until those who can have ended.
      std::atomic<bool> over{false};
      std::thread outside([&] {
        std::mt19937 mine(7);
        while (!over) {
          const chan<token>& ch = w.some(mine);
          token spare(w.alive);
          if (mine() % 2 == 0) {
            if (ch.try_send(std::move(spare)) == coir::send_status::done) ++w.sent;
          } else if (ch.try_recv(spare) == coir::recv_status::done) {
            ++w.received;
          }
          if (mine() % 16 == 0) std::this_thread::yield();
        }
      });
      for (std::size_t i = 0; i < all.size(); i += 3) all[i].request_stop();
      for (auto& t : all) {
        try {
          t.get();
        } catch (const coir::task_cancelled&) {
        }
      }
      over = true;
      outside.join();
      rt.cancel();  // the callbacks that are left
      rt.wait();
    }
    int buffered = 0;
    for (const auto& ch : w.channels) buffered += static_cast<int>(ch.len());
    EXPECT_EQ(w.sent, w.received + buffered);
    EXPECT_EQ(w.alive, buffered);
    EXPECT_EQ(w.guarded, w.locked);
    EXPECT_TRUE(w.lock.try_lock());
    w.channels.clear();
    EXPECT_EQ(w.alive, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Processors, RandomAsync, coir_test::processors, coir_test::processors_name);

}  // namespace
