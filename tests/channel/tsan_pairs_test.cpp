// ThreadSanitizer must see fibers as threads of execution: a race between two fibers is reported, even if one processor
// runs both; the same program with a channel where it belongs is silent. Each pair runs in processes of its own (only
// there may a race be), and both fibers are alive at the same time, on different stacks.
#include <atomic>
#include <cstdlib>
#include <string>

#include <coir/chan.hpp>
#include <coir/select.hpp>

#include "coir_test.hpp"

namespace channel_test {

// What they race for. Not in the unnamed namespace: there, as nobody reads it, the compiler would drop the writes.
extern int shared_word;
int shared_word = 0;

}  // namespace channel_test

namespace {

using channel_test::shared_word;
using coir::chan;
using coir::make_chan;

/// Two fibers that pass this point together. Relaxed: it orders nothing, so it hides no race.
class meeting {
 public:
  void pass() {
    arrived_.fetch_add(1, std::memory_order_relaxed);
    while (arrived_.load(std::memory_order_relaxed) < 2) coir::yield();
  }

 private:
  std::atomic<int> arrived_{0};
};

/// Runs both as fibers, and keeps each alive until the other has ended its work; then the process exits: with 0, or, if
/// ThreadSanitizer has reported something, with its own status.
template <class First, class Second>
[[noreturn]] void run_pair(unsigned processors, First first, Second second) {
  coir::options o;
  o.processors = processors;
  coir::run(o, [&] {
    meeting begin, end;
    coir::task<void> one = coir::spawn([&] {
      begin.pass();
      first();
      end.pass();
    });
    coir::task<void> two = coir::spawn([&] {
      begin.pass();
      second();
      end.pass();
    });
    one.get();
    two.get();
  });
  std::exit(0);
}

/// Waits for the flag without synchronizing.
void wait_for(const std::atomic<bool>& flag) {
  while (!flag.load(std::memory_order_relaxed)) coir::yield();
}

class TsanPairs : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    if (!coir_test::thread_sanitizer) GTEST_SKIP() << "only ThreadSanitizer can tell";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

constexpr int status_of_a_race = 66;  // ThreadSanitizer's exit status once it has reported something

#define EXPECT_RACE(statement) EXPECT_EXIT(statement, testing::ExitedWithCode(status_of_a_race), "data race")
#define EXPECT_SILENT(statement) EXPECT_EXIT(statement, testing::ExitedWithCode(0), "")

void unordered_writes(unsigned processors) {
  std::atomic<bool> written{false};
  run_pair(
      processors,
      [&] {
        shared_word = 1;
        written.store(true, std::memory_order_relaxed);
      },
      [&] {
        wait_for(written);
        shared_word = 2;
      });
}

void writes_ordered_by_a_channel(unsigned processors, std::size_t capacity) {
  const chan<void> ch = make_chan<void>(capacity);
  run_pair(
      processors,
      [&] {
        shared_word = 1;
        ch.send();
      },
      [&] {
        ch.recv();
        shared_word = 2;
      });
}

TEST_P(TsanPairs, AWriteBesideAWriteIsReported) { EXPECT_RACE(unordered_writes(GetParam())); }

TEST_P(TsanPairs, AWriteAfterAReceiveIsSilent) {
  EXPECT_SILENT(writes_ordered_by_a_channel(GetParam(), 0));
  EXPECT_SILENT(writes_ordered_by_a_channel(GetParam(), 4));
}

/// The send comes before the write that it should announce.
void write_after_the_send(unsigned processors) {
  const chan<void> ch = make_chan<void>();
  run_pair(
      processors,
      [&] {
        ch.send();
        shared_word = 1;
      },
      [&] {
        ch.recv();
        shared_word = 2;
      });
}

TEST_P(TsanPairs, AWriteAfterTheSendIsReported) { EXPECT_RACE(write_after_the_send(GetParam())); }

/// The receiver writes, then receives; the sender sends, then writes. Without a buffer the send waits for the receive,
/// with one it waits for nothing.
void write_before_the_receive(unsigned processors, std::size_t capacity) {
  const chan<void> ch = make_chan<void>(capacity);
  std::atomic<bool> sent{false};
  run_pair(
      processors,
      [&] {
        ch.send();
        shared_word = 1;
        sent.store(true,
                   std::memory_order_relaxed);  // orders nothing; but TSan may miss two writes at the same instant
      },
      [&] {
        if (capacity != 0) wait_for(sent);  // else the receive might come first, and order the two after all
        shared_word = 2;
        ch.recv();
      });
}

TEST_P(TsanPairs, AWriteBeforeTheReceiveOfABufferedValueIsReported) {
  EXPECT_RACE(write_before_the_receive(GetParam(), 1));
}
TEST_P(TsanPairs, AWriteBeforeTheReceiveOfAnUnbufferedValueIsSilent) {
  EXPECT_SILENT(write_before_the_receive(GetParam(), 0));
}

void write_and_close(unsigned processors, bool in_order) {
  const chan<int> ch = make_chan<int>();
  run_pair(
      processors,
      [&] {
        if (in_order) shared_word = 1;
        ch.close();
        if (!in_order) shared_word = 1;
      },
      [&] {
        ch.recv();
        shared_word = 2;
      });
}

TEST_P(TsanPairs, AWriteAfterTheCloseIsReported) { EXPECT_RACE(write_and_close(GetParam(), false)); }
TEST_P(TsanPairs, AWriteBeforeTheCloseIsSilent) { EXPECT_SILENT(write_and_close(GetParam(), true)); }

void write_and_select(unsigned processors, bool in_order) {
  const chan<int> ch = make_chan<int>(), never = make_chan<int>();
  run_pair(
      processors,
      [&] {
        if (in_order) shared_word = 1;
        coir::select(coir::on_recv(never), coir::on_send(ch, 1));
        if (!in_order) shared_word = 1;
      },
      [&] {
        coir::select(coir::on_recv(ch), coir::on_recv(never));
        shared_word = 2;
      });
}

TEST_P(TsanPairs, AWriteAfterASelectsSendIsReported) { EXPECT_RACE(write_and_select(GetParam(), false)); }
TEST_P(TsanPairs, AWriteBeforeASelectsSendIsSilent) { EXPECT_SILENT(write_and_select(GetParam(), true)); }

/// Fibers that only share a channel, each with a value of its own, on which the channel must not invent a race.
void values_travel(unsigned processors) {
  const chan<std::string> there = make_chan<std::string>(), back = make_chan<std::string>(2);
  run_pair(
      processors,
      [&] {
        std::string text = "a text that is too long to be kept inside";
        for (int i = 0; i < 200; ++i) {
          text += '.';
          there.send(std::move(text));
          text = back.recv().value();
        }
        there.close();
      },
      [&] {
        for (std::string text : there) {
          text += '!';
          back.send(std::move(text));
        }
      });
}

TEST_P(TsanPairs, ValuesThatTravelBackAndForthAreSilent) { EXPECT_SILENT(values_travel(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Processors, TsanPairs, coir_test::processors, coir_test::processors_name);

}  // namespace
