// A value and a cancellation at once: what was sent is either received or still there, never lost.
#pragma once

#include <atomic>

#include <coir/async.hpp>
#include <coir/chan.hpp>

#include "coir_test.hpp"
#include "values.hpp"

namespace channel_test {

/// receive(ch, got) -> async<void>: takes a value from ch, counts it, and waits again: there, at the latest, it learns
/// that it is cancelled.
template <class Receive>
void race_grants_with_cancellations(Receive receive) {
  const int rounds = coir_test::scaled(5'000);
  for (int i = 0; i < rounds; ++i) {
    const auto ch = coir::make_chan<counted>(1);
    std::atomic<int> got{0};
    coir::task<void> receiver = coir::spawn(receive(ch, got));
    coir::task<void> sender = coir::spawn([ch, i] {
      for (int k = i % 5; k > 0; --k) coir::yield();
      ch.send(counted(1));
    });
    for (int k = i % 7; k > 0; --k) coir::yield();
    receiver.request_stop();
    EXPECT_THROW(receiver.get(), coir::task_cancelled);
    sender.get();
    ASSERT_EQ(got + static_cast<int>(ch.len()), 1) << i;
  }
}

}  // namespace channel_test
