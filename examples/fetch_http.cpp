// Fetches pages over HTTP, some at a time: `fetch_http [URL]...`, each `http://host[:port][/path]`. Prints a line for
// each, in order: the status, the size of the page, the URL. The first failure ends the others, and so does the
// deadline.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <coir/coir.hpp>

#include "http/fetch.hpp"

using namespace std::chrono_literals;

int main(int argc, char** argv) {
  const std::vector<std::string> urls(argv + 1, argv + argc);
  return coir::run([&] {
    try {
      const std::vector<example::page> pages =
          coir::timeout(30s, [&] { return coir::map_concurrently(urls, 8, example::fetch); });
      for (std::size_t i = 0; i < urls.size(); ++i)
        std::printf("%d %zu %s\n", pages[i].status, pages[i].body.size(), urls[i].c_str());
      return 0;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      return 1;
    }
  });
}
