// The value that random programs pass around: a number that exists once. Move-only, leaves 0 behind when moved from,
// and counts how many tokens with a number are alive, so that a lost, duplicated or leaked value shows.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace coir_fuzz {

class token {
 public:
  token() noexcept = default;
  explicit token(std::uint64_t number) noexcept : number_(number) { count(1); }
  token(token&& other) noexcept : number_(std::exchange(other.number_, 0)) {}
  token& operator=(token&& other) noexcept {
    if (this != &other) {
      drop();
      number_ = std::exchange(other.number_, 0);
    }
    return *this;
  }
  ~token() { drop(); }

  std::uint64_t number() const noexcept { return number_; }

  void drop() noexcept {
    if (std::exchange(number_, 0) != 0) count(-1);
  }

  static long alive() noexcept { return alive_.load(std::memory_order_relaxed); }

 private:
  static void count(long change) noexcept { alive_.fetch_add(change, std::memory_order_relaxed); }

  static inline std::atomic<long> alive_{0};  // a statistic: it orders nothing
  std::uint64_t number_ = 0;
};

}  // namespace coir_fuzz
