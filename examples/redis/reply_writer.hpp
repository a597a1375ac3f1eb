// Writes the replies of a Redis server (RESP2), one after the other into one text.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace example::redis {

class reply_writer {
 public:
  void simple(std::string_view text) { line('+', text); }

  /// Begins with its kind, in capitals: "ERR syntax error". Must not contain the end of a line.
  void error(std::string_view text) { line('-', text); }

  void integer(std::int64_t n) { number(':', n); }
  void nil() { text_ += "$-1\r\n"; }

  /// Any bytes.
  void bulk(std::string_view bytes) {
    number('$', static_cast<std::int64_t>(bytes.size()));
    text_ += bytes;
    text_ += "\r\n";
  }

  /// The n replies that follow are its elements.
  void array(std::size_t n) { number('*', static_cast<std::int64_t>(n)); }

  const std::string& text() const noexcept { return text_; }

  /// Keeps the memory, unless it is much.
  void clear() {
    text_.clear();
    if (text_.capacity() > 1024 * 1024) text_.shrink_to_fit();
  }

 private:
  void line(char kind, std::string_view text) {
    text_ += kind;
    text_ += text;
    text_ += "\r\n";
  }

  void number(char kind, std::int64_t n) {
    char digits[20];
    line(kind, {digits, std::to_chars(digits, digits + sizeof digits, n).ptr});
  }

  std::string text_;
};

}  // namespace example::redis
