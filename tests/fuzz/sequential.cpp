// The driver: makes up the next step, has a fiber do it, waits until all is still, asks the model.
#include "sequential.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>

#include "execute.hpp"
#include "generate.hpp"
#include "model.hpp"

namespace coir_fuzz {
namespace {

constexpr unsigned max_channels = 4;
constexpr unsigned max_fibers = 8;
constexpr auto patience = std::chrono::seconds(60);  // far beyond any honest delay: a hang, not a slow machine

/// A fiber of the program. It does what it finds in its mailbox and reports by its phase.
struct actor {
  enum class phase { idle, started, done };

  coir::chan<const operation*> mailbox = coir::make_chan<const operation*>(1);
  std::atomic<phase> now{
      phase::idle};  // the fiber's release store of done publishes `result` to the driver's acquire load
  operation current;
  outcome result;
  coir::task<void> fiber;

  void serve(const world& w) {
    while (const operation* op = mailbox.recv().value_or(nullptr)) {
      now.store(phase::started, std::memory_order_release);
      result = execute(*op, w);
      const bool last = result.how == outcome::end::cancelled;
      now.store(phase::done, std::memory_order_release);
      if (last) return;
    }
  }
};

class program {
 public:
  program(entropy choices, const program_limits& limits)
      : choices_(choices),
        limits_(limits),
        capacities_(make_capacities()),
        actors_(1 + choices_.below(max_fibers)),
        model_(capacities_, actors_.size(), stop_sources, limits.break_model) {
    for (const auto& capacity : capacities_) {
      note("c" + std::to_string(world_.channels.size()) +
           (capacity ? " holds " + std::to_string(*capacity) : " is nil"));
      world_.channels.push_back(capacity ? coir::make_chan<token>(*capacity) : coir::chan<token>{});
    }
    world_.stops.resize(stop_sources);
    for (auto& a : actors_) a = std::make_unique<actor>();
  }

  std::string run() {
    for (std::size_t f = 0; f < actors_.size(); ++f) start(f);
    for (unsigned step = 0; step < limits_.steps && !choices_.exhausted() && wrong_.empty(); ++step) take_step();
    if (wrong_.empty() && choices_.chance(50)) close_all();
    finish();
    return wrong_.empty() ? wrong_ : wrong_ + "\n" + trace_;
  }

 private:
  std::vector<std::optional<std::size_t>> make_capacities() {
    static constexpr std::size_t sizes[] = {0, 0, 0, 1, 1, 2, 3, 4};
    std::vector<std::optional<std::size_t>> all(1 + choices_.below(max_channels));
    for (auto& capacity : all)
      if (choices_.below(16) != 15) capacity = sizes[choices_.below(8)];
    return all;
  }

  void start(std::size_t f) {
    actor& a = *actors_[f];
    a.fiber = coir::spawn([&a, this] { a.serve(world_); });
  }

  unsigned channels() const { return static_cast<unsigned>(world_.channels.size()); }

  void take_step() {
    std::vector<std::size_t> idle, blocked;
    for (std::size_t f = 0; f < actors_.size(); ++f) (model_.blocked(f) ? blocked : idle).push_back(f);
    const unsigned dice = choices_.below(32);
    if (dice == 31 && choices_.chance(30)) {
      stop(choices_.below(stop_sources));
    } else if (!blocked.empty() && (idle.empty() || dice == 30)) {
      cancel(blocked[choices_.below(static_cast<unsigned>(blocked.size()))]);
    } else if (!idle.empty()) {
      perform(idle[choices_.below(static_cast<unsigned>(idle.size()))],
              random_operation(choices_, channels(), numbers_));
    }
  }

  void perform(std::size_t f, const operation& op) {
    note("fiber " + std::to_string(f) + ": " + to_string(op));
    actor& a = *actors_[f];
    a.current = op;
    in_operation_.push_back(f);
    a.now.store(actor::phase::idle, std::memory_order_relaxed);
    a.mailbox.send(&a.current);
    const model::outcomes finished = settle();
    accept(model_.after_operation(f, a.current, finished));
  }

