// A server that Redis clients can talk to: `redis_server --port N`; without, or with N = 0, it takes a port that is
// free and prints it. SIGTERM stops it. It keeps strings in memory, knows the commands of the table below, and has
// neither passwords nor persistence.
//
// Each client has a fiber, which reads what has come, runs the commands in it, and writes all the replies at once: so a
// pipeline costs one read and one write. What is no protocol ends that client alone, after a reply that says why.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <coir/coir.hpp>
#include <coir/net.hpp>

#include "common/serve.hpp"
#include "redis/command_reader.hpp"
#include "redis/glob.hpp"
#include "redis/reply_writer.hpp"
#include "redis/store.hpp"

namespace {

using example::redis::arguments;
using example::redis::command_reader;
using example::redis::reply_writer;
using example::redis::store;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr std::string_view no_integer = "ERR value is not an integer or out of range";

bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

/// What is n units from now; nothing: too far away.
std::optional<store::clock::time_point> after(std::int64_t n, milliseconds unit) {
  constexpr std::int64_t furthest = 100LL * 365 * 24 * 3600 * 1000;  // milliseconds: a hundred years
  if (n > furthest / unit.count() || n < -furthest / unit.count()) return std::nullopt;
  return store::clock::now() + n * unit;
}

// ---- the commands: what they find in the store, as a reply

void ping(store&, arguments a, reply_writer& reply) {
  if (a.size() == 1)
    reply.simple("PONG");
  else
    reply.bulk(a[1]);
}

void get(store& data, arguments a, reply_writer& reply) {
  if (!data.get(a[1], [&](std::string_view value) { reply.bulk(value); })) reply.nil();
}

void set(store& data, arguments a, reply_writer& reply) {
  store::clock::time_point expires = store::never;
  store::condition when = store::condition::always;
  for (std::size_t i = 3; i < a.size(); ++i) {
    const bool ex = same_word(a[i], "EX"), px = same_word(a[i], "PX");
    const bool nx = same_word(a[i], "NX"), xx = same_word(a[i], "XX");
    if ((nx || xx) && when == store::condition::always) {
      when = nx ? store::condition::if_absent : store::condition::if_present;
    } else if ((ex || px) && expires == store::never && i + 1 < a.size()) {
      const auto n = number(a[++i]);
      if (!n) return reply.error(no_integer);
      const auto time = after(*n, ex ? 1s : 1ms);
      if (*n <= 0 || !time) return reply.error("ERR invalid expire time in 'set' command");
      expires = *time;
    } else {
      return reply.error("ERR syntax error");
    }
  }
  if (data.set(a[1], a[2], expires, when))
    reply.simple("OK");
  else
    reply.nil();
}

void count_of(arguments keys, reply_writer& reply, auto&& counts) {
  reply.integer(std::count_if(keys.begin(), keys.end(), counts));
}

void del(store& data, arguments a, reply_writer& reply) {
  count_of(a.subspan(1), reply, [&](std::string_view key) { return data.erase(key); });
}

void exists(store& data, arguments a, reply_writer& reply) {
  count_of(a.subspan(1), reply, [&](std::string_view key) { return data.contains(key); });
}

void incr(store& data, arguments a, reply_writer& reply) {
  if (const auto n = data.increment(a[1]))
    reply.integer(*n);
  else
    reply.error(no_integer);
}

void expire(store& data, arguments a, reply_writer& reply) {
  const auto seconds = number(a[2]);
  if (!seconds) return reply.error(no_integer);
  const auto when = after(*seconds, 1s);
  if (!when) return reply.error("ERR invalid expire time in 'expire' command");
  reply.integer(data.expire(a[1], *when) ? 1 : 0);
}

void ttl(store& data, arguments a, reply_writer& reply) {
  const auto when = data.expiry(a[1]);
  if (!when) return reply.integer(-2);
  if (*when == store::never) return reply.integer(-1);
  reply.integer(std::chrono::round<std::chrono::seconds>(*when - store::clock::now()).count());
}

void keys(store& data, arguments a, reply_writer& reply) {
  std::vector<std::string> found;
  data.for_each_key([&](std::string_view key) {
    if (example::redis::matches(a[1], key)) found.emplace_back(key);
  });
  reply.array(found.size());
  for (const std::string& key : found) reply.bulk(key);
}

// What redis-cli and redis-benchmark ask before they begin: we have no settings, and nothing to say of the commands.

void config(store&, arguments a, reply_writer& reply) {
  if (a.size() != 3 || !same_word(a[1], "GET")) return reply.error("ERR only CONFIG GET is known");
  reply.array(2);
  reply.bulk(a[2]);
  reply.bulk("");
}

void command(store&, arguments, reply_writer& reply) { reply.array(0); }
void info(store&, arguments, reply_writer& reply) { reply.bulk("# Server\r\nredis_mode:standalone\r\n"); }

struct known_command {
  std::string_view name;
  std::size_t least, most;  // arguments, with the name
  void (*run)(store&, arguments, reply_writer&);
};

constexpr std::size_t any = command_reader::max_arguments;
constexpr std::array known_commands{
    known_command{"GET", 2, 2, get},         known_command{"SET", 3, any, set},
    known_command{"INCR", 2, 2, incr},       known_command{"DEL", 2, any, del},
    known_command{"EXISTS", 2, any, exists}, known_command{"EXPIRE", 3, 3, expire},
    known_command{"TTL", 2, 2, ttl},         known_command{"KEYS", 2, 2, keys},
    known_command{"PING", 1, 2, ping},       known_command{"ECHO", 2, 2, ping},
    known_command{"CONFIG", 2, any, config}, known_command{"COMMAND", 1, any, command},
    known_command{"INFO", 1, any, info},
};

void run(store& data, arguments a, reply_writer& reply) {
  const auto known = std::find_if(known_commands.begin(), known_commands.end(),
                                  [&](const known_command& c) { return same_word(c.name, a[0]); });
  if (known == known_commands.end())
    reply.error("ERR unknown command");
  else if (a.size() < known->least || a.size() > known->most)
    reply.error("ERR wrong number of arguments for '" + std::string(known->name) + "'");
  else
    known->run(data, a, reply);
}

// ---- the connections

class client {
 public:
  client(coir::net::tcp_stream& stream, store& data) : stream_(stream), data_(data) {}

