// The libFuzzer entry for the command reader of the example Redis server. The first byte of an input is a number n, the
// n bytes after it are the sizes of pieces, and the rest is what a client sends. In whatever pieces it comes, the
// commands are the same; and the commands, written again as a client writes them, are read as the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz_check.hpp"
#include "pieces.hpp"
#include "redis/command_reader.hpp"
#include "redis/glob.hpp"

namespace {

using coir_fuzz::check;
using example::redis::command_reader;

struct result {
  std::vector<std::vector<std::string>> commands;
  bool malformed = false;

  bool operator==(const result&) const = default;
};

result read(std::string_view text, std::string_view sizes) {
  command_reader reader;
  result r;
  const auto take_all = [&](command_reader& in) {
    for (command_reader::status s; (s = in.next()) != command_reader::status::incomplete;) {
      check((s == command_reader::status::malformed) == in.is_malformed(), "is_malformed() says something else");
      if (in.is_malformed()) return;
      check(!in.command().empty(), "a command without a name");
      r.commands.emplace_back(in.command().begin(), in.command().end());
    }
  };
  coir_fuzz::feed_in_pieces(reader, text, sizes, take_all, [](const command_reader& in) { return in.is_malformed(); });
  r.malformed = reader.is_malformed();
  check(!r.malformed || reader.next() == command_reader::status::malformed, "it reads on after an error");
  return r;
}

std::string write(const result& r) {
  std::string text;
  for (const auto& command : r.commands) {
    text += '*' + std::to_string(command.size()) + "\r\n";
    for (const std::string& argument : command)
      text += '$' + std::to_string(argument.size()) + "\r\n" + argument + "\r\n";
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.empty()) return 0;
  const std::string_view sizes = input.substr(1, static_cast<std::uint8_t>(input[0]));
  input.remove_prefix(1 + sizes.size());

  const result whole = read(input, {});
  check(read(input, sizes) == whole, "other commands in pieces");
  check(read(input, {"\0", 1}) == whole, "other commands byte by byte");
  check(read(write(whole), sizes).commands == whole.commands, "other commands when written again");

  // The first two arguments as a pattern and a text: it must only end.
  if (!whole.commands.empty() && whole.commands[0].size() >= 2)
    example::redis::matches(whole.commands[0][0], whole.commands[0][1]);
  return 0;
}