  void stop(std::size_t source) {
    note("request stop s" + std::to_string(source));
    world_.stops[source].request_stop();
    accept(model_.after_stop(source, settle()));
  }

  void cancel(std::size_t f) {
    note("cancel fiber " + std::to_string(f));
    actors_[f]->fiber.request_stop();
    accept(model_.after_cancel(f, settle()));
    if (!wrong_.empty()) return;
    actors_[f]->fiber.get();
    start(f);
  }

  /// Waits until every fiber has finished its operation or is blocked in it; returns those that have finished.
  model::outcomes settle() {
    model::outcomes finished;
    const auto give_up = std::chrono::steady_clock::now() + patience;
    for (;;) {
      std::erase_if(in_operation_, [&](std::size_t f) {
        if (actors_[f]->now.load(std::memory_order_acquire) != actor::phase::done) return false;
        note("  fiber " + std::to_string(f) + " -> " + to_string(actors_[f]->result));
        finished.emplace(f, actors_[f]->result);
        return true;
      });
      if (std::all_of(in_operation_.begin(), in_operation_.end(), [&](std::size_t f) { return is_blocked(f); })) break;
      if (std::chrono::steady_clock::now() > give_up) hang();
      coir::yield();
    }
    return finished;
  }

  bool is_blocked(std::size_t f) {
    actor& a = *actors_[f];
    return a.current.limit != time_limit::soon && a.now.load(std::memory_order_acquire) == actor::phase::started &&
           a.fiber.status() == coir::task_status::blocked &&
           a.now.load(std::memory_order_acquire) == actor::phase::started;
  }

  void accept(const std::string& wrong) {
    wrong_ = wrong;
    for (std::size_t c = 0; c < world_.channels.size() && wrong_.empty(); ++c)
      if (world_.channels[c].len() != model_.length(c))
        wrong_ = "len() of c" + std::to_string(c) + " is " + std::to_string(world_.channels[c].len()) + ", not " +
                 std::to_string(model_.length(c));
    if (wrong_.empty() && token::alive() != model_.tokens())
      wrong_ = std::to_string(token::alive()) + " values are alive, not " + std::to_string(model_.tokens());
  }

  void close_all() {
    for (unsigned c = 0; c < channels() && wrong_.empty(); ++c) {
      for (std::size_t f = 0; f < actors_.size(); ++f) {
        if (model_.blocked(f)) continue;
        operation op;
        op.what = operation::action::close;
        op.channel = c;
        perform(f, op);
        break;
      }
    }
  }

  void finish() {
    for (std::size_t f = 0; f < actors_.size() && wrong_.empty(); ++f)
      if (model_.blocked(f)) cancel(f);
    for (auto& a : actors_) {
      if (wrong_.empty())
        a->mailbox.send(nullptr);
      else
        a->fiber.request_stop();
      if (!a->fiber.wait_for(patience)) hang();
    }
    actors_.clear();
    world_.channels.clear();
    if (wrong_.empty() && token::alive() != 0)
      wrong_ = std::to_string(token::alive()) + " values outlive their channels";
  }

  void note(const std::string& line) { trace_ += "  " + line + "\n"; }

  [[noreturn]] void hang() {
    for (std::size_t f : in_operation_)
      note("  fiber " + std::to_string(f) + " hangs in " + to_string(actors_[f]->current));
    std::fprintf(stderr, "hang\n%s", trace_.c_str());
    std::abort();
  }

  entropy choices_;
  program_limits limits_;
  std::vector<std::optional<std::size_t>> capacities_;
  world world_;
  std::vector<std::unique_ptr<actor>> actors_;
  model model_;
  std::vector<std::size_t> in_operation_;
  std::uint64_t numbers_ = 0;
  std::string wrong_;
  std::string trace_;
};

}  // namespace

std::string run_sequential(entropy choices, const program_limits& limits) {
  coir::options o;
  o.processors = limits.processors;
  return coir::run(o, [&] {
    program p{choices, limits};
    return p.run();
  });
}

}  // namespace coir_fuzz
