// Actors that keep books of what they sent and received, and the audit at the end.
#include "concurrent.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>

#include "execute.hpp"
#include "generate.hpp"

namespace coir_fuzz {
namespace {

constexpr auto patience = std::chrono::seconds(60);  // far beyond any honest delay: a hang, not a slow machine

struct entry {
  unsigned channel;
  std::uint64_t number;
};

/// Numbers carry their sender in the upper half, and count up in the lower.
struct actor {
  actor(std::uint64_t seed, std::size_t index) : choices(seed), last_number((index + 1) << 32) {}

  void act(const world& w, unsigned operations) {
    for (unsigned i = 0; i < operations; ++i) {
      const operation op = make(w);
      if (!note(op, execute(op, w), w)) break;
    }
    ended.store(true, std::memory_order_release);
  }

  coir::async<void> act_as_coroutine(const world& w, unsigned operations) {
    for (unsigned i = 0; i < operations; ++i) {
      const operation op = make(w);
      const outcome o = co_await execute_async(op, w);
      if (!note(op, o, w)) break;
    }
    ended.store(true, std::memory_order_release);
  }

  /// Whether to go on.
  bool note(const operation& op, const outcome& o, const world& w) {
    record(op, o);
    for (const auto& ch : w.channels)
      if (ch.len() > ch.cap()) wrong = "len() " + std::to_string(ch.len()) + " exceeds the capacity";
    progress.fetch_add(1, std::memory_order_relaxed);
    return wrong.empty() && !o.was_cancelled();
  }

  operation make(const world& w) {
    const auto channels = static_cast<unsigned>(w.channels.size());
    for (;;) {
      operation op = random_operation(choices, {channels, false}, last_number);
      // A close ends the fun for all: keep only few. A wait for nothing at all would never end.
      if (op.what == operation::action::close && !choices.chance(10)) continue;
      if (op.what == operation::action::transfers && op.cases.empty()) continue;
      return op;
    }
  }

  void record(const operation& op, const outcome& o) {
    if (o.how == outcome::end::broken) wrong = o.what;
    if (o.how != outcome::end::fired || op.what == operation::action::close) return;
    const transfer& t = op.cases[o.index];
    if (t.is_send)
      sent.push_back({t.channel, t.number});
    else if (o.number != 0)
      received.push_back({t.channel, o.number});
  }

  entropy choices;
  std::uint64_t last_number;
  std::vector<entry> sent;
  std::vector<entry> received;
  std::string wrong;
  std::atomic<unsigned> progress{0};  // for the driver, which closes everything once nothing moves
  std::atomic<bool> ended{false};     // release: publishes the books to the driver's acquire load
};

class crowd {
 public:
  crowd(std::uint64_t seed, const crowd_limits& limits) : choices_(seed), limits_(limits) {
    const unsigned channels = 1 + choices_.below(4);
    for (unsigned i = 0; i < channels; ++i) world_.channels.push_back(coir::make_chan<token>(choices_.below(5)));
    world_.stops.resize(stop_sources);
    const unsigned actors = 2 + choices_.below(7);
    for (unsigned i = 0; i < actors; ++i) actors_.push_back(std::make_unique<actor>(seed * 1'000'003 + i, i));
    threads_ = choices_.chance(50) ? choices_.below(3) : 0;
  }

  std::string run() {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < actors_.size(); ++i) {
      auto body = [this, &a = *actors_[i]] { a.act(world_, limits_.operations); };
      if (i < threads_)
        threads.emplace_back(body);
      else if (choices_.chance(30))
        fibers_.push_back(coir::spawn(actors_[i]->act_as_coroutine(world_, limits_.operations)));
      else
        fibers_.push_back(coir::spawn(body));
    }
    disturb();
    for (const auto& ch : world_.channels) close(ch);
    const auto give_up = std::chrono::steady_clock::now() + patience;
    for (const auto& a : actors_) {
      while (!a->ended.load(std::memory_order_acquire)) {
        if (std::chrono::steady_clock::now() > give_up) hang();
        coir::yield();
      }
    }
    for (std::thread& t : threads) t.join();
    for (coir::task<void>& t : fibers_) t.get();
    return audit();
  }

