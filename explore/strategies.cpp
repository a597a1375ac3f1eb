#include "strategies.hpp"

#include <algorithm>
#include <cstddef>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

namespace {

/// Uniform in [0, n), except for 2^-32 of it.
std::uint32_t below(std::uint64_t random, std::uint32_t n) noexcept {
  return static_cast<std::uint32_t>(((random >> 32) * n) >> 32);
}

/// A fault is rare, so that it may come late.
std::uint32_t fault(std::uint64_t random) noexcept { return below(random, 8) == 0 ? 1 : 0; }

/// The random numbers of a schedule.
random_source source_of(std::uint64_t seed, std::uint64_t index) noexcept {
  return random_source(random_source(seed)() + 0x632be59bd9b4e019U * (index + 1));
}

// ---- random walk ---------------------------------------------------------------------------------------------------

class random_walk_strategy final : public strategy {
 public:
  explicit random_walk_strategy(std::uint64_t seed) noexcept : seed_(seed), random_(seed) {}

  bool begin(std::uint64_t index) override {
    random_ = source_of(seed_, index);
    return true;
  }
  std::uint32_t choose(const turn& t) override { return below(random_(), t.options()); }
  std::uint32_t choose_branch(std::uint32_t n) override { return below(random_(), n); }
  std::uint32_t choose_fault() override { return fault(random_()); }

 private:
  std::uint64_t seed_;
  random_source random_;
};

// ---- PCT -----------------------------------------------------------------------------------------------------------

/// Priorities: a new fiber's is random and high. At the i-th change point the running fiber gets i, which is below all
/// of those. After a yield it gets less than any fiber had before. The change points are drawn in no order, so of two
/// change points the later one may give more or less than the earlier one.
///
/// Once a fiber has yielded, a change point gives i or, as often, less than any fiber had before. With i alone, a fiber
/// that has yielded would never run at a change point, since the fiber that loses its priority there would still have
/// more.
class pct_strategy final : public strategy {
 public:
  pct_strategy(unsigned depth, std::uint64_t seed) noexcept : depth_(depth), seed_(seed), random_(seed) {}

  bool begin(std::uint64_t index) override {
    random_ = source_of(seed_, index);
    step_ = 0;
    lowest_ = 0;
    priorities_.clear();
    begins(turn::timer_number);
    changes_.clear();
    for (unsigned i = 1; i < depth_; ++i) changes_.push_back({random_() % longest_, i});
    std::sort(changes_.begin(), changes_.end(), [](const change& l, const change& r) { return l.step < r.step; });
    next_change_ = 0;
    return true;
  }

  void end(const std::vector<choice>& choices) override {
    longest_ = std::max<std::uint64_t>(longest_, choices.size());
  }

  void begins(std::uint32_t number) override {
    if (priorities_.size() <= number) priorities_.resize(number + 1);
    priorities_[number] = static_cast<std::int64_t>(random_() >> 2 | std::uint64_t{1} << 32);
  }

  void yields(std::uint32_t number) override { priorities_[number] = --lowest_; }

  std::uint32_t choose(const turn& t) override {
    const std::uint64_t step = step_++;
    while (next_change_ < changes_.size() && changes_[next_change_].step <= step) {
      const std::int64_t low = changes_[next_change_++].priority;
      const bool below_all = lowest_ < 0 && below(random_(), 2) == 0;
      // The fiber that would go on loses its priority.
      priorities_[t.number(best(t))] = below_all ? --lowest_ : low;
    }
    return best(t);
  }

  std::uint32_t choose_branch(std::uint32_t n) override {
    ++step_;
    return below(random_(), n);
  }
  std::uint32_t choose_fault() override {
    ++step_;
    return fault(random_());
  }

 private:
  struct change {
    std::uint64_t step;
    std::int64_t priority;
  };

  std::uint32_t best(const turn& t) const noexcept {
    std::uint32_t found = 0;
    std::int64_t highest = priorities_[t.number(0)];
    for (std::uint32_t i = 1; i < t.options(); ++i) {
      const std::int64_t p = priorities_[t.number(i)];
      if (p > highest) {
        highest = p;
        found = i;
      }
    }
    return found;
  }

  const unsigned depth_;
  const std::uint64_t seed_;
  random_source random_;
  std::vector<std::int64_t> priorities_;  // by number
  std::int64_t lowest_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t longest_ = 20;   // choices of a schedule, as far as seen
  std::vector<change> changes_;  // by step
  std::size_t next_change_ = 0;
};

// ---- depth first ---------------------------------------------------------------------------------------------------

/// A schedule repeats the last one up to some choice, takes the next option there, and always the first option after
/// that. The choice is the last one that has an option left within the bound.
class dfs_strategy final : public strategy {
 public:
  explicit dfs_strategy(unsigned max_preemptions) noexcept : most_(max_preemptions) {}

  bool begin(std::uint64_t index) override {
    at_ = 0;
    return index == 0 || advance();
  }
  void end(const std::vector<choice>& choices) override { path_ = choices; }

  std::uint32_t choose(const turn&) override { return next(); }
  std::uint32_t choose_branch(std::uint32_t) override { return next(); }

  // As if all branches were equally large.
  double covered() const override {
    double share = 1;
    double done = 0;
    for (const choice& c : path_) {
      share /= c.tried();
      done += share * c.taken;
      if (share < 1e-12) break;
    }
    return done;
  }

 private:
  std::uint32_t next() noexcept {
    const std::size_t i = at_++;
    return i < prefix_.size() ? prefix_[i] : 0;
  }

  bool advance() {
    unsigned preemptions = 0;
    for (const choice& c : path_) preemptions += c.is_preemption() ? 1 : 0;
    while (!path_.empty()) {
      choice& c = path_.back();
      preemptions -= c.is_preemption() ? 1 : 0;
      const bool within = !c.preempts || preemptions < most_;
      if (within && c.taken + 1 < c.tried()) {
        ++c.taken;
        prefix_.clear();
        for (const choice& each : path_) prefix_.push_back(each.taken);
        return true;
      }
      path_.pop_back();
    }
    return false;
  }

  const unsigned most_;
  std::vector<choice> path_;
  std::vector<std::uint32_t> prefix_;
  std::size_t at_ = 0;
};

}  // namespace

std::unique_ptr<strategy> make_strategy(exploration_strategy which, std::uint64_t seed) {
  switch (which.what()) {
    case exploration_strategy::kind::random_walk:
      return std::make_unique<random_walk_strategy>(seed);
    case exploration_strategy::kind::pct:
      return std::make_unique<pct_strategy>(which.parameter(), seed);
    case exploration_strategy::kind::dfs:
      break;
  }
  return std::make_unique<dfs_strategy>(which.parameter());
}

}  // namespace coir::detail
