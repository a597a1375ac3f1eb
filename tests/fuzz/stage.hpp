// Where sequential random programs take place: actors (fibers and coroutines) that do one operation at a time, each
// after all is still again; so a model can say what must come of every step. Used by one fiber, the driver.
//
// An operation's type tells whether it ends by itself soon (ends_soon()), an outcome's whether the actor was cancelled
// in the operation (was_cancelled()); both can be printed (to_string()).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <coir/async.hpp>
#include <coir/chan.hpp>
#include <coir/runtime.hpp>

namespace coir_fuzz {

template <class Operation, class Outcome>
class stage {
 public:
  using outcomes = std::map<std::size_t, Outcome>;  // by actor
  using by_fiber = std::function<Outcome(const Operation&)>;
  using by_coroutine = std::function<coir::async<Outcome>(const Operation&)>;

  /// How operations are done; what is done may differ from one kind of actor to the other, but not what comes of it.
  stage(by_fiber f, by_coroutine c) : by_fiber_(std::move(f)), by_coroutine_(std::move(c)) {}

  void add_actor(bool is_coroutine) {
    actors_.push_back(std::make_unique<actor>());
    actors_.back()->is_coroutine = is_coroutine;
    start(*actors_.back());
  }

  std::size_t actors() const noexcept { return actors_.size(); }

  /// Has the actor, which must not be blocked, do the operation; waits until all is still; returns who has finished.
  outcomes perform(std::size_t who, const Operation& op) {
    actor& a = *actors_[who];
    note(std::string(a.is_coroutine ? "coroutine " : "fiber ") + std::to_string(who) + ": " + to_string(op));
    a.current = op;
    in_operation_.push_back(who);
    a.now.store(phase::idle, std::memory_order_relaxed);
    a.mailbox.send(&a.current);
    return settle();
  }

  /// Cancels an actor that is blocked.
  outcomes cancel(std::size_t who) {
    note("cancel " + std::to_string(who));
    actors_[who]->task.request_stop();
    return settle();
  }

  /// To be called when the cancellation was as it should be: the actor can be used again.
  void restart(std::size_t who) {
    actors_[who]->task.get();
    start(*actors_[who]);
  }

  /// Waits until every actor has finished its operation or is blocked in it; returns those that have finished since.
  outcomes settle() {
    outcomes finished;
    const auto give_up = std::chrono::steady_clock::now() + patience;
    for (;;) {
      std::erase_if(in_operation_, [&](std::size_t who) {
        if (actors_[who]->now.load(std::memory_order_acquire) != phase::done) return false;
        note("  " + std::to_string(who) + " -> " + to_string(actors_[who]->result));
        finished.emplace(who, actors_[who]->result);
        return true;
      });
      if (std::all_of(in_operation_.begin(), in_operation_.end(), [&](std::size_t who) { return is_blocked(who); }))
        return finished;
      if (std::chrono::steady_clock::now() > give_up) hang();
      coir::yield();
    }
  }

  /// Ends all actors; the last call. If all went well none of them may be blocked.
  void end(bool well) {
    for (auto& a : actors_) {
      if (well)
        a->mailbox.send(nullptr);
      else
        a->task.request_stop();
      if (!a->task.wait_for(patience)) hang();
    }
    actors_.clear();
  }

  void note(const std::string& line) { trace_ += "  " + line + "\n"; }
  const std::string& trace() const noexcept { return trace_; }

 private:
  static constexpr auto patience = std::chrono::seconds(60);  // far beyond any honest delay: a hang, not slowness

  enum class phase { idle, started, done };

  /// It does what it finds in its mailbox and reports by its phase.
  struct actor {
    coir::chan<const Operation*> mailbox = coir::make_chan<const Operation*>(1);
    // The release store of done publishes `result` to the driver's acquire load.
    std::atomic<phase> now{phase::idle};
    Operation current;
    Outcome result;
    bool is_coroutine = false;
    coir::task<void> task;

    /// False: it was the last.
    bool finish(Outcome o) {
      const bool last = o.was_cancelled();
      result = std::move(o);
      now.store(phase::done, std::memory_order_release);
      return !last;
    }
  };

  void start(actor& a) {
    a.task = a.is_coroutine ? coir::spawn(serve_as_coroutine(a)) : coir::spawn([&] { serve(a); });
  }

  void serve(actor& a) {
    while (const Operation* op = a.mailbox.recv().value_or(nullptr)) {
      a.now.store(phase::started, std::memory_order_release);
      if (!a.finish(by_fiber_(*op))) return;
    }
  }

  coir::async<void> serve_as_coroutine(actor& a) {
    for (;;) {
      const std::optional<const Operation*> next = co_await a.mailbox.async_recv();
      if (!next || *next == nullptr) co_return;
      a.now.store(phase::started, std::memory_order_release);
      Outcome o = co_await by_coroutine_(**next);
      if (!a.finish(std::move(o))) co_return;
    }
  }

  bool is_blocked(std::size_t who) const {
    const actor& a = *actors_[who];
    return !a.current.ends_soon() && a.now.load(std::memory_order_acquire) == phase::started &&
           a.task.status() == coir::task_status::blocked && a.now.load(std::memory_order_acquire) == phase::started;
  }

  [[noreturn]] void hang() {
    for (std::size_t who : in_operation_)
      note("  " + std::to_string(who) + " hangs in " + to_string(actors_[who]->current));
    std::fprintf(stderr, "hang\n%s", trace_.c_str());
    std::abort();
  }

  by_fiber by_fiber_;
  by_coroutine by_coroutine_;
  std::vector<std::unique_ptr<actor>> actors_;
  std::vector<std::size_t> in_operation_;
  std::string trace_;
};

}  // namespace coir_fuzz
