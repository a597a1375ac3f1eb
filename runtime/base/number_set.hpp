// A set of small numbers that gives the least of them, or the greatest. It has a bit for each number, and for every 64
// words of these bits one summary word, which says which of them are not zero. A million numbers need 245 summary
// words. least_ and greatest_ say where among them to begin.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <coir/detail/abi.hpp>

#include "base/internal_memory.hpp"

namespace coir::inline COIR_ABI::detail {

class number_set {
 public:
  /// Makes room for 0 to numbers - 1; nothing else needs memory.
  void reserve(std::size_t numbers) {
    words_.resize(std::max(words_.size(), (numbers + 63) / 64));
    summary_.resize((words_.size() + 63) / 64);
  }

  void insert(std::size_t n) noexcept {
    const std::size_t word = n / 64;
    const std::size_t group = word / 64;
    words_[word] |= std::uint64_t{1} << n % 64;
    summary_[group] |= std::uint64_t{1} << word % 64;
    least_ = std::min(least_, group);
    greatest_ = std::max(greatest_, group);
  }

  /// Not of an empty set.
  std::size_t take_least() noexcept {
    while (summary_[least_] == 0) ++least_;
    const std::size_t word = least_ * 64 + lowest(summary_[least_]);
    return take(word, lowest(words_[word]));
  }

  /// Not of an empty set.
  std::size_t take_greatest() noexcept {
    while (summary_[greatest_] == 0) --greatest_;
    const std::size_t word = greatest_ * 64 + highest(summary_[greatest_]);
    return take(word, highest(words_[word]));
  }

 private:
  static std::size_t lowest(std::uint64_t bits) noexcept { return static_cast<std::size_t>(std::countr_zero(bits)); }
  static std::size_t highest(std::uint64_t bits) noexcept {
    return static_cast<std::size_t>(63 - std::countl_zero(bits));
  }

  std::size_t take(std::size_t word, std::size_t bit) noexcept {
    words_[word] &= ~(std::uint64_t{1} << bit);
    if (words_[word] == 0) summary_[word / 64] &= ~(std::uint64_t{1} << word % 64);
    return word * 64 + bit;
  }

  internal_vector<std::uint64_t> words_;
  internal_vector<std::uint64_t> summary_;
  // In the summary, all words before least_ and after greatest_ are zero.
  std::size_t least_ = 0;
  std::size_t greatest_ = 0;
};

}  // namespace coir::detail
