// The driver: makes up the next step, has an actor do it, asks the model when all is still.
#include "sequential.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>

#include "execute.hpp"
#include "generate.hpp"
#include "model.hpp"
#include "stage.hpp"

namespace coir_fuzz {
namespace {

constexpr unsigned max_channels = 4;
constexpr unsigned max_actors = 8;

class program {
 public:
  program(entropy choices, const program_limits& limits)
      : choices_(choices),
        limits_(limits),
        capacities_(make_capacities()),
        stage_([this](const operation& op) { return execute(op, world_); },
               [this](const operation& op) { return execute_async(op, world_); }),
        model_(capacities_, 1 + choices_.below(max_actors), stop_sources, limits.break_model) {
    for (const auto& capacity : capacities_) {
      stage_.note("c" + std::to_string(world_.channels.size()) +
                  (capacity ? " holds " + std::to_string(*capacity) : " is nil"));
      world_.channels.push_back(capacity ? coir::make_chan<token>(*capacity) : coir::chan<token>{});
    }
    world_.stops.resize(stop_sources);
    while (stage_.actors() < model_.actors()) stage_.add_actor(choices_.chance(30));
  }

  std::string run() {
    for (unsigned step = 0; step < limits_.steps && !choices_.exhausted() && wrong_.empty(); ++step) take_step();
    if (wrong_.empty() && choices_.chance(50)) close_all();
    finish();
    return wrong_.empty() ? wrong_ : wrong_ + "\n" + stage_.trace();
  }

 private:
  std::vector<std::optional<std::size_t>> make_capacities() {
    static constexpr std::size_t sizes[] = {0, 0, 0, 1, 1, 2, 3, 4};
    std::vector<std::optional<std::size_t>> all(1 + choices_.below(max_channels));
    for (auto& capacity : all)
      if (choices_.below(16) != 15) capacity = sizes[choices_.below(8)];
    return all;
  }

  unsigned channels() const { return static_cast<unsigned>(world_.channels.size()); }

  void take_step() {
    std::vector<std::size_t> idle, blocked;
    for (std::size_t f = 0; f < stage_.actors(); ++f) (model_.blocked(f) ? blocked : idle).push_back(f);
    const unsigned dice = choices_.below(32);
    if (dice == 31 && choices_.chance(30)) {
      stop(choices_.below(stop_sources));
    } else if (!blocked.empty() && (idle.empty() || dice == 30)) {
      cancel(blocked[choices_.below(static_cast<unsigned>(blocked.size()))]);
    } else if (!idle.empty()) {
      perform(idle[choices_.below(static_cast<unsigned>(idle.size()))],
              random_operation(choices_, {channels(), limits_.mostly_selects}, numbers_));
    }
  }

  void perform(std::size_t f, const operation& op) { accept(model_.after_operation(f, op, stage_.perform(f, op))); }

  void stop(std::size_t source) {
    stage_.note("request stop s" + std::to_string(source));
    world_.stops[source].request_stop();
    accept(model_.after_stop(source, stage_.settle()));
  }

  void cancel(std::size_t f) {
    accept(model_.after_cancel(f, stage_.cancel(f)));
    if (wrong_.empty()) stage_.restart(f);
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
      for (std::size_t f = 0; f < stage_.actors(); ++f) {
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
    for (std::size_t f = 0; f < stage_.actors() && wrong_.empty(); ++f)
      if (model_.blocked(f)) cancel(f);
    stage_.end(wrong_.empty());
    world_.channels.clear();
    if (wrong_.empty() && token::alive() != 0)
      wrong_ = std::to_string(token::alive()) + " values outlive their channels";
  }

  entropy choices_;
  program_limits limits_;
  std::vector<std::optional<std::size_t>> capacities_;
  world world_;
  stage<operation, outcome> stage_;
  model model_;
  std::uint64_t numbers_ = 0;
  std::string wrong_;
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
