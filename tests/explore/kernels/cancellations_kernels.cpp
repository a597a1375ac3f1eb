// Cancellation, contexts, timers: not passed on, seen too late, and what it leaves behind.
#include <atomic>
#include <chrono>
#include <memory>

#include "kernels.hpp"

namespace kernels {

namespace {

using namespace std::chrono_literals;

/// The worker is given another context than the one that is cancelled.
template <bool mended>
void context_not_passed_on() {
  auto [ctx, cancel] = coir::with_cancel(coir::context::background());
  auto jobs = coir::make_chan<int>();
  const auto source = [=, ctx = ctx] { coir::select(coir::on_send(jobs, 1), coir::on_recv(ctx.done())); };
  const auto worker = [=, ctx = mended ? ctx : coir::context::background()] {
    coir::select(coir::on_recv(jobs), coir::on_recv(ctx.done()));
  };
  coir::go(source);
  coir::go(worker);
  coir::yield();
  cancel();
}

/// The context is looked at once, before a wait that does not look.
template <bool mended>
void context_looked_at_once() {
  auto [ctx, cancel] = coir::with_cancel(coir::context::background());
  auto jobs = coir::make_chan<int>();
  auto worker = coir::spawn([&, ctx = ctx] {
    if (ctx.err()) return;
    if (mended)
      coir::select(coir::on_recv(jobs), coir::on_recv(ctx.done()));
    else
      jobs.recv();
  });
  cancel();
  worker.get();
}

/// A fiber that is ready cancels the context that another one still works with.
template <bool mended>
void cancel_of_a_shared_context() {
  auto [ctx, cancel] = coir::with_cancel(coir::context::background());
  auto short_one = coir::spawn([ctx = ctx, cancel = cancel] {
    if (mended)
      coir::with_cancel(ctx).second();
    else
      cancel();
  });
  decision();
  const bool disturbed = ctx.err() != nullptr;
  short_one.get();
  require(!disturbed, "cancelled by another fiber");
}

/// A permit is not given back if the wait in between is cancelled.
template <bool mended>
void permit_lost_by_cancellation() {
  coir::semaphore permits(1);
  auto ch = coir::make_chan<int>();
  auto worker = coir::spawn([&] {
    permits.acquire();
    try {
      ch.recv();
    } catch (...) {
      if (mended) permits.release();
      throw;
    }
    permits.release();
  });
  auto sender = coir::spawn([&] { coir::select(coir::on_send(ch, 1), coir::on_timeout(1ms)); });
  worker.request_stop();
  worker.wait();
  permits.acquire();
  sender.get();
}

/// A mark "busy" stays if the work is cancelled.
template <bool mended>
void busy_after_cancellation() {
  std::atomic<bool> busy = false;
  auto ch = coir::make_chan<int>(1);
  auto worker = coir::spawn([&] {
    struct at_end {
      std::atomic<bool>& busy;
      ~at_end() {
        if (mended) busy = false;
      }
    } const ends{busy};
    busy = true;
    ch.recv();
    busy = false;
  });
  auto stops = coir::spawn([&] { worker.request_stop(); });
  ch.send(1);
  stops.get();
  worker.wait();
  require(!busy, "busy for ever");
}

/// A timer is stopped, but its function has begun, and what it uses is closed.
template <bool mended>
void timer_stopped_too_late() {
  struct connection {
    std::atomic<bool> open = true;
    std::atomic<bool> misused = false;
    coir::chan<int> called = coir::make_chan<int>(1);
  };
  auto used = std::make_shared<connection>();
  const auto soon = coir::after(1ms);
  coir::timer t = coir::after_func(1ms, [used] {
    decision();
    if (!used->open) used->misused = true;
    used->called.send(1);
  });
  soon.recv();
  const bool stopped = t.stop();
  if (mended && !stopped) used->called.recv();
  used->open = false;
  if (!mended && !stopped) used->called.recv();
  require(!used->misused, "used when it was closed");
}

/// A timeout ends a call that has received a value, before that is kept.
template <bool mended>
void value_lost_in_a_timeout() {
  auto values = coir::make_chan<int>(1);
  auto thanks = coir::make_chan<int>();
  int received = 0;
  auto sender = coir::spawn([&] {
    coir::sleep_for(1ms);
    values.send(1);
    int thank = 0;
    thanks.recv_for(thank, 1ms);
  });
  try {
    coir::timeout(1ms, [&] {
      const int value = values.recv().value_or(0);
      if (mended) received = value;
      thanks.send(value);
      received = value;
    });
  } catch (const coir::timed_out&) {
  }
  sender.get();
  if (received == 0) values.try_recv(received);
  require(received == 1, "a value is lost");
}

/// A request is sent again when the answer is late, and is carried out twice.
template <bool mended>
void retried_after_a_timeout() {
  const auto ready = coir::clock::now() + 1ms;
  auto requests = coir::make_chan<int>(2);
  auto answers = coir::make_chan<int>(2);
  int balance = 0;
  auto server = coir::spawn([&] {
    int last = 0;
    for (const int id : requests) {
      if (!mended || id != last) ++balance;
      last = id;
      coir::sleep_until(ready);
      answers.send(id);
    }
  });
  int answer = 0;
  requests.send(1);
  if (answers.recv_for(answer, 1ms) != coir::recv_status::done) requests.send(1);
  requests.close();
  server.get();
  require(balance == 1, "paid twice");
}

/// The parent returns when it has failed, and does not cancel the child.
template <bool mended>
void child_not_cancelled() {
  auto first = coir::make_chan<int>(1);
  auto second = coir::make_chan<int>();
  auto [ctx, cancel] = coir::with_cancel(coir::context::background());
  coir::go([=] { first.send(1); });
  coir::go([=, ctx = ctx] { coir::select(coir::on_send(second, 1), coir::on_recv(ctx.done())); });
  if (coir::select(coir::on_recv(first), coir::on_recv(second)) == 0 && mended) cancel();
}

constexpr kernel all[] = {
    {"context_not_passed_on", "A worker has another context than the cancelled one", effect::deadlock,
     context_not_passed_on<false>, context_not_passed_on<true>},
    {"context_looked_at_once", "The context is looked at before a wait, not in it", effect::deadlock,
     context_looked_at_once<false>, context_looked_at_once<true>},
    {"cancel_of_a_shared_context", "A fiber cancels a context that others use", effect::exception,
     cancel_of_a_shared_context<false>, cancel_of_a_shared_context<true>},
    {"permit_lost_by_cancellation", "A cancelled wait does not give its permit back", effect::deadlock,
     permit_lost_by_cancellation<false>, permit_lost_by_cancellation<true>},
    {"busy_after_cancellation", "A mark stays when the work is cancelled", effect::exception,  //
     busy_after_cancellation<false>, busy_after_cancellation<true>},
    {"timer_stopped_too_late", "A timer's function runs on after stop()", effect::exception,  //
     timer_stopped_too_late<false>, timer_stopped_too_late<true>},
    {"value_lost_in_a_timeout", "A timeout ends the call that has just received", effect::exception,
     value_lost_in_a_timeout<false>, value_lost_in_a_timeout<true>},
    {"retried_after_a_timeout", "A late request is sent again and carried out twice", effect::exception,
     retried_after_a_timeout<false>, retried_after_a_timeout<true>},
    {"child_not_cancelled", "The parent returns without cancelling its child", effect::deadlock,  //
     child_not_cancelled<false>, child_not_cancelled<true>},
};

}  // namespace

std::span<const kernel> cancellations() { return all; }

}  // namespace kernels
