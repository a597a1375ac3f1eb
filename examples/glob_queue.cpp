// A queue: a channel that one fiber feeds and another ranges over, closed at the end.
// The old question is who ends the feeder when the reader leaves early. Here the feeder is a task that travels with the
// channel: when the pair goes out of scope, the task's destructor stops the feeder, in the middle of a send, and joins
// it.
#include <iostream>
#include <string>
#include <vector>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>

namespace {

const std::vector<std::string> files = {"apple.txt", "avocado.txt", "banana.txt", "beet.txt", "cherry.txt"};

struct listing {
  coir::recv_chan<std::string> names;
  coir::task<void> feeder;  // after `names`: destroyed first
};

/// The names that begin with one of `letters`, in order. `searched` counts what was looked at.
listing glob(std::string letters, int& searched) {
  auto names = coir::make_chan<std::string>();
  auto feeder =
      coir::spawn([names, letters, &searched] {  // a reference is safe here: the task cannot outlive its owner
        for (const std::string& file : files) {
          ++searched;
          if (letters.find(file.front()) != std::string::npos) names.send(file);
        }
        names.close();
      });
  return {names, std::move(feeder)};
}

void print_all() {
  int searched = 0;
  const listing found = glob("ab", searched);
  for (const std::string& name : found.names) std::cout << name << '\n';
  found.feeder.wait();  // orders its last ++searched before our read
  std::cout << "searched " << searched << " of " << files.size() << '\n';
}

std::string first(const std::string& letters, int& searched) {
  const listing found = glob(letters, searched);
  for (const std::string& name : found.names) return name;
  return "none";
}

}  // namespace

int main() {
  coir::run([] {
    print_all();
    int searched = 0;
    std::cout << "first: " << first("abc", searched) << '\n';
    std::cout << "the feeder got as far as " << searched << '\n';
  });
  std::cout << "no fiber is left\n";
}
