// Fibers that start fibers: main starts a and b, each of which starts two more, and so on. Nobody joins anybody, and
// yet none is cut off: run() returns when the last fiber of all has ended, not when main has. What they left in a
// channel can be read after that, from the plain thread that called run().
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>

namespace {

constexpr std::size_t depth = 3;

void grow(std::string name, coir::send_chan<std::string> names) {
  names.send(name);
  if (name.size() == depth) return;
  for (const char child : {'a', 'b'}) coir::go([=] { grow(name + child, names); });
}

}  // namespace

int main() {
  auto names = coir::make_chan<std::string>(14);  // room for 2 + 4 + 8
  coir::run([=] {
    coir::go([=] { grow("a", names); });
    coir::go([=] { grow("b", names); });
  });
  names.close();

  std::vector<std::string> all;
  for (std::string name : names) all.push_back(std::move(name));
  std::sort(all.begin(), all.end());  // they ran side by side, in no particular order
  for (const std::string& name : all) std::cout << std::string(2 * (name.size() - 1), ' ') << name << '\n';
  std::cout << all.size() << " fibers\n";
}
