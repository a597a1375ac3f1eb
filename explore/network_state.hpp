// What the simulated network consists of. See network.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <sys/uio.h>

#include <coir/detail/abi.hpp>
#include <coir/endpoint.hpp>

#include "network.hpp"

namespace coir::inline COIR_ABI::detail {

inline constexpr int nobody_there = -1;  // instead of a number

/// Copies as much of `bytes` as there is room for into the buffers, and returns how much.
inline std::size_t scatter(std::string_view bytes, std::span<const ::iovec> into) noexcept {
  std::size_t done = 0;
  for (const ::iovec& part : into) done += bytes.copy(static_cast<char*>(part.iov_base), part.iov_len, done);
  return done;
}

/// The first bytes of the buffers, `most` at most.
inline std::string gather(std::span<const ::iovec> from, std::size_t most) {
  std::string bytes;
  for (const ::iovec& part : from)
    bytes.append(static_cast<const char*>(part.iov_base), std::min(part.iov_len, most - bytes.size()));
  return bytes;
}

/// A part of what is on the way.
struct network::segment {
  enum class kind : std::uint8_t { bytes, end, reset };

  kind what;
  std::string bytes{};
};

/// What a connection carries to one of its ends, and that end.
struct network::half {
  static constexpr std::size_t capacity = 65'536;

  std::string carrier{};  // the name of its fiber
  std::deque<segment> on_the_way{};
  std::string arrived{};
  std::size_t size = 0;
  int number = nobody_there;  // of the socket at this end: not accepted yet, or closed
  int error = 0;              // is reported once, and after `ended` to a write alone
  bool carried = false;
  bool complete = false;       // the other end sends nothing more
  bool ended = false;          // its end has arrived here
  bool closed = false;         // the socket at this end is
  bool reads_no_more = false;  // shut down
  bool broken = false;         // the connection is no more, as this end knows
  bool awaited = false;        // the other end has found no room

  std::size_t room() const noexcept { return capacity - size; }
  bool is_shut_down() const noexcept { return complete || reads_no_more; }
};

struct network::connection {
  static constexpr unsigned client_end = 0;
  static constexpr unsigned server_end = 1;

  /// Whether both directions are shut down. To poll() a local socket hangs up then, and not before.
  bool hangs_up() const noexcept { return to[0].is_shut_down() && to[1].is_shut_down(); }

  /// Whether that end has no peer any more: after a reset, or when both ends have come. A local socket keeps its peer.
  bool is_over(unsigned end) const noexcept { return !instant && (to[end].broken || (to[0].ended && to[1].ended)); }

  half to[2]{};          // each end
  bool instant = false;  // a local one: what is sent arrives at once
  bool is_pipe = false;  // from the second end to the first
  net::endpoint client{};
  net::endpoint server{};
};

struct network::socket {
  enum class phase : std::uint8_t { fresh, listening, connecting, connected };
  struct datagram {
    std::string bytes;
    net::endpoint from;
  };

  socket(int n, int f, int t) noexcept : number(n), family(f), type(t) {}

  bool is_stream() const noexcept { return type == SOCK_STREAM; }

  int number;  // nobody_there: closed
  const int family;
  const int type;
  phase is = phase::fresh;
  bool only_ipv6 = false;
  bool shares_port = false;
  bool reuses_address = false;
  int error = 0;         // is reported once
  net::endpoint at{};    // no family: not bound
  net::endpoint peer{};  // of datagrams, if connected

  shared_connection joined{};  // if connected
  unsigned end = 0;

  int backlog = 0;  // if listening
  std::deque<shared_connection> waiting{};

  static constexpr std::size_t most_datagrams = 256;
  std::deque<datagram> datagrams{};
};

}  // namespace coir::detail
