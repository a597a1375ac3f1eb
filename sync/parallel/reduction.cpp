#include <coir/detail/reduction.hpp>

#include <coir/detail/abi.hpp>

#include <bit>

namespace coir::inline COIR_ABI::detail {

namespace {

// Enough for sixty-four processors to share. Few enough that the cost of a leaf beside that of its elements, some ns,
// does not count.
constexpr std::uint64_t most_leaves = 4096;

constexpr std::uint64_t rounded_up(std::uint64_t n, std::uint64_t by) noexcept {
  return n / by + (n % by != 0 ? 1 : 0);
}

}  // namespace

reduction_shape::reduction_shape(std::uint64_t count, std::uint64_t grain)
    : count_(count),
      leaf_size_(grain != 0 ? grain : std::max<std::uint64_t>(rounded_up(count, most_leaves), 1)),
      leaves_(rounded_up(count, leaf_size_)),
      came_(std::make_unique<std::atomic<bool>[]>(leaves_)) {}

reduction_shape::node reduction_shape::largest(std::uint64_t first, std::uint64_t last) noexcept {
  const auto of_length = static_cast<unsigned>(std::bit_width(last - first)) - 1;
  const auto of_place = static_cast<unsigned>(std::countr_zero(first));  // 64 for the first of all
  const unsigned level = std::min(of_length, of_place);
  return {level, first >> level};
}

}  // namespace coir::detail
