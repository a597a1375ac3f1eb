// A chat: `chat_server --port N`; without, or with N = 0, it takes a port that is free and prints it. SIGTERM stops it.
// Connect with `nc 127.0.0.1 PORT`. The first line is your name. Then everybody gets your lines, but for `/nick NAME`,
// `/who` and `/quit`.
//
// Each client has two fibers: one reads its lines, the other writes what it is told. One that takes its lines too
// slowly is dropped, by the bound of its queue or by the deadline of a write; one that talks too fast is read more
// slowly, so that its own system holds it back.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <coir/coir.hpp>
#include <coir/net.hpp>

#include "chat/line_reader.hpp"
#include "chat/room.hpp"
#include "common/serve.hpp"

namespace {

using example::chat::line;
using example::chat::line_reader;
using example::chat::member;
using example::chat::room;
using namespace std::chrono_literals;

bool is_name(std::string_view text) {
  constexpr std::size_t longest = 20;
  return !text.empty() && text.size() <= longest && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '-';
  });
}

/// Nobody is to control the terminals of the others.
std::string printable(std::string_view text) {
  std::string result(text);
  std::replace_if(result.begin(), result.end(), [](char c) { return (c >= 0 && c < ' ') || c == 127; }, '?');
  return result;
}

/// Writes the member's lines to its client, until they end or it does not take them.
void write_lines(const member& m) {
  for (const line& text : m.outbox()) {
    std::error_code error;
    m.stream().set_write_deadline(coir::clock::now() + 10s);
    m.stream().write(std::as_bytes(std::span(*text)), error);
    if (error) return m.stream().close();  // wakes the fiber that reads
  }
}

/// The fiber that reads a client's lines.
class reader {
 public:
  reader(member& m, room& r) : member_(m), room_(r) {}
  ~reader() { room_.leave(member_); }  // also when it is cancelled: locking is no cancellation point
  reader(const reader&) = delete;

  void run() {
    if (!introduce()) return;
    member_.tell(room_.names());
    while (const auto text = next_line()) {
      if (*text == "/quit") return;
      if (*text == "/who")
        member_.tell(room_.names());
      else if (text->starts_with("/nick "))
        rename(text->substr(6));
      else if (!text->empty())
        room_.say(member_, printable(*text));
      pace();
    }
  }

 private:
  /// Whether the client has a name, before its patience or ours is over.
  bool introduce() {
    member_.stream().set_read_deadline(coir::clock::now() + 1min);
    member_.tell("* your name?");
    for (int tries = 0; tries < 5; ++tries) {
      const auto text = next_line();
      if (!text) return false;
      if (is_name(*text) && room_.enter(member_, std::string(*text))) {
        member_.stream().set_read_deadline(std::nullopt);
        return true;
      }
      refuse_name();
    }
    return false;
  }

  void rename(std::string_view name) {
    if (!is_name(name) || !room_.rename(member_, std::string(name))) refuse_name();
  }

  void refuse_name() { member_.tell("* that name is taken, or is not of 1 to 20 letters, digits, _ and -"); }

  /// Nothing: the client has gone, or is to go.
  std::optional<std::string_view> next_line() {
    for (;;) {
      if (const auto text = lines_.next()) return text;
      std::error_code error;
      const std::size_t n = lines_.is_too_long() ? 0 : member_.stream().read_some(lines_.room(), error);
      if (n == 0) return std::nullopt;
      lines_.arrived(n);
    }
  }

  /// A thousand lines a second, and fifty at once.
  void pace() {
    next_ = std::max(next_, coir::clock::now()) + 1ms;
    if (next_ > coir::clock::now() + 50ms) coir::sleep_until(next_ - 50ms);
  }

  member& member_;
  room& room_;
  line_reader lines_;
  coir::clock::time_point next_{};
};

void chat(coir::net::tcp_stream& client, room& r) {
  member m(client);
  coir::task<void> writer = coir::spawn([&m] { write_lines(m); });
  reader(m, r).run();
  m.outbox().close();  // what is queued is written
  writer.get();
}

}  // namespace

int main(int argc, char** argv) {
  room everybody;
  return example::server_main(argc, argv, [&](std::uint16_t port) {
    example::serve(port, [&](coir::net::tcp_stream& client) { chat(client, everybody); });
  });
}
