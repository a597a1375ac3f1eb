#include "choices.hpp"

#include <charconv>
#include <stdexcept>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::string_view version = "x1/";
constexpr std::uint64_t most_choices = 100'000'000;

[[noreturn]] void refuse(std::string_view text) {
  throw std::invalid_argument("coir: \"" + std::string(text) + "\" is no schedule");
}

/// Reads a number off the front of `rest`.
template <class T>
bool read(std::string_view& rest, T& number, int base = 10) {
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number, base);
  if (error != std::errc()) return false;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return true;
}

bool skip(std::string_view& rest, char c) {
  if (rest.empty() || rest.front() != c) return false;
  rest.remove_prefix(1);
  return true;
}

}  // namespace

std::string schedule::text() const {
  std::string out(version);
  out += std::to_string(count) + '/';
  std::size_t last = 0;
  bool first = true;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (taken[i] == 0) continue;
    if (!first) out += '+';
    out += std::to_string(i - last) + '.' + std::to_string(taken[i]);
    last = i;
    first = false;
  }
  char sum[9];
  const auto end = std::to_chars(sum, sum + sizeof sum, check, 16).ptr;
  return out + '/' + std::string(sum, end);
}

schedule schedule::parse(std::string_view text) {
  schedule s;
  std::string_view rest = text;
  if (rest.substr(0, version.size()) != version) refuse(text);
  rest.remove_prefix(version.size());
  if (!read(rest, s.count) || !skip(rest, '/') || s.count > most_choices) refuse(text);
  std::uint64_t at = 0;
  while (!rest.empty() && rest.front() != '/') {
    std::uint64_t distance = 0;
    std::uint32_t taken = 0;
    if (!read(rest, distance) || !skip(rest, '.') || !read(rest, taken) || distance >= most_choices) refuse(text);
    at += distance;
    if (at >= s.count || (at < s.taken.size() && s.taken[at] != 0)) refuse(text);
    s.taken.resize(at + 1);
    s.taken[at] = taken;
    if (!skip(rest, '+') && (rest.empty() || rest.front() != '/')) refuse(text);
  }
  if (!skip(rest, '/') || !read(rest, s.check, 16) || !rest.empty()) refuse(text);
  return s;
}

}  // namespace coir::detail