  void serve() {
    const std::stop_token stop = coir::this_fiber::stop_token();
    while (!reader_.is_malformed() && !stop.stop_requested()) {
      std::error_code error;
      const std::size_t n = stream_.read_some(reader_.room(), error);
      if (error || n == 0) return;
      reader_.arrived(n);
      if (!run_all()) return;
    }
  }

 private:
  /// The commands that have come; false: the client does not take the replies.
  bool run_all() {
    while (reader_.next() == command_reader::status::command) {
      run(data_, reader_.command(), reply_);
      if (reply_.text().size() > 256 * 1024 && !send_replies()) return false;
    }
    if (reader_.is_malformed()) reply_.error("ERR Protocol error: " + std::string(reader_.error()));
    return send_replies();
  }

  bool send_replies() {
    std::error_code error;
    stream_.set_write_deadline(coir::clock::now() + 30s);
    stream_.write(std::as_bytes(std::span(reply_.text())), error);
    reply_.clear();
    return !error;
  }

  coir::net::tcp_stream& stream_;
  store& data_;
  command_reader reader_;
  reply_writer reply_;
};

}  // namespace

int main(int argc, char** argv) {
  store data;
  return example::server_main(argc, argv, [&data](std::uint16_t port) {
    const coir::task<void> sweeper = coir::spawn([&data] {
      for (;; coir::sleep_for(1s)) data.sweep();
    });
    example::serve(port, [&data](coir::net::tcp_stream& stream) { client(stream, data).serve(); });
  });
}
