#include "base/debug_options.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::int64_t millisecond = 1'000'000;

/// An option whose value is a whole number of `unit`s.
struct number_option {
  std::string_view name;
  std::int64_t debug_options::* member;
  std::int64_t unit;
  std::int64_t largest;  // in units
  const char* expected;  // completes "COIR_DEBUG: NAME is "VALUE", not ..."
};

constexpr std::array number_options = {
    number_option{"blocked", &debug_options::blocked, millisecond, 86'400'000,
                  "a number of milliseconds from 0 to 86400000"},
    number_option{"heldlock", &debug_options::heldlock, 1, 1, "0 or 1"},
    number_option{"schedtrace", &debug_options::schedtrace, millisecond, 86'400'000,
                  "a number of milliseconds from 0 to 86400000"},
    number_option{"slowslice", &debug_options::slowslice, millisecond, 86'400'000,
                  "a number of milliseconds from 0 to 86400000"},
    number_option{"stackuse", &debug_options::stackuse, 1, 1, "0 or 1"},
};

[[noreturn]] void reject(const std::string& why) { throw std::invalid_argument("coir: COIR_DEBUG: " + why); }

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

void set(debug_options& result, std::string_view item) {
  const std::size_t equals = item.find('=');
  if (equals == std::string_view::npos) reject(quoted(item) + " is not name=value");
  const std::string_view name = item.substr(0, equals);
  const std::string_view value = item.substr(equals + 1);
  for (const number_option& each : number_options) {
    if (each.name != name) continue;
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
    if (error != std::errc{} || end != value.data() + value.size() || n < 0 || n > each.largest)
      reject(std::string(name) + " is " + quoted(value) + ", not " + each.expected);
    result.*each.member = n * each.unit;
    return;
  }
  std::string known;
  for (const number_option& each : number_options) {
    if (!known.empty()) known += ", ";
    known += each.name;
  }
  reject("no option is called " + quoted(name) + "; there are: " + known);
}

}  // namespace

debug_options debug_options::parse(std::string_view text) {
  debug_options result;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    set(result, text.substr(0, comma));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) reject("it ends in a comma");
  }
  return result;
}

debug_options debug_options::from_environment() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
  const char* text = std::getenv("COIR_DEBUG");
  return text != nullptr ? parse(text) : debug_options{};
}

}  // namespace coir::detail
