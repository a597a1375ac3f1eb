// signals(): as values, to every channel that asked for them.
#include <coir/io.hpp>

#include <csignal>
#include <stdexcept>
#include <thread>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

#include "net_test.hpp"

namespace {

using coir_test::until_blocked;
using namespace std::chrono_literals;

class signals_test : public coir_test::with_processors {};

TEST_P(signals_test, ASignalIsAValueAndDoesNothingElse) {
  const coir::recv_chan<int> ch = coir::signals({SIGTERM, SIGUSR1});
  run([&] {
    ::kill(::getpid(), SIGTERM);
    EXPECT_EQ(ch.recv(), SIGTERM);
    std::raise(SIGUSR1);
    EXPECT_EQ(ch.recv(), SIGUSR1);
  });
  ::kill(::getpid(), SIGUSR1);
  EXPECT_EQ(ch.recv(), SIGUSR1) << "in a plain thread";
}

TEST_P(signals_test, AReceiverThatWaitsIsWoken) {
  run([] {
    const coir::recv_chan<int> ch = coir::signals({SIGUSR2});
    coir::task<int> receiver = coir::spawn([&] { return ch.recv().value_or(-1); });
    until_blocked(receiver);
    ::kill(::getpid(), SIGUSR2);
    EXPECT_EQ(receiver.get(), SIGUSR2);
    int got = 0;
    ::kill(::getpid(), SIGUSR2);
    coir::select(coir::on_recv(ch, [&](std::optional<int> s) { got = s.value_or(-1); }));
    EXPECT_EQ(got, SIGUSR2);
  });
}

TEST_P(signals_test, EveryChannelGetsEachSignalThatItAskedFor) {
  run([] {
    const auto one = coir::signals({SIGUSR1, SIGUSR2}), two = coir::signals({SIGUSR1}),
               three = coir::signals({SIGUSR2});
    ::kill(::getpid(), SIGUSR1);
    EXPECT_EQ(one.recv(), SIGUSR1);
    EXPECT_EQ(two.recv(), SIGUSR1);
    ::kill(::getpid(), SIGUSR2);
    EXPECT_EQ(one.recv(), SIGUSR2);
    EXPECT_EQ(three.recv(), SIGUSR2);
    EXPECT_EQ(two.len(), 0U);
  });
}

// A second channel of the same signals that is read at once tells when the first has got them, too.
TEST_P(signals_test, ASlowReaderMissesRepeatsButNeverTheFirst) {
  run([] {
    const auto slow = coir::signals({SIGUSR1, SIGUSR2}), quick = coir::signals({SIGUSR1, SIGUSR2});
    const auto send = [&](int signal) {
      ::kill(::getpid(), signal);
      EXPECT_EQ(quick.recv(), signal);
    };
    for (int i = 0; i < 5; ++i) send(SIGUSR1);
    send(SIGUSR2);
    send(SIGUSR1);
    EXPECT_EQ(slow.recv(), SIGUSR1);
    // It has been read: the next one is no repeat, though SIGUSR2 is still unread.
    send(SIGUSR1);
    EXPECT_EQ(slow.recv(), SIGUSR2);
    EXPECT_EQ(slow.recv(), SIGUSR1);
    EXPECT_EQ(slow.len(), 0U);
  });
}

TEST_P(signals_test, WhatCannotBeHandledIsRefused) {
  EXPECT_THROW(coir::signals({SIGKILL}), std::invalid_argument);
  EXPECT_THROW(coir::signals({SIGUSR1, SIGSTOP}), std::invalid_argument);
  EXPECT_THROW(coir::signals({0}), std::invalid_argument);
  EXPECT_THROW(coir::signals({-1}), std::invalid_argument);
  EXPECT_THROW(coir::signals({65}), std::invalid_argument);
  coir_test::expect_throw_message<std::invalid_argument>([] { coir::signals({1000}); }, "1000");
}

TEST_P(signals_test, ARealTimeSignalIsOneToo) {
  const auto ch = coir::signals({SIGRTMIN + 3});
  ::kill(::getpid(), SIGRTMIN + 3);
  EXPECT_EQ(ch.recv(), SIGRTMIN + 3);
}

TEST_P(signals_test, NoSignalAtAllIsAChannelThatNeverHasAny) {
  run([] {
    const auto ch = coir::signals({});
    EXPECT_EQ(coir::select(coir::on_recv(ch), coir::on_timeout(1ms)), 1U);
  });
}

TEST_P(signals_test, ManySignalsWhileFibersWaitForDescriptors) {
  const auto ch = coir::signals({SIGUSR1});
  run([&] {
    auto [a, b] = coir::net::unix_stream::pair();
    coir::task<void> echo = coir::spawn([&b = b] {
      std::byte room[1];
      while (b.read_some(room) != 0) b.write(room);
    });
    for (int i = 0; i < coir_test::scaled(300); ++i) {
      ::kill(::getpid(), SIGUSR1);
      net_test::put(a, "x");
      EXPECT_EQ(net_test::take(a, 1), "x");
      EXPECT_EQ(ch.recv(), SIGUSR1);
    }
    a.close();
    echo.get();
  });
}

// A wait for a signal is no deadlock: one may always come.
TEST_P(signals_test, AWaitForASignalIsNoDeadlock) {
  const auto ch = coir::signals({SIGUSR1});
  std::thread sender([] {
    std::this_thread::sleep_for(50ms);  // so that the runtime is quiet for a while, whatever the machine does
    ::kill(::getpid(), SIGUSR1);
  });
  run([&] { EXPECT_EQ(ch.recv(), SIGUSR1); });
  sender.join();
}

INSTANTIATE_TEST_SUITE_P(Processors, signals_test, coir_test::processors, coir_test::processors_name);

}  // namespace
