// The strategies of <coir/explore.hpp>, and the replay of a schedule, as choosers. A strategy is used for one schedule
// after another.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/explore.hpp>

#include "base/random.hpp"
#include "chooser.hpp"

namespace coir::inline COIR_ABI::detail {

class strategy : public chooser {
 public:
  /// Called before schedule `index`, from 0. False: there is no schedule that has not been run.
  virtual bool begin(std::uint64_t index) = 0;

  /// Called after it, with its choices.
  virtual void end(const std::vector<choice>& /*choices*/) {}

  /// The share of all schedules that has been run; less than 0: not known.
  virtual double covered() const { return -1; }
};

std::unique_ptr<strategy> make_strategy(exploration_strategy which, std::uint64_t seed);

/// Follows a schedule.
class playback final : public chooser {
 public:
  explicit playback(const std::vector<std::uint32_t>& taken) noexcept : taken_(taken) {}

  std::uint32_t choose(const turn& t) override { return next(t.options()); }
  std::uint32_t choose_branch(std::uint32_t n) override { return next(n); }

  /// There was no such option: the program has done something else.
  bool strayed() const noexcept { return strayed_; }

 private:
  std::uint32_t next(std::uint32_t options) {
    const std::uint32_t i = at_ < taken_.size() ? taken_[at_] : 0;
    ++at_;
    if (i < options) return i;
    strayed_ = true;
    return 0;
  }

  const std::vector<std::uint32_t>& taken_;
  std::size_t at_ = 0;
  bool strayed_ = false;
};

}  // namespace coir::detail
