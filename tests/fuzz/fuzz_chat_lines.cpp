// The libFuzzer entry for the line reader of the example chat server. The first byte of an input is a number n, the n
// bytes after it are the sizes of pieces, and the rest is what a client sends. In whatever pieces it comes, the lines
// are the same: those that the text has, up to one that is too long.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "chat/line_reader.hpp"
#include "fuzz_check.hpp"
#include "pieces.hpp"

namespace {

using coir_fuzz::check;
using example::chat::line_reader;

struct result {
  std::vector<std::string> lines;
  bool is_too_long = false;

  bool operator==(const result&) const = default;
};

result read(std::string_view text, std::string_view sizes) {
  line_reader reader;
  result r;
  const auto take_all = [&](line_reader& in) {
    while (const auto line = in.next()) r.lines.emplace_back(*line);
  };
  coir_fuzz::feed_in_pieces(reader, text, sizes, take_all, [](const line_reader& in) { return in.is_too_long(); });
  r.is_too_long = reader.is_too_long();
  return r;
}

/// The same without a reader.
result split(std::string_view text) {
  result r;
  while (!r.is_too_long) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) {
      r.is_too_long = text.size() >= line_reader::max_line;
      break;
    }
    r.is_too_long = end >= line_reader::max_line;
    if (r.is_too_long) break;
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    r.lines.emplace_back(line);
    text.remove_prefix(end + 1);
  }
  return r;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.empty()) return 0;
  const std::string_view sizes = input.substr(1, static_cast<std::uint8_t>(input[0]));
  input.remove_prefix(1 + sizes.size());

  const result expected = split(input);
  check(read(input, {}) == expected, "other lines than the text has");
  check(read(input, sizes) == expected, "other lines in pieces");
  check(read(input, {"\0", 1}) == expected, "other lines byte by byte");
  return 0;
}
