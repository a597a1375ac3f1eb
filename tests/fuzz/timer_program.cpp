#include "timer_program.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <coir/coir.hpp>

#include "timer_book.hpp"

namespace coir_fuzz {
namespace {

using namespace std::chrono_literals;
using time_point = timer_clock::time_point;
using nanoseconds = std::chrono::nanoseconds;

constexpr auto patience = 60s;  // far beyond any honest delay
constexpr unsigned slot_count = 4;

const coir::recv_chan<time_point> nil;

/// A plain thread that does what it is told, while the fiber that tells it waits.
class plain_thread {
 public:
  plain_thread()
      : thread_([this] {
          while (auto task = tasks_.recv()) {
            (**task)();
            done_.send();
          }
        }) {}
  ~plain_thread() {
    tasks_.close();
    thread_.join();
  }
  plain_thread(const plain_thread&) = delete;
  plain_thread& operator=(const plain_thread&) = delete;

  void call(const std::function<void()>& f) {
    tasks_.send(&f);
    done_.recv();
  }

 private:
  coir::chan<const std::function<void()>*> tasks_ = coir::make_chan<const std::function<void()>*>(1);
  coir::chan<void> done_ = coir::make_chan<void>(1);
  std::thread thread_;
};

/// The calls of one after_func(), which may go on when its timer is gone, and how many there must be.
struct call_count {
  std::atomic<unsigned> calls{0};
  unsigned least = 0;
  unsigned most = 0;
};

struct slot {
  enum class kind { none, after, timer, func, ticker, moved_timer, moved_ticker } what = kind::none;
  coir::recv_chan<time_point> ticks;
  std::optional<coir::timer> once;
  std::optional<coir::ticker> beat;
  std::shared_ptr<call_count> count;
  timer_book book;
};

struct span {
  nanoseconds d;
  bool soon;
};

class timer_program {
 public:
  timer_program(entropy choices, const program_limits& limits) : choices_(choices), limits_(limits) {}

  /// The counts are to be checked when the runtime has ended.
  std::string run(std::vector<std::shared_ptr<call_count>>& counts) {
    for (unsigned step = 0; step < limits_.steps && !choices_.exhausted() && wrong_.empty(); ++step) take_step();
    for (slot& s : slots_) {
      if (wrong_.empty() && s.what == slot::kind::func && s.book.soon()) await_call(s);
      drop(s);
    }
    // A call whose time has come may not have begun, and the end of the runtime prevents it.
    const time_point give_up = timer_clock::now() + patience;
    for (const auto& count : counts_)
      while (count->calls.load() < count->least && timer_clock::now() < give_up) coir::sleep_for(20us);
    counts = std::move(counts_);
    return wrong_.empty() ? wrong_ : wrong_ + "\n" + trace_;
  }

  const std::string& trace() const noexcept { return trace_; }

 private:
  using kind = slot::kind;

  void note(const std::string& line) { trace_ += "  " + line + "\n"; }

  span random_span(bool positive) {
    switch (choices_.below(positive ? 6 : 8)) {
      case 0:
        return {10h, false};
      case 1:
        return {std::chrono::duration_cast<nanoseconds>(std::chrono::hours(24) * 365 * 200), false};
      case 6:
        return {0ns, true};
      case 7:
        return {-5ms, true};
      default:
        return {nanoseconds(1000 * (20 + choices_.below(200))), true};
    }
  }

  /// By this fiber, or by the plain thread.
  void act(const std::function<void()>& f) {
    if (by_thread_)
      other_.call(f);
    else
      f();
  }

  void expect(bool good, const char* otherwise) {
    if (!good && wrong_.empty()) wrong_ = otherwise;
  }
  void expect_nothing(const std::string& found) { expect(found.empty(), found.c_str()); }

  void take_step() {
    const std::size_t which = choices_.below(slot_count);
    slot& s = slots_[which];
    by_thread_ = choices_.chance(30);
    note(std::string(by_thread_ ? "thread" : "fiber") + ", slot " + std::to_string(which) + " (" +
         std::to_string(static_cast<int>(s.what)) + (s.book.pending() ? ", pending" : "") + "):");
    switch (choices_.below(12)) {
      case 0:
      case 1:
        return make(s);
      case 2:
      case 3:
        return stop(s);
      case 4:
      case 5:
      case 6:
        return reset(s);
      case 7:
        return try_receive(s);
      case 8:
        return receive(s);
      case 9:
        return drop(s);
      case 10:
        return move(s, slots_[choices_.below(slot_count)]);
      default:
        note("pause");
        coir::sleep_for(std::chrono::microseconds(choices_.below(200)));
    }
  }

  void make(slot& s) {
    drop(s);
    const auto what = static_cast<kind>(1 + choices_.below(4));
    const span t = random_span(what == kind::ticker);
    note("make " + std::to_string(static_cast<int>(what)) + " of " + std::to_string(t.d.count()) + " ns");
    auto count = std::make_shared<call_count>();
    bool refused = false;
    const time_point before = timer_clock::now();
    act([&] {
      switch (what) {
        case kind::after:
          s.ticks = coir::after(t.d);
          break;
        case kind::timer:
          s.once.emplace(t.d);
          break;
        case kind::ticker:
          s.beat.emplace(t.d);
          break;
        default:
          try {
            s.once.emplace(coir::after_func(t.d, [count] { count->calls.fetch_add(1); }));
          } catch (const coir::not_in_runtime&) {
            refused = true;
          }
      }
    });
    expect(refused == (by_thread_ && what == kind::func), "after_func() and the thread that calls it");
    if (refused) return;
    s.what = what;
    s.book = {};
    s.book.set(before, t.d, t.soon, what == kind::ticker);
    if (what == kind::timer) s.ticks = s.once->c();
    if (what == kind::ticker) s.ticks = s.beat->c();
    if (what == kind::func) {
      s.count = count;
      counts_.push_back(count);
    }
  }

