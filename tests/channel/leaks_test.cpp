// What channels and selects must not hold on to: values, wait nodes, memory.
#include <malloc.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include <coir/chan.hpp>
#include <coir/select.hpp>

#include "coir_test.hpp"
#include "values.hpp"

namespace {

using namespace std::chrono_literals;
using channel_test::counted;
using coir::chan;
using coir::make_chan;
using coir::on_recv;
using coir::on_send;
using coir::on_timeout;
using coir::select;
using coir_test::until_blocked;

class ChannelLeaks : public coir_test::with_processors {};

std::size_t allocated() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// 100,000 rounds, after some to fill the caches, must leave the heap as it was but for a page or a few: a single wait
/// node, timer or callback kept for each round would be megabytes.
void expect_no_growth(const std::function<void(int)>& round) {
  if (coir_test::address_sanitizer || coir_test::thread_sanitizer) {
    for (int i = 0; i < coir_test::scaled(100'000); ++i) round(i);
    return;  // mallinfo2 knows nothing of the sanitizers' heaps; AddressSanitizer looks for leaks at exit
  }
  for (int i = 0; i < 5'000; ++i) round(i);
  const std::size_t before = allocated();
  for (int i = 0; i < 100'000; ++i) round(i);
  const std::size_t after = allocated();
  EXPECT_LT(after, before + 256 * 1024);
}

TEST_P(ChannelLeaks, AHundredThousandSelectsThatProceedAtOnceGrowNothing) {
  run([] {
    const chan<int> a = make_chan<int>(1), b = make_chan<int>(1);
    expect_no_growth([&](int i) {
      a.send(i);
      select(on_recv(a), on_recv(b));
      select(on_send(a, i), on_recv(b), coir::otherwise());
      a.recv();
    });
  });
}

TEST_P(ChannelLeaks, AHundredThousandSelectsThatBlockGrowNothing) {
  run([] {
    const chan<int> a = make_chan<int>(), b = make_chan<int>(), never = make_chan<int>(), nor_this = make_chan<int>();
    coir::task<void> partner = coir::spawn([&] {
      for (int i : a) select(on_send(b, i), on_recv(nor_this), on_recv(nor_this));
    });
    expect_no_growth([&](int i) {
      select(on_send(a, i), on_recv(never));
      std::optional<int> v;
      select(on_recv(never), on_recv(b, v), on_recv(never));
      EXPECT_EQ(v, i);
    });
    a.close();
    partner.get();
  });
}

TEST_P(ChannelLeaks, AHundredThousandSelectsWithLongTimeoutsGrowNothing) {
  run([] {
    const chan<int> a = make_chan<int>(), b = make_chan<int>();
    coir::task<void> echo = coir::spawn([&] {
      for (int i : a) b.send(i);
    });
    expect_no_growth([&](int i) {
      a.send(i);
      EXPECT_EQ(select(on_recv(b), on_timeout(10h)), 0U);
    });
    a.close();
    echo.get();
  });
}

TEST_P(ChannelLeaks, AHundredThousandSelectsOnOneStopTokenGrowNothing) {
  run([] {
    std::stop_source source;
    const chan<int> a = make_chan<int>(), b = make_chan<int>();
    coir::task<void> echo = coir::spawn([&] {
      for (int i : a) b.send(i);
    });
    expect_no_growth([&](int i) {
      a.send(i);
      EXPECT_EQ(select(on_recv(b), coir::on_stop(source.get_token())), 0U);
    });
    a.close();
    echo.get();
    source.request_stop();
  });
}

TEST_P(ChannelLeaks, AHundredThousandWaitsOfOneSetGrowNothing) {
  run([] {
    const chan<int> a = make_chan<int>(1), b = make_chan<int>();
    coir::select_set set;
    set.send(a, 1);
    set.recv(a);
    set.recv(b);
    expect_no_growth([&](int) { set.wait(); });
  });
}

TEST_P(ChannelLeaks, WaitsThatTimeOutGrowNothing) {
  run([] {
    const chan<int> ch = make_chan<int>();
    int rounds = 0;
    expect_no_growth([&](int) {
      // Every round tries; one in fifty really goes to sleep, or the test would take long.
      const auto d = ++rounds % 50 == 0 ? 1us : 0us;
      int value = 0;
      EXPECT_EQ(ch.recv_for(value, d), coir::recv_status::timed_out);
      EXPECT_EQ(select(on_recv(ch), on_send(ch, 1), on_timeout(d)), 2U);
    });
  });
}

TEST_P(ChannelLeaks, ChannelsMadeAndDroppedGrowNothing) {
  run([] {
    expect_no_growth([](int i) {
      const chan<counted> ch = make_chan<counted>(3);
      ch.send(counted{i});
      ch.send(counted{i});
      if (i % 2 == 0) ch.close();
    });
  });
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(ChannelLeaks, ValuesOfWaitersThatAreCancelledTimedOutOrRefusedAreDestroyedOnce) {
  run([] {
    for (int round = 0; round < coir_test::scaled(300); ++round) {
      const chan<counted> ch = make_chan<counted>(1), other = make_chan<counted>();
      ch.send(counted{0});
      std::vector<coir::task<void>> senders;
      for (int i = 0; i < 12; ++i) {
        senders.push_back(coir::spawn([ch, other, i] {
          counted mine{i};
          switch (i % 3) {
            case 0:
              ch.send(std::move(mine));
              break;
            case 1:
              ch.send_for(std::move(mine), 10h);
              break;
            default:
              select(on_recv(other), on_send(ch, std::move(mine)));
              break;
          }
        }));
        until_blocked(senders.back());
      }
      EXPECT_EQ(counted::alive(), 13);
      for (std::size_t i = 0; i < 6; ++i) {
        senders[i].request_stop();
        EXPECT_THROW(senders[i].get(), coir::task_cancelled);
      }
      EXPECT_EQ(counted::alive(), 7);
      EXPECT_EQ(ch.recv()->value(), 0);
      EXPECT_EQ(ch.recv()->value(), 6);
      ch.close();
      for (std::size_t i = 6; i < 8; ++i) senders[i].get();
      for (std::size_t i = 8; i < senders.size(); ++i) EXPECT_THROW(senders[i].get(), coir::closed_channel);
      EXPECT_EQ(counted::alive(), 1);
    }
  });
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(ChannelLeaks, ADeadlockedProgramDestroysItsValues) {
  EXPECT_THROW(run([] {
                 const chan<counted> ch = make_chan<counted>(2);
                 ch.send(counted{1});
                 ch.send(counted{2});
                 coir::go([ch] { ch.send(counted{3}); });
                 ch.send(counted{4});
               }),
               coir::deadlock);
  EXPECT_EQ(counted::alive(), 0);
}

INSTANTIATE_TEST_SUITE_P(Processors, ChannelLeaks, coir_test::processors, coir_test::processors_name);

}  // namespace
