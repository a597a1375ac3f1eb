// A direct operation, a select of one case, a select among cases that are never ready, and a select_set: in every state
// of a channel they proceed, block, throw and time out alike. And ten fibers that mix them all get through.
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <coir/chan.hpp>
#include <coir/select.hpp>

#include "coir_test.hpp"

namespace {

using namespace std::chrono_literals;
using coir::chan;
using coir::make_chan;
using coir::on_recv;
using coir::on_send;
using coir::on_timeout;
using coir::otherwise;
using coir::recv_status;
using coir::select;
using coir::select_set;
using coir::send_status;
using coir_test::until_blocked;

class SelectAgreement : public coir_test::with_processors {};

/// What one operation came to: "sent", "received 5", "closed", "would block", "timed out", "threw ...".
using result = std::string;
using operation = std::function<result(const chan<int>&)>;

result describe(const std::optional<int>& v) { return v ? "received " + std::to_string(*v) : "closed"; }

result guarded(const std::function<result()>& f) {
  try {
    return f();
  } catch (const coir::closed_channel& e) {
    return std::string("threw ") + e.what();
  } catch (const coir::cancelled&) {
    return "cancelled";
  }
}

const std::vector<operation>& blocking_receives() {
  static const std::vector<operation> all{
      [](const chan<int>& ch) { return describe(ch.recv()); },
      [](const chan<int>& ch) {
        std::optional<int> v;
        select(on_recv(ch, v));
        return describe(v);
      },
      [](const chan<int>& ch) {
        std::optional<int> v;
        select(on_recv(chan<int>{}), on_recv(ch, v), on_send(chan<int>{}, 1));
        return describe(v);
      },
      [](const chan<int>& ch) {
        std::optional<int> v;
        select_set set;
        set.recv(ch, [&](std::optional<int> got) { v = got; });
        set.wait();
        return describe(v);
      },
      [](const chan<int>& ch) {
        int v = 0;
        return ch.recv_for(v, 10h) == recv_status::done ? describe(v) : result("closed");
      },
      [](const chan<int>& ch) {
        for (int v : ch) return describe(v);
        return result("closed");
      },
  };
  return all;
}

const std::vector<operation>& blocking_sends() {
  static const std::vector<operation> all{
      [](const chan<int>& ch) {
        ch.send(9);
        return result("sent");
      },
      [](const chan<int>& ch) {
        select(on_send(ch, 9));
        return result("sent");
      },
      [](const chan<int>& ch) {
        select(on_recv(chan<int>{}), on_send(chan<int>{}, 1), on_send(ch, 9));
        return result("sent");
      },
      [](const chan<int>& ch) {
        select_set set;
        set.send(ch, 9);
        set.wait();
        return result("sent");
      },
      [](const chan<int>& ch) {
        int v = 9;
        return ch.send_for(v, 10h) ? result("sent") : result("timed out");
      },
  };
  return all;
}

const std::vector<operation>& trying_receives() {
  static const std::vector<operation> all{
      [](const chan<int>& ch) {
        int v = 0;
        const recv_status status = ch.try_recv(v);
        return status == recv_status::done ? describe(v) : status == recv_status::closed ? "closed" : "would block";
      },
      [](const chan<int>& ch) {
        std::optional<int> v;
        return select(on_recv(ch, v), otherwise()) == 0 ? describe(v) : "would block";
      },
      [](const chan<int>& ch) {
        std::optional<int> v;
        return select(on_recv(chan<int>{}), otherwise(), on_recv(ch, v)) == 2 ? describe(v) : "would block";
      },
      [](const chan<int>& ch) {
        std::optional<int> v;
        select_set set;
        set.otherwise();
        set.recv(ch, [&](std::optional<int> got) { v = got; });
        return set.wait() == 1 ? describe(v) : "would block";
      },
      [](const chan<int>& ch) {
        int v = 0;
        const recv_status status = ch.recv_for(v, 0s);
        return status == recv_status::done ? describe(v) : status == recv_status::closed ? "closed" : "would block";
      },
      [](const chan<int>& ch) {
        std::optional<int> v;
        return select(on_timeout(0s), on_recv(ch, v)) == 1 ? describe(v) : "would block";
      },
  };
  return all;
}

const std::vector<operation>& trying_sends() {
  static const std::vector<operation> all{
      [](const chan<int>& ch) {
        switch (ch.try_send(9)) {
          case send_status::done:
            return result("sent");
          case send_status::closed:
            return result("threw send on closed channel");  // its way of saying so
          default:
            return result("would block");
        }
      },
      [](const chan<int>& ch) { return select(on_send(ch, 9), otherwise()) == 0 ? "sent" : "would block"; },
      [](const chan<int>& ch) {
        return select(on_recv(chan<int>{}), otherwise(), on_send(ch, 9)) == 2 ? "sent" : "would block";
      },
      [](const chan<int>& ch) {
        select_set set;
        set.send(ch, 9);
        set.otherwise();
        return set.wait() == 0 ? "sent" : "would block";
      },
      [](const chan<int>& ch) {
        int v = 9;
        return ch.send_for(v, 0s) ? "sent" : "would block";
      },
      [](const chan<int>& ch) { return select(on_send(ch, 9), on_timeout(-1s)) == 0 ? "sent" : "would block"; },
  };
  return all;
}

/// A channel in a state in which operations do not block, and who stands behind that.
struct ready_state {
  chan<int> ch;
  coir::task<void> peer;

