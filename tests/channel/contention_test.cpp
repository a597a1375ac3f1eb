// Many senders and receivers on one channel: nothing is lost or duplicated, and no sender's values overtake each other.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include <coir/chan.hpp>
#include <coir/select.hpp>

#include "coir_test.hpp"

namespace {

using coir::chan;
using coir::make_chan;

class ChannelContention : public coir_test::with_processors {};

constexpr std::size_t senders = 4;
constexpr std::size_t receivers = 4;

struct message {
  std::uint32_t sender;
  std::uint32_t number;
};

/// What the receivers found. Every value has a byte of its own, set by whoever received it; two that receive the same
/// one are a data race as well.
class audit {
 public:
  explicit audit(std::uint32_t per_sender) : seen_(senders, std::vector<std::uint8_t>(per_sender, 0)) {}

  /// One receiver's part: takes messages from `next` until it has no more.
  void receive(const std::function<std::optional<message>()>& next) {
    std::vector<std::int64_t> latest(senders, -1);
    while (const std::optional<message> m = next()) {
      std::uint8_t& seen = seen_[m->sender][m->number];
      EXPECT_EQ(seen, 0) << "received twice";
      seen = 1;
      EXPECT_LT(latest[m->sender], m->number) << "overtaken";
      latest[m->sender] = m->number;
    }
  }

  void expect_complete() const {
    std::size_t lost = 0;
    for (const auto& of_sender : seen_)
      for (const std::uint8_t seen : of_sender) lost += seen == 0 ? 1U : 0U;
    EXPECT_EQ(lost, 0U);
  }

 private:
  std::vector<std::vector<std::uint8_t>> seen_;
};

/// `threads` of the senders and as many of the receivers are plain threads.
void contend(std::size_t capacity, std::uint32_t values, std::size_t threads, bool by_select) {
  const auto per_sender = static_cast<std::uint32_t>(values / senders);
  const chan<message> ch = make_chan<message>(capacity);
  const chan<message> never;
  audit found{per_sender};
  auto send_all = [&](std::uint32_t s) {
    for (std::uint32_t i = 0; i < per_sender; ++i) {
      if (by_select)
        coir::select(coir::on_send(ch, message{s, i}), coir::on_recv(never));
      else
        ch.send({s, i});
    }
  };
  auto receive_all = [&] {
    found.receive([&]() -> std::optional<message> {
      if (!by_select) return ch.recv();
      std::optional<message> m;
      coir::select(coir::on_recv(never), coir::on_recv(ch, m));
      return m;
    });
  };
  std::vector<std::thread> as_threads;
  std::vector<coir::task<void>> sending, receiving;
  for (std::size_t i = 0; i < receivers; ++i) {
    if (i < threads)
      as_threads.emplace_back(receive_all);
    else
      receiving.push_back(coir::spawn(receive_all));
  }
  // A thread tells by a channel that it has sent all: to join it here would block this fiber's thread meanwhile.
  const chan<void> sent = make_chan<void>(senders);
  for (std::uint32_t i = 0; i < senders; ++i) {
    auto body = [&, i] {
      send_all(i);
      sent.send();
    };
    if (i < threads)
      as_threads.emplace_back(body);
    else
      sending.push_back(coir::spawn(body));
  }
  for (std::size_t i = 0; i < senders; ++i) sent.recv();
  for (auto& t : sending) t.get();
  ch.close();
  for (auto& t : receiving) t.get();
  for (std::thread& t : as_threads) t.join();
  found.expect_complete();
  EXPECT_EQ(ch.len(), 0U);
}

TEST_P(ChannelContention, FourByFourOverTenMillionValuesLosesAndDuplicatesNothing) {
  run([] { contend(128, coir_test::scaled(10'000'000U), 0, false); });
}

TEST_P(ChannelContention, FourByFourWithoutABufferLosesAndDuplicatesNothing) {
  run([] { contend(0, coir_test::scaled(1'000'000U), 0, false); });
}

TEST_P(ChannelContention, FourByFourWithABufferOfOneLosesAndDuplicatesNothing) {
  run([] { contend(1, coir_test::scaled(1'000'000U), 0, false); });
}

TEST_P(ChannelContention, FourByFourBySelectLosesAndDuplicatesNothing) {
  run([] {
    contend(0, coir_test::scaled(400'000U), 0, true);
    contend(3, coir_test::scaled(400'000U), 0, true);
  });
}

TEST_P(ChannelContention, HalfOfThemThreadsLosesAndDuplicatesNothing) {
  run([] {
    contend(0, coir_test::scaled(40'000U), 2, false);
    contend(16, coir_test::scaled(100'000U), 2, false);
    contend(1, coir_test::scaled(40'000U), 2, true);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, ChannelContention, coir_test::processors, coir_test::processors_name);

}  // namespace
