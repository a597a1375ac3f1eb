// Merge sort, one fiber for each half of each piece: fibers are cheap enough to start one wherever two things can go on
// at once. Every fiber owns the numbers that it sorts and sends the result back over a channel, so nothing is shared
// and nothing needs a lock. How many numbers there are can be given as an argument: ten million take twenty million
// fibers, of which few live at a time.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>

namespace {

using numbers = std::vector<std::uint32_t>;

numbers merge_sort(numbers all);

/// Sorts in a fiber of its own. The channel has room for the result, so that fiber ends even if nobody asks for it.
coir::recv_chan<numbers> start_sorting(numbers part) {
  auto result = coir::make_chan<numbers>(1);
  coir::go([result, part = std::move(part)]() mutable { result.send(merge_sort(std::move(part))); });
  return result;
}

numbers merge_sort(numbers all) {
  if (all.size() < 2) return all;
  const auto middle = all.begin() + std::ssize(all) / 2;

  const auto left = start_sorting({all.begin(), middle});  // both run from here on ...
  const auto right = start_sorting({middle, all.end()});
  const numbers low = left.recv().value();  // ... and only then is either waited for
  const numbers high = right.recv().value();

  std::merge(low.begin(), low.end(), high.begin(), high.end(), all.begin());
  return all;
}

numbers scrambled(std::size_t count) {
  numbers result;
  std::uint32_t x = 1;
  for (std::size_t i = 0; i < count; ++i) result.push_back((x = x * 1664525 + 1013904223) >> 8);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::uint32_t n : coir::run([] { return merge_sort({5, 3, 8, 1, 9, 2, 7}); })) std::cout << n << ' ';
  std::cout << '\n';

  numbers input = scrambled(argc > 1 ? std::stoul(argv[1]) : 10'000);
  const numbers sorted = coir::run([&] { return merge_sort(input); });
  std::sort(input.begin(), input.end());
  std::cout << sorted.size() << " numbers, " << (sorted == input ? "in order" : "not sorted") << '\n';
}
