// What random programs have in common: choices that follow from a seed, and running one seed after another for a while.
//
// Each program follows from its seed, but for the schedule. The seed of one that fails is printed, and
// COIR_STRESS_SEED runs it again; COIR_STRESS_SECONDS says how long a test takes (3 by default), shared among the
// numbers of processors. A program that hangs ends the process, after a dump of all fibers.
#pragma once

#include <chrono>
#include <cstdint>

#include <gtest/gtest.h>

namespace stress {

/// splitmix64's finalizer: good enough for choices, and without bad seeds.
constexpr std::uint64_t mixed(std::uint64_t z) noexcept {
  z += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

class choices {
 public:
  explicit choices(std::uint64_t seed) noexcept : state_(seed) {}

  /// In [0, below).
  std::uint64_t draw(std::uint64_t below) noexcept { return (state_ = mixed(state_)) % below; }
  unsigned draw_unsigned(unsigned below) noexcept { return static_cast<unsigned>(draw(below)); }
  bool chance(unsigned percent) noexcept { return draw(100) < percent; }
  std::chrono::microseconds draw_time(std::uint64_t below = 150) noexcept {
    return std::chrono::microseconds(draw(below));
  }

  /// Of somebody else.
  choices split() noexcept { return choices(draw(UINT64_MAX)); }
  std::uint64_t state() const noexcept { return state_; }

 private:
  std::uint64_t state_;
};

/// One, two, and more than the machine has: the operating system then preempts in the worst places.
inline const auto few_and_many = testing::Values(1U, 2U, 8U, 64U);

/// Runs `program` with one seed after another, as said above.
void run_seeds(unsigned processors, void (*program)(unsigned processors, std::uint64_t seed));

}  // namespace stress
