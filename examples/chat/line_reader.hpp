// Reads lines of text that come in pieces.
//
//   for (;;) {
//     while (const auto line = lines.next()) use(*line);
//     if (lines.is_too_long()) ...                     // whoever sends that is up to no good
//     lines.arrived(stream.read_some(lines.room()));
//   }
//
// Invariant: [begin_, end_) of the buffer is what has come and was not taken yet; it is shorter than a line may be
// whenever next() has returned nothing. How the input is split makes no difference to the lines.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace example::chat {

class line_reader {
 public:
  static constexpr std::size_t max_line = 1000;  ///< bytes, with its end

  /// Where the next bytes go; not empty after next() has returned nothing. The lines are not valid any more.
  std::span<std::byte> room() noexcept {
    std::copy(buffer_.begin() + begin_, buffer_.begin() + end_, buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
    return std::as_writable_bytes(std::span(buffer_).subspan(static_cast<std::size_t>(end_)));
  }

  /// The first n bytes of room() have been filled.
  void arrived(std::size_t n) noexcept { end_ += static_cast<std::ptrdiff_t>(n); }

  /// The next line without its "\n" or "\r\n"; nothing: it has not come yet, or it is too long.
  std::optional<std::string_view> next() noexcept {
    const std::string_view text(buffer_.data() + begin_, static_cast<std::size_t>(end_ - begin_));
    const std::size_t size = text.substr(0, max_line).find('\n');
    if (is_too_long_ || size == text.npos) {
      is_too_long_ = is_too_long_ || text.size() >= max_line;
      return std::nullopt;
    }
    begin_ += static_cast<std::ptrdiff_t>(size) + 1;
    return text.substr(0, size > 0 && text[size - 1] == '\r' ? size - 1 : size);
  }

  /// Nothing of use follows.
  bool is_too_long() const noexcept { return is_too_long_; }

 private:
  std::array<char, 4096> buffer_;
  std::ptrdiff_t begin_ = 0;
  std::ptrdiff_t end_ = 0;
  bool is_too_long_ = false;
};

}  // namespace example::chat
