// Reads the commands that a Redis client sends (RESP2): arrays of bulk strings, and lines of words, as typed by hand.
//
//   for (;;) {
//     while (reader.next() == command_reader::status::command) run(reader.command());
//     if (reader.is_malformed()) ...                     // this connection is of no use any more
//     reader.arrived(stream.read_some(reader.room()));
//   }
//
// The arguments are views into the buffer: nothing is copied, and nothing allocated for a command. What is incomplete
// is parsed again from its start when more has come; a length alone is looked at of a bulk string, so that is cheap.
//
// Invariants: [begin_, end_) of the buffer is what has come and was not taken yet. All that is kept is bounded: the
// buffer grows as bytes come, never by what a length announces, and a command that is too long is malformed. Whether
// and how the input is split makes no difference to the commands.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace example::redis {

/// A command's name and what follows it.
using arguments = std::span<const std::string_view>;

class command_reader {
 public:
  static constexpr std::size_t max_command = 16 * 1024 * 1024;  ///< bytes
  static constexpr std::size_t max_line = 16 * 1024;            ///< bytes of a command typed by hand
  static constexpr std::size_t max_arguments = 1024;

  enum class status { command, incomplete, malformed };

  command_reader() : buffer_(usual_size) {}

  /// Where the next bytes go; not empty. What command() returned is not valid any more.
  std::span<std::byte> room() {
    if (begin_ == end_) {
      begin_ = end_ = 0;
      if (buffer_.size() > usual_size) std::vector<char>(usual_size).swap(buffer_);  // after a large command
    } else if (buffer_.size() - end_ < usual_size / 4) {
      if (begin_ > 0) std::copy(at(begin_), at(end_), at(0));
      end_ -= begin_;
      begin_ = 0;
      if (end_ > buffer_.size() / 2) buffer_.resize(buffer_.size() * 2);
    }
    return std::as_writable_bytes(std::span(buffer_).subspan(end_));
  }

  /// The first n bytes of room() have been filled.
  void arrived(std::size_t n) noexcept { end_ += n; }

  /// Takes the next command. After `malformed` it is always malformed.
  status next() {
    for (;;) {
      arguments_.clear();
      if (begin_ == end_ && error_ == nullptr) return status::incomplete;
      scanner in{{buffer_.data() + begin_, end_ - begin_}};
      const status result = error_ != nullptr ? status::malformed : *in.rest.data() == '*' ? array(in) : line(in);
      if (result != status::command) return result;
      begin_ = end_ - in.rest.size();
      if (!arguments_.empty()) return status::command;  // an empty one is none
    }
  }

  /// Its name and its arguments: at least one.
  arguments command() const noexcept { return arguments_; }

  bool is_malformed() const noexcept { return error_ != nullptr; }
  const char* error() const noexcept { return error_; }  ///< why it is malformed

 private:
  static constexpr std::size_t usual_size = 16 * 1024;

  /// What is still to be parsed.
  struct scanner {
    std::string_view rest;

    /// "*12\r\n", with the prefix '*': 12.
    status number(char prefix, std::size_t& n) noexcept {
      constexpr std::size_t max_digits = 9;
      if (rest.empty()) return status::incomplete;
      if (rest.front() != prefix) return status::malformed;
      std::size_t i = 1;
      for (n = 0; i < rest.size() && rest[i] >= '0' && rest[i] <= '9'; ++i) {
        if (i > max_digits) return status::malformed;
        n = n * 10 + static_cast<std::size_t>(rest[i] - '0');
      }
      if (i == 1 && i < rest.size()) return status::malformed;
      return end_of_line(i);
    }

    /// n bytes of any kind, and the end of the line.
    status bulk(std::size_t n, std::string_view& text) noexcept {
      if (rest.size() < n) return status::incomplete;
      text = rest.substr(0, n);
      return end_of_line(n);
    }

    /// Skips the first i bytes and the "\r\n" that must follow.
    status end_of_line(std::size_t i) noexcept {
      if (i < rest.size() && rest[i] != '\r') return status::malformed;
      if (i + 1 < rest.size() && rest[i + 1] != '\n') return status::malformed;
      if (i + 1 >= rest.size()) return status::incomplete;
      rest.remove_prefix(i + 2);
      return status::command;
    }
  };

  char* at(std::size_t i) noexcept { return buffer_.data() + i; }

  status malformed(const char* why) noexcept {
    error_ = why;
    return status::malformed;
  }

  /// "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"
  status array(scanner& in) {
    const std::size_t whole = in.rest.size();
    status result = array_elements(in);
    const std::size_t taken = result == status::command ? whole - in.rest.size() : whole;
    if (result != status::malformed && taken > max_command) result = malformed("too big a command");
    return result;
  }

  status array_elements(scanner& in) {
    std::size_t count = 0;
    if (const status s = in.number('*', count); s != status::command)
      return s == status::malformed ? malformed("invalid multibulk length") : s;
    if (count > max_arguments) return malformed("too many arguments");
    for (; count > 0; --count) {
      std::size_t size = 0;
      if (const status s = in.number('$', size); s != status::command)
        return s == status::malformed ? malformed("invalid bulk length") : s;
      if (size > max_command) return malformed("too big a bulk string");
      std::string_view& text = arguments_.emplace_back();
      if (const status s = in.bulk(size, text); s != status::command)
        return s == status::malformed ? malformed("a bulk string is longer than it says") : s;
    }
    return status::command;
  }

  /// "GET key\r\n": words without quotes.
  status line(scanner& in) {
    const std::size_t end = in.rest.substr(0, max_line).find('\n');
    if (end == in.rest.npos) return in.rest.size() < max_line ? status::incomplete : malformed("too big a line");
    constexpr std::string_view spaces = " \t\r";
    std::string_view words = in.rest.substr(0, end);
    while (words.size() > words.find_first_not_of(spaces)) {
      words.remove_prefix(words.find_first_not_of(spaces));
      if (arguments_.size() == max_arguments) return malformed("too many arguments");
      arguments_.push_back(words.substr(0, words.find_first_of(spaces)));
      words.remove_prefix(arguments_.back().size());
    }
    in.rest.remove_prefix(end + 1);
    return status::command;
  }

  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::vector<std::string_view> arguments_;
  const char* error_ = nullptr;
};

}  // namespace example::redis