  static ready_state holding_a_value(std::size_t capacity) {
    ready_state s{make_chan<int>(capacity), {}};
    s.ch.send(5);
    return s;
  }
  static ready_state closed(std::size_t capacity) {
    ready_state s{make_chan<int>(capacity), {}};
    s.ch.close();
    return s;
  }
  static ready_state with_a_sender_waiting() {
    ready_state s{make_chan<int>(), {}};
    s.peer = coir::spawn([ch = s.ch] { ch.send(5); });
    until_blocked(s.peer);
    return s;
  }
  static ready_state with_a_receiver_waiting() {
    ready_state s{make_chan<int>(), {}};
    s.peer = coir::spawn([ch = s.ch] { EXPECT_EQ(ch.recv(), 9); });
    until_blocked(s.peer);
    return s;
  }
  void finish() {
    if (peer) peer.get();
  }
};

void expect_all(const std::vector<operation>& operations, const std::function<ready_state()>& make,
                const result& what) {
  for (std::size_t i = 0; i < operations.size(); ++i) {
    ready_state s = make();
    EXPECT_EQ(guarded([&] { return operations[i](s.ch); }), what) << "spelling " << i;
    s.finish();
  }
}

TEST_P(SelectAgreement, WhateverIsReadyGivesTheSameResultInEverySpelling) {
  run([] {
    for (const auto* receives : {&blocking_receives(), &trying_receives()}) {
      expect_all(*receives, [] { return ready_state::holding_a_value(1); }, "received 5");
      expect_all(*receives, [] { return ready_state::holding_a_value(3); }, "received 5");
      expect_all(*receives, [] { return ready_state::with_a_sender_waiting(); }, "received 5");
      expect_all(*receives, [] { return ready_state::closed(0); }, "closed");
      expect_all(*receives, [] { return ready_state::closed(2); }, "closed");
    }
    for (const auto* sends : {&blocking_sends(), &trying_sends()}) {
      expect_all(*sends, [] { return ready_state::holding_a_value(2); }, "sent");
      expect_all(*sends, [] { return ready_state::with_a_receiver_waiting(); }, "sent");
      expect_all(*sends, [] { return ready_state::closed(0); }, "threw send on closed channel");
      expect_all(*sends, [] { return ready_state::closed(2); }, "threw send on closed channel");
    }
  });
}

TEST_P(SelectAgreement, WhateverIsNotReadyIsDeclinedByEveryTryingSpelling) {
  run([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}}) {
      expect_all(trying_receives(), [=] { return ready_state{make_chan<int>(capacity), {}}; }, "would block");
    }
    expect_all(trying_receives(), [] { return ready_state{}; }, "would block");
    expect_all(trying_sends(), [] { return ready_state{make_chan<int>(), {}}; }, "would block");
    expect_all(trying_sends(), [] { return ready_state::holding_a_value(1); }, "would block");
    expect_all(trying_sends(), [] { return ready_state{}; }, "would block");
  });
}

/// Each spelling blocks, and then ends as `what` once `act` is done to the channel (null: it is cancelled).
void expect_all_block(const std::vector<operation>& operations, const std::function<chan<int>()>& make,
                      const std::function<void(const chan<int>&)>& act, const result& what) {
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const chan<int> ch = make();
    coir::task<result> task = coir::spawn([&] { return guarded([&] { return operations[i](ch); }); });
    until_blocked(task);
    act ? act(ch) : task.request_stop();
    EXPECT_EQ(task.get(), what) << "spelling " << i;
  }
}

