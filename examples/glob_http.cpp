// Fetches the files of a directory that match a pattern: `glob_http URL PATTERN`, for instance
// `glob_http http://localhost:8000/logs '*.txt'`. URL/index lists the names, a line each. Prints the size and the name
// of each file that matches, in the order of the list.
//
// glob() takes a pattern and returns items. That it fetches them concurrently is its own business: when it returns, or
// throws because a file failed, no fiber of its is left.
#include <chrono>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include <fnmatch.h>

#include <coir/coir.hpp>

#include "http/fetch.hpp"

namespace {

using namespace std::chrono_literals;

struct item {
  std::string name;
  std::string body;
};

std::vector<std::string> matching_names(const std::string& directory, const std::string& pattern) {
  std::istringstream list(example::fetch(directory + "/index").body);
  std::vector<std::string> names;
  for (std::string name; std::getline(list, name);)
    if (::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0) names.push_back(name);
  return names;
}

std::vector<item> glob(const std::string& directory, const std::string& pattern) {
  return coir::map_concurrently(matching_names(directory, pattern), 8, [&](const std::string& name) {
    return item{name, example::fetch(directory + '/' + name).body};
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: glob_http URL PATTERN\n");
    return 2;
  }
  return coir::run([&] {
    try {
      for (const item& each : coir::timeout(30s, [&] { return glob(argv[1], argv[2]); }))
        std::printf("%zu %s\n", each.body.size(), each.name.c_str());
      return 0;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      return 1;
    }
  });
}
