// The libFuzzer entry for the HTTP server example's paths: whatever a client asks for, no name leaves the root.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "http/static_path.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view target(reinterpret_cast<const char*>(data), size);
  const std::optional<std::string> path = example::static_path(target);
  if (!path) return 0;
  // "/a/b/": no part is empty, or begins with a dot.
  const std::string whole = "/" + *path + "/";
  if (whole.find("//") == std::string::npos && whole.find("/.") == std::string::npos &&
      whole.find('\0') == std::string::npos)
    return 0;
  std::fprintf(stderr, "a target of %zu bytes gave the path \"%s\"\n", size, path->c_str());
  std::abort();
}