TEST_P(SelectAgreement, WhateverBlocksIsWokenAlikeInEverySpelling) {
  run([] {
    const auto empty = [] { return make_chan<int>(1); };
    const auto unbuffered = [] { return make_chan<int>(); };
    const auto full = [] {
      chan<int> ch = make_chan<int>(1);
      ch.send(1);
      return ch;
    };
    const auto nil = [] { return chan<int>{}; };
    const auto send_7 = [](const chan<int>& ch) { ch.send(7); };
    const auto receive = [](const chan<int>& ch) { ch.recv(); };
    const auto close = [](const chan<int>& ch) { ch.close(); };
    for (const auto& state : {std::function<chan<int>()>(empty), std::function<chan<int>()>(unbuffered)}) {
      expect_all_block(blocking_receives(), state, send_7, "received 7");
      expect_all_block(blocking_receives(), state, close, "closed");
      expect_all_block(blocking_receives(), state, nullptr, "cancelled");
    }
    expect_all_block(blocking_receives(), nil, nullptr, "cancelled");
    for (const auto& state : {std::function<chan<int>()>(full), std::function<chan<int>()>(unbuffered)}) {
      expect_all_block(blocking_sends(), state, receive, "sent");
      expect_all_block(blocking_sends(), state, close, "threw send on closed channel");
      expect_all_block(blocking_sends(), state, nullptr, "cancelled");
    }
    expect_all_block(blocking_sends(), nil, nullptr, "cancelled");
  });
}

TEST_P(SelectAgreement, ACancelledFiberIsRefusedOnlyWhatBlocks) {
  run([] {
    const auto in_cancelled_fiber = [](const operation& op, const chan<int>& ch) {
      coir::task<result> task = coir::spawn([&]() -> result {
        while (!coir::this_fiber::stop_token().stop_requested()) coir::yield();
        return guarded([&] { return op(ch); });
      });
      task.request_stop();
      return task.get();
    };
    for (const operation& op : blocking_receives()) {
      EXPECT_EQ(in_cancelled_fiber(op, make_chan<int>(1)), "cancelled");
      EXPECT_EQ(in_cancelled_fiber(op, ready_state::holding_a_value(1).ch), "received 5");
    }
    for (const operation& op : blocking_sends()) {
      EXPECT_EQ(in_cancelled_fiber(op, make_chan<int>()), "cancelled");
      EXPECT_EQ(in_cancelled_fiber(op, make_chan<int>(1)), "sent");
    }
  });
}

/// A small generator: the mix must be the same in every run.
class mixer {
 public:
  explicit mixer(unsigned seed) : state_(seed * 2654435761U + 1) {}
  unsigned below(unsigned n) {
    state_ = state_ * 1664525U + 1013904223U;
    return (state_ >> 16) % n;
  }

 private:
  unsigned state_;
};

TEST_P(SelectAgreement, TenFibersOfMixedOperationsOverSharedChannelsFinish) {
  run([] {
    for (unsigned seed = 1; seed <= static_cast<unsigned>(coir_test::scaled(100)); ++seed) {
      mixer random(seed);
      std::vector<chan<int>> channels;
      for (int i = 0; i < 3; ++i) channels.push_back(make_chan<int>(random.below(4)));
      std::vector<coir::task<void>> tasks;
      for (unsigned f = 0; f < 10; ++f) {
        tasks.push_back(coir::spawn([&, f] {
          mixer mine(seed * 100 + f);
          guarded([&] {
            for (int i = 0; i < 200; ++i) {
              const chan<int>& a = channels[mine.below(3)];
              const chan<int>& b = channels[mine.below(3)];
              switch (mine.below(5)) {
                case 0:
                  a.send(i);
                  break;
                case 1:
                  a.recv();
                  break;
                case 2:
                  select(on_send(a, i), on_recv(b));
                  break;
                case 3:
                  select(on_recv(a), on_recv(b), on_timeout(std::chrono::microseconds(mine.below(50))));
                  break;
                default:
                  select(on_send(a, i), on_send(b, i), otherwise());
                  break;
              }
            }
            return result();
          });
        }));
      }
      // Who is left without a partner is let go by a close.
      coir_test::until([&] {
        for (const auto& t : tasks) {
          const coir::task_status status = t.status();
          if (status != coir::task_status::blocked && status != coir::task_status::finished) return false;
        }
        return true;
      });
      for (const chan<int>& ch : channels) ch.close();
      for (auto& t : tasks) t.get();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, SelectAgreement, coir_test::processors, coir_test::processors_name);

}  // namespace
