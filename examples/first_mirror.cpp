// The first of several mirrors that answers, and the words of many pages, a few downloads at a time. The downloads are
// made up: a mirror is slow, or down, or fast.
#include <chrono>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <coir/concurrent.hpp>
#include <coir/runtime.hpp>
#include <coir/sleep.hpp>
#include <coir/timeout.hpp>

namespace {

using namespace std::chrono_literals;

struct mirror {
  std::string name;
  std::chrono::milliseconds answers_after;
  bool down = false;

  std::string get(const std::string& page) const {
    if (down) throw std::runtime_error(name + " is down");
    coir::sleep_for(answers_after);  // stands for the network; a loser of the race gets out of here
    return "the " + page + " and the rest of the " + page;
  }
};

const mirror near{"near", 1ms};
const mirror far{"far", 1h};
const mirror broken{"broken", 0ms, true};

std::string fetch(const std::string& page) {
  return std::visit(
      [](std::string text) { return text; },
      coir::race([&] { return far.get(page); }, [&] { return broken.get(page); }, [&] { return near.get(page); }));
}

std::map<std::string, int> count_words(const std::vector<std::string>& pages) {
  const auto words = coir::map_concurrently(pages, 4, [](const std::string& page) {  // four downloads at a time
    std::istringstream text(fetch(page));
    return std::vector<std::string>(std::istream_iterator<std::string>(text), {});
  });
  std::map<std::string, int> counts;
  for (const auto& of_page : words)
    for (const std::string& word : of_page) ++counts[word];
  return counts;
}

}  // namespace

int main() {
  coir::run([] {
    for (const auto& [word, count] : count_words({"fox", "dog", "fox", "hen", "egg"}))
      std::cout << word << ' ' << count << '\n';

    try {
      coir::race([] { return broken.get("fox"); }, [] { return broken.get("dog"); });
    } catch (const coir::race_failed& e) {
      std::cout << e.exceptions().size() << " mirrors have failed\n";
    }

    // Two things that are both needed, within a time: neither is left behind if the other fails, or time is over.
    const auto [first, second] =
        coir::timeout(10s, [] { return coir::concurrently([] { return fetch("hen"); }, [] { return fetch("egg"); }); });
    std::cout << first << "; " << second << '\n';
  });
}
