// Values that channel tests send: one that counts, so that lost, duplicated and leaked values show; and odd shapes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace channel_test {

/// Move-only. Counts the objects that hold a value (one that was moved from holds none).
class counted {
 public:
  explicit counted(int value) noexcept : value_(value), holds_(true) { count(1); }
  counted(counted&& other) noexcept : value_(other.value_), holds_(std::exchange(other.holds_, false)) {}
  counted& operator=(counted&& other) noexcept {
    if (this != &other) {
      if (holds_) count(-1);
      value_ = other.value_;
      holds_ = std::exchange(other.holds_, false);
    }
    return *this;
  }
  ~counted() {
    if (holds_) count(-1);
  }

  int value() const noexcept { return value_; }
  bool holds_value() const noexcept { return holds_; }

  static int alive() noexcept { return alive_.load(std::memory_order_relaxed); }

 private:
  static void count(int change) noexcept { alive_.fetch_add(change, std::memory_order_relaxed); }

  static inline std::atomic<int> alive_{0};  // a statistic: it orders nothing
  int value_;
  bool holds_;
};

struct nothing {
  friend bool operator==(nothing, nothing) = default;
};

struct no_default {
  explicit no_default(int v) noexcept : value(v) {}
  friend bool operator==(const no_default&, const no_default&) = default;
  int value;
};

/// Move-only, though its bytes may be copied.
struct ticket {
  explicit ticket(int n) noexcept : number(n) {}
  ticket(ticket&&) noexcept = default;
  ticket& operator=(ticket&&) noexcept = default;
  int number;
};
static_assert(std::is_trivially_copyable_v<ticket> && !std::is_copy_constructible_v<ticket>);

struct page {
  std::array<std::uint64_t, 512> words{};

  static page of(std::uint64_t seed) {
    page p;
    for (std::uint64_t& word : p.words) word = seed++;
    return p;
  }
  friend bool operator==(const page&, const page&) = default;
};
static_assert(sizeof(page) == 4096);

/// Notes if one of its objects ever lies at a wrong address.
struct alignas(64) aligned {
  explicit aligned(int v) noexcept : value(v) { check(); }
  aligned(const aligned& other) noexcept : value(other.value) { check(); }
  aligned(aligned&& other) noexcept : value(other.value) { check(); }
  aligned& operator=(const aligned&) noexcept = default;
  aligned& operator=(aligned&&) noexcept = default;
  ~aligned() = default;
  friend bool operator==(const aligned& a, const aligned& b) { return a.value == b.value; }

  int value;
  static inline std::atomic<bool> misplaced{false};

 private:
  void check() const noexcept {
    if (reinterpret_cast<std::uintptr_t>(this) % alignof(aligned) != 0) misplaced = true;
  }
};

}  // namespace channel_test