 private:
  static void close(const coir::chan<token>& ch) {
    try {
      ch.close();
    } catch (const coir::closed_channel&) {
      // An actor was faster.
    }
  }

  /// Cancels a fiber and requests a stop at random moments; returns once nothing has moved for a while.
  void disturb() {
    const unsigned cancel_at = choices_.chance(50) ? choices_.below(limits_.operations * 4) : ~0U;
    const unsigned stop_at = choices_.chance(50) ? choices_.below(limits_.operations * 4) : ~0U;
    bool cancelled = false, stopped = false;
    unsigned last = 0;
    auto since = std::chrono::steady_clock::now();
    for (;;) {
      unsigned moved = 0;
      bool all_ended = true;
      for (const auto& a : actors_) {
        moved += a->progress.load(std::memory_order_relaxed);
        all_ended = all_ended && a->ended.load(std::memory_order_relaxed);
      }
      if (!fibers_.empty() && moved >= cancel_at && !std::exchange(cancelled, true))
        fibers_[choices_.below(static_cast<unsigned>(fibers_.size()))].request_stop();
      if (moved >= stop_at && !std::exchange(stopped, true)) world_.stops[choices_.below(stop_sources)].request_stop();
      const auto now = std::chrono::steady_clock::now();
      if (moved != std::exchange(last, moved)) since = now;
      // Closing too early would only make a shorter program.
      if (all_ended || now - since > std::chrono::milliseconds(3)) return;
      coir::yield();
    }
  }

  std::string audit() {
    for (const auto& a : actors_)
      if (!a->wrong.empty()) return a->wrong;
    std::map<std::uint64_t, unsigned> on_the_way;  // number -> channel
    for (const auto& a : actors_)
      for (const entry& e : a->sent) on_the_way[e.number] = e.channel;

    std::vector<std::vector<entry>> books;
    for (const auto& a : actors_) books.push_back(a->received);
    if (limits_.lose_one)
      for (auto& book : books)
        if (!book.empty()) {
          book.pop_back();
          break;
        }
    std::vector<entry> rest;
    for (unsigned c = 0; c < world_.channels.size(); ++c)
      while (std::optional<token> value = world_.channels[c].recv()) rest.push_back({c, value->number()});
    books.push_back(rest);

    for (const std::vector<entry>& book : books) {
      std::map<std::pair<unsigned, std::uint64_t>, std::uint64_t> latest;  // channel, sender -> number
      for (const entry& e : book) {
        const auto found = on_the_way.find(e.number);
        if (found == on_the_way.end()) return name(e) + " was received twice, or was never sent";
        if (found->second != e.channel) return name(e) + " came out of another channel";
        on_the_way.erase(found);
        std::uint64_t& before = latest[{e.channel, e.number >> 32}];
        if (before > e.number) return name(e) + " was overtaken by a later value of its sender";
        before = e.number;
      }
    }
    if (!on_the_way.empty()) return name({on_the_way.begin()->second, on_the_way.begin()->first}) + " was lost";
    world_.channels.clear();
    if (token::alive() != 0) return std::to_string(token::alive()) + " values outlive their channels";
    return {};
  }

  static std::string name(const entry& e) {
    return "value " + std::to_string(e.number & 0xffffffff) + " of actor " + std::to_string((e.number >> 32) - 1) +
           " over c" + std::to_string(e.channel);
  }

  [[noreturn]] void hang() {
    for (std::size_t i = 0; i < actors_.size(); ++i)
      if (!actors_[i]->ended.load(std::memory_order_relaxed))
        std::fprintf(stderr, "hang: actor %zu (a %s) is blocked though every channel is closed\n", i,
                     i < threads_ ? "thread" : "fiber or coroutine");
    std::abort();
  }

  entropy choices_;
  crowd_limits limits_;
  world world_;
  std::vector<std::unique_ptr<actor>> actors_;
  std::vector<coir::task<void>> fibers_;
  std::size_t threads_ = 0;
};

}  // namespace

std::string run_concurrent(std::uint64_t seed, const crowd_limits& limits) {
  coir::options o;
  o.processors = limits.processors;
  return coir::run(o, [&] {
    crowd c{seed, limits};
    return c.run();
  });
}

}  // namespace coir_fuzz