  bool is_once(const slot& s) const {
    return s.what == kind::timer || s.what == kind::func || s.what == kind::moved_timer;
  }

  void prevented(slot& s, bool was_pending) {
    if (limits_.break_model) was_pending = !was_pending;
    expect_nothing(s.book.prevented(timer_clock::now(), was_pending));
    if (s.count) s.count->least = s.count->most = s.book.times_fired();
  }

  void stop(slot& s) {
    if (s.what == kind::none || s.what == kind::after) return;
    bool was_pending = false;
    act([&] { was_pending = is_once(s) ? s.once->stop() : s.beat->stop(); });
    note(was_pending ? "stop: true" : "stop: false");
    prevented(s, was_pending);
  }

  void reset(slot& s) {
    if (s.what == kind::none || s.what == kind::after) return;
    const bool repeats = !is_once(s);
    if (repeats && choices_.chance(10)) return reset_wrongly(s);
    const span t = random_span(repeats);
    bool was_pending = false;
    bool refused = false;
    const time_point before = timer_clock::now();
    act([&] {
      try {
        was_pending = repeats ? s.beat->reset(t.d) : s.once->reset(t.d);
      } catch (const std::logic_error&) {
        refused = true;
      }
    });
    note("reset to " + std::to_string(t.d.count()) + " ns: " + (refused ? "refused" : was_pending ? "true" : "false"));
    const bool moved = s.what == kind::moved_timer || s.what == kind::moved_ticker;
    expect(refused == moved, "reset() and a timer that was moved from");
    if (refused) return;
    prevented(s, was_pending);
    s.book.set(before, t.d, t.soon, repeats);
  }

  void reset_wrongly(slot& s) {
    note("reset to nothing");
    bool refused = false;
    act([&] {
      try {
        s.beat->reset(choices_.chance(50) ? 0ns : -1ns);
      } catch (const std::invalid_argument&) {
        refused = true;
      }
    });
    expect(refused, "reset() of a ticker to a period that is not positive");
  }

  void try_receive(slot& s) {
    if (s.ticks == nil) return;
    std::optional<time_point> tick;
    act([&] {
      time_point at;
      if (s.ticks.try_recv(at) == coir::recv_status::done) tick = at;
    });
    note(tick ? "try_recv: a tick" : "try_recv: nothing");
    if (tick) expect_nothing(s.book.ticked(timer_clock::now(), *tick));
  }

  /// Where something must come.
  void receive(slot& s) {
    if (!s.book.soon()) return;
    if (s.what == kind::func) return await_call(s);
    if (s.ticks == nil) return;
    note("recv");
    std::optional<time_point> tick;
    act([&] {
      const auto give_up = coir::after(patience);
      coir::select(coir::on_recv(s.ticks, [&](std::optional<time_point> at) { tick = at; }),
                   coir::on_recv(give_up, [](std::optional<time_point>) {}));
    });
    expect(tick.has_value(), "no tick came");
    if (tick) expect_nothing(s.book.ticked(timer_clock::now(), *tick));
  }

  void await_call(slot& s) {
    note("await the call");
    const time_point give_up = timer_clock::now() + patience;
    while (s.count->calls.load() <= s.book.times_fired() && timer_clock::now() < give_up) coir::sleep_for(20us);
    expect(s.count->calls.load() == s.book.times_fired() + 1, "the function was not called once");
    s.book.fired();
    s.count->least = s.count->most = s.book.times_fired();
  }

  void drop(slot& s) {
    if (s.what == kind::none) return;
    note("drop");
    forget(s);
    act([&] {
      s.ticks = nil;
      s.once.reset();
      s.beat.reset();
    });
    s.what = kind::none;
    s.book = {};
  }

  /// Its timer is about to be destroyed, which says nothing of whether it has fired.
  void forget(slot& s) {
    if (s.count && s.book.soon()) ++s.count->most;
    s.count = nullptr;
  }

  void move(slot& from, slot& to) {
    if (&from == &to || (is_once(from) ? !is_once(to) : from.what != kind::ticker || to.what != kind::ticker)) return;
    note("move it to slot " + std::to_string(&to - slots_.data()));
    forget(to);
    act([&] {
      if (is_once(from))
        *to.once = std::move(*from.once);
      else
        *to.beat = std::move(*from.beat);
    });
    to.what = from.what;
    to.book = std::exchange(from.book, {});
    to.count = std::move(from.count);
    to.ticks = std::exchange(from.ticks, nil);
    from.what = from.what == kind::ticker ? kind::moved_ticker : kind::moved_timer;
  }

  entropy choices_;
  program_limits limits_;
  plain_thread other_;
  bool by_thread_ = false;
  std::array<slot, slot_count> slots_;
  std::vector<std::shared_ptr<call_count>> counts_;
  std::string wrong_;
  std::string trace_;
};

}  // namespace

std::string run_timers(entropy choices, const program_limits& limits) {
  coir::options o;
  o.processors = limits.processors;
  std::vector<std::shared_ptr<call_count>> counts;
  std::string trace;
  std::string wrong = coir::run(o, [&] {
    timer_program p{choices, limits};
    std::string found = p.run(counts);
    trace = p.trace();
    return found;
  });
  if (!wrong.empty()) return wrong;
  for (const auto& count : counts) {
    const unsigned calls = count->calls.load();
    if (calls < count->least || calls > count->most)
      return "a function was called " + std::to_string(calls) + " times instead of " + std::to_string(count->least) +
             " to " + std::to_string(count->most) + "\n" + trace;
  }
  return {};
}

}  // namespace coir_fuzz
