// Objects that are counted while they live: what a test's end checks, so that nothing is left behind and nothing
// destroyed twice.
#pragma once

#include <atomic>
#include <utility>

#include "coir_test.hpp"

namespace runtime_test {

class counted {
 public:
  explicit counted(int v = 0) noexcept : value_(v) { live_.fetch_add(1); }
  counted(const counted& other) noexcept : value_(other.value_) { live_.fetch_add(1); }
  counted(counted&& other) noexcept : value_(std::exchange(other.value_, -1)) { live_.fetch_add(1); }
  counted& operator=(const counted&) noexcept = default;
  counted& operator=(counted&& other) noexcept {
    value_ = std::exchange(other.value_, -1);
    return *this;
  }
  ~counted() { live_.fetch_sub(1); }

  int value() const noexcept { return value_; }
  static int live() noexcept { return live_.load(); }

 private:
  static inline std::atomic<int> live_{0};
  int value_;
};

/// Each test must end with as many counted objects as it began with: none.
class leak_checked : public coir_test::with_processors {
 protected:
  void SetUp() override { ASSERT_EQ(counted::live(), 0); }
  void TearDown() override { EXPECT_EQ(counted::live(), 0) << "left behind, or destroyed twice"; }
};

}  // namespace runtime_test
