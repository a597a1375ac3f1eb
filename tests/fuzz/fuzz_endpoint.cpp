// The libFuzzer entry for endpoint: a text is refused by std::invalid_argument, or what it makes says in to_string()
// something that makes the same again, and stands for the same as the system's address does.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <coir/endpoint.hpp>

#include "fuzz_check.hpp"

namespace {

using coir::net::endpoint;
using coir_fuzz::check;

std::optional<endpoint> parse(std::string_view text) {
  try {
    return endpoint(text);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = parse({reinterpret_cast<const char*>(data), size});
  if (!parsed) return 0;
  const std::string text = parsed->to_string();
  const auto again = parse(text);
  check(again.has_value(), "to_string() is refused");
  check(*again == *parsed, "to_string() makes another endpoint");
  check(again->to_string() == text, "to_string() is another text the second time");
  check(again->port() == parsed->port() && again->family() == parsed->family(), "another port or family");
  check(endpoint(parsed->data(), parsed->size()) == *parsed, "the system's address makes another endpoint");
  return 0;
}
