// Channels: senders without a receiver, closed at the wrong time, values that are dropped.
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "kernels.hpp"

namespace kernels {

namespace {

using namespace std::chrono_literals;

/// The caller gives up after a while, and nobody receives the result.
template <bool mended>
void orphaned_by_a_timeout() {
  auto result = coir::make_chan<int>(mended ? 1 : 0);
  coir::go([result] { coir::select(coir::on_recv(result), coir::on_timeout(1ms)); });
  coir::sleep_for(1ms);
  result.send(42);
}

/// A mirror does not send if the question has been answered. But both may have looked before.
template <bool mended>
void second_answer() {
  auto answer = coir::make_chan<int>(mended ? 1 : 0);
  auto answered = std::make_shared<std::atomic<bool>>(false);
  for (int i = 0; i < 2; ++i)
    coir::go([=] {
      coir::yield();
      if (answered->load()) return;
      answer.send(i);
    });
  answer.recv();
  answered->store(true);
}

/// Two fibers close a channel that is not closed yet.
template <bool mended>
void closed_twice() {
  auto ch = coir::make_chan<int>();
  std::atomic<bool> closed = false;
  const auto close = [&] {
    if (mended) {
      if (!closed.exchange(true)) ch.close();
    } else if (!closed) {
      ch.close();
      closed = true;
    }
  };
  auto other = coir::spawn(close);
  close();
  other.get();
}

/// The receiver closes the channel when it has enough.
template <bool mended>
void closed_by_the_receiver() {
  auto ch = coir::make_chan<int>(1);
  auto enough = coir::make_chan<void>();
  auto sender = coir::spawn([&] {
    for (int i = 0; i < 2; ++i) {
      if (!mended)
        ch.send(i);
      else if (coir::select(coir::on_send(ch, i), coir::on_recv(enough)) == 1)
        return;
    }
  });
  ch.recv();
  mended ? enough.close() : ch.close();
  sender.get();
}

/// A worker puts a job into the queue that it takes jobs from. If that is full, nobody empties it.
template <bool mended>
void queue_fed_by_its_worker() {
  auto queue = coir::make_chan<int>(mended ? 2 : 1);
  auto source = coir::spawn([&] {
    queue.send(0);
    coir::yield();
    queue.send(1);
  });
  for (int i = 0; i < 3; ++i)
    if (queue.recv() == 0) queue.send(2);
  source.get();
}

/// A worker that is told to stop leaves the jobs that were already sent.
template <bool mended>
void jobs_left_at_the_stop() {
  auto jobs = coir::make_chan<int>(2);
  auto stop = coir::make_chan<void>();
  int done = 0;
  auto worker = coir::spawn([&] {
    while (coir::select(coir::on_recv(jobs), coir::on_recv(stop)) == 0) ++done;
    int job = 0;
    while (mended && jobs.try_recv(job) == coir::recv_status::done) ++done;
  });
  jobs.send(1);
  jobs.send(2);
  coir::yield();
  stop.close();
  worker.get();
  require(done == 2, "a job is lost");
}

/// A tick and the stop are ready, and the select takes either.
template <bool mended>
void works_after_the_stop() {
  auto ticks = coir::make_chan<int>(1);
  auto stop = coir::make_chan<void>();
  std::atomic<bool> stopped = false;
  bool late = false;
  auto worker = coir::spawn([&] {
    for (;;) {
      const bool was_stopped = stopped;
      if (mended && coir::select(coir::on_recv(stop), coir::otherwise()) == 0) return;
      if (coir::select(coir::on_recv(ticks), coir::on_recv(stop)) == 1) return;
      late |= was_stopped;
    }
  });
  ticks.send(1);
  ticks.send(2);
  stop.close();
  stopped = true;
  worker.get();
  require(!late, "it has worked after the stop");
}

/// The length is looked at before a receive, by two consumers.
template <bool mended>
void length_then_receive() {
  auto ch = coir::make_chan<int>(1);
  ch.send(1);
  const auto take = [&] {
    int value = 0;
    if (mended)
      ch.try_recv(value);
    else if (ch.len() > 0)
      ch.recv();
  };
  auto other = coir::spawn(take);
  take();
  other.get();
}

/// A producer that is stopped does not close its channel, and the consumer waits for the end.
template <bool mended>
void not_closed_when_stopped() {
  auto ch = coir::make_chan<int>(1);
  std::atomic<bool> stopped = false;
  auto consumer = coir::spawn([&] {
    for (const int value : ch) static_cast<void>(value);
  });
  auto stops = coir::spawn([&] { stopped = true; });
  decision();
  if (!stopped) {
    ch.send(1);
    ch.close();
  } else if (mended) {
    ch.close();
  }
  stops.get();
  consumer.get();
}

/// The consumer finds the queue empty, and then that the producer has ended. In between a value came.
template <bool mended>
void empty_then_ended() {
  auto ch = coir::make_chan<int>(1);
  std::atomic<bool> ended = false;
  auto producer = coir::spawn([&] {
    ch.send(1);
    ended = true;
  });
  int received = 0;
  for (bool last = false; !last;) {
    if (mended) last = ended;
    int value = 0;
    while (ch.try_recv(value) == coir::recv_status::done) ++received;
    if (!mended) last = ended;
  }
  producer.get();
  require(received == 1, "a value is lost");
}

/// A value that cannot be sent at once is dropped.
template <bool mended>
void dropped_if_full() {
  auto ch = coir::make_chan<int>(1);
  auto producer = coir::spawn([&] {
    for (int i = 0; i < 2; ++i) {
      if (mended)
        ch.send(i);
      else
        ch.try_send(i);
    }
    ch.close();
  });
  int received = 0;
  for (const int value : ch) received += value >= 0 ? 1 : 0;
  producer.get();
  require(received == 2, "a value is lost");
}

/// One token tells two waiters: the one who comes first takes it.
template <bool mended>
void token_instead_of_close() {
  auto ready = coir::make_chan<int>(1);
  coir::mutex lock;
  int waiting = 0;
  const auto wait_for_it = [&] {
    {
      const std::scoped_lock held(lock);
      ++waiting;
    }
    ready.recv();
  };
  auto one = coir::spawn(wait_for_it);
  auto other = coir::spawn(wait_for_it);
  if (mended) {
    ready.close();
  } else {
    coir::yield();
    int counted = 0;
    {
      const std::scoped_lock held(lock);
      counted = waiting;
    }
    for (int i = 0; i < counted; ++i) ready.send(i);
  }
  one.get();
  other.get();
}

/// The answer to a request that timed out is taken for the answer to the next one.
template <bool mended>
void answer_of_before() {
  const auto ready = coir::clock::now() + 1ms;
  auto answers = coir::make_chan<int>(2);
  auto requests = coir::make_chan<int>(2);
  auto server = coir::spawn([&] {
    for (const int request : requests) {
      coir::sleep_until(ready);
      answers.send(request);
    }
  });
  bool wrong = false;
  for (int request = 1; request <= 2; ++request) {
    requests.send(request);
    int answer = 0;
    while (answers.recv_for(answer, 1ms) == coir::recv_status::done && answer != request) {
      if (mended) continue;
      wrong = true;
      break;
    }
  }
  requests.close();
  server.get();
  require(!wrong, "the answer is that of another request");
}

constexpr kernel all[] = {
    {"orphaned_by_a_timeout", "The receiver has timed out; the sender waits forever", effect::deadlock,
     orphaned_by_a_timeout<false>, orphaned_by_a_timeout<true>},
    {"second_answer", "Two send an answer, and one of them is received", effect::deadlock,  //
     second_answer<false>, second_answer<true>},
    {"closed_twice", "Two fibers close a channel that is not closed yet", effect::exception,  //
     closed_twice<false>, closed_twice<true>},
    {"closed_by_the_receiver", "The receiver closes the channel of a sender", effect::exception,
     closed_by_the_receiver<false>, closed_by_the_receiver<true>},
    {"queue_fed_by_its_worker", "A worker sends to its own full queue", effect::deadlock,  //
     queue_fed_by_its_worker<false>, queue_fed_by_its_worker<true>},
    {"jobs_left_at_the_stop", "A stop leaves jobs in the buffer", effect::exception,  //
     jobs_left_at_the_stop<false>, jobs_left_at_the_stop<true>},
    {"works_after_the_stop", "A select takes a tick although the stop is ready", effect::exception,
     works_after_the_stop<false>, works_after_the_stop<true>},
    {"length_then_receive", "The length is looked at before a receive", effect::deadlock,  //
     length_then_receive<false>, length_then_receive<true>},
    {"not_closed_when_stopped", "A stopped producer does not close its channel", effect::deadlock,
     not_closed_when_stopped<false>, not_closed_when_stopped<true>},
    {"empty_then_ended", "The queue is found empty before the end is looked at", effect::exception,
     empty_then_ended<false>, empty_then_ended<true>},
    {"dropped_if_full", "A value that cannot be sent at once is dropped", effect::exception,  //
     dropped_if_full<false>, dropped_if_full<true>},
    {"token_instead_of_close", "Tokens for those who wait now, instead of a close", effect::deadlock,
     token_instead_of_close<false>, token_instead_of_close<true>},
    {"answer_of_before", "A late answer is taken for that to the next request", effect::exception,
     answer_of_before<false>, answer_of_before<true>},
};

}  // namespace

std::span<const kernel> channels() { return all; }

}  // namespace kernels
