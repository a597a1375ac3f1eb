// Connections of the simulated network: what their ends send and receive, and how they end. As Linux does it:
//   - What has arrived can be read after a reset. Then the error is reported once, to a read or a write. After that,
//     reads return 0, and writes fail with EPIPE.
//   - If the peer's end came before the reset, reads return 0, and the error of the first write is EPIPE, too.
//   - At a local socket, writes fail with EPIPE, and leave the error to a read.
#include <cerrno>
#include <chrono>
#include <climits>
#include <utility>

#include <sys/epoll.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

#include "base/sanitizer.hpp"
#include "network.hpp"
#include "network_carrier.hpp"
#include "network_state.hpp"
#include "unobserved.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

// How long Linux repeats what is not acknowledged (net.ipv4.tcp_retries2).
constexpr std::chrono::seconds patience_of_bytes(924);

constexpr std::uint32_t all_events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP | EPOLLERR;

}  // namespace

void network::report(const connection& c, unsigned end, std::uint32_t events) {
  if (c.to[end].number != nobody_there) descriptor::report(c.to[end].number, events);
}

// There may be room in that half again.
void network::report_room(connection& c, unsigned end) {
  if (std::exchange(c.to[end].awaited, false)) report(c, 1 - end, EPOLLOUT);
}

// ---- reading and writing -------------------------------------------------------------------------------------------

network::size network::read(int fd, std::span<const ::iovec> to) {
  socket& s = *find(fd);
  return s.is_stream() ? read_stream(s, to) : receive(fd, to, nullptr);
}

network::size network::write(int fd, std::span<const ::iovec> from) {
  socket& s = *find(fd);
  if (s.is_stream()) return write_stream(s, from);
  if (s.is != socket::phase::connected) return -EDESTADDRREQ;
  return send_to(fd, gather(from, std::string::npos), s.peer);
}

network::size network::read_stream(socket& s, std::span<const ::iovec> to) {
  if (s.error != 0) return -std::exchange(s.error, 0);
  if (s.is != socket::phase::connected) return -ENOTCONN;
  connection& c = *s.joined;
  if (c.is_pipe && s.end != connection::client_end) return -EBADF;
  half& h = c.to[s.end];
  tsan_acquire(&h);
  if (const std::size_t done = scatter(h.arrived, to); done != 0) {
    h.arrived.erase(0, done);
    h.size -= done;
    report_room(c, s.end);
    return static_cast<size>(done);
  }
  if (h.ended && !(c.instant && h.error != 0)) return 0;
  if (h.error != 0) return -std::exchange(h.error, 0);
  return h.broken || h.reads_no_more ? 0 : -EAGAIN;
}

network::size network::write_stream(socket& s, std::span<const ::iovec> from) {
  if (s.error != 0) return -std::exchange(s.error, 0);
  if (s.is != socket::phase::connected) return -EPIPE;
  const shared_connection c = s.joined;
  if (c->is_pipe && s.end != connection::server_end) return -EBADF;
  const unsigned end = 1 - s.end;
  half& mine = c->to[s.end];
  half& h = c->to[end];
  if (c->instant && (h.closed || h.reads_no_more)) return -EPIPE;
  if (!c->instant && mine.error != 0) return -std::exchange(mine.error, 0);
  if (mine.broken || h.complete) return -EPIPE;
  std::size_t all = 0;
  for (const ::iovec& part : from) all += part.iov_len;
  const bool is_atomic = c->is_pipe && all <= PIPE_BUF;
  if (h.room() < (is_atomic ? all : 1)) {
    h.awaited = true;
    return -EAGAIN;
  }
  tsan_release(&h);
  std::string bytes = gather(from, h.room());
  const std::size_t n = bytes.size();
  const std::uint32_t split = n > 1 && !c->instant && options_.split ? choose_one_of(operation::split, 3) : 0;
  const std::size_t first = split == 0 ? n : split == 1 ? 1 : n / 2;
  if (first != n) send_segment(c, end, {segment::kind::bytes, bytes.substr(0, first)});
  send_segment(c, end, {segment::kind::bytes, first == n ? std::move(bytes) : bytes.substr(first)});
  return static_cast<size>(n);
}

void network::send_segment(const shared_connection& c, unsigned end, segment s) {
  half& h = c->to[end];
  h.size += s.bytes.size();
  h.on_the_way.push_back(std::move(s));
  if (c->instant) return arrive(*c, end);
  if (std::exchange(h.carried, true)) return;
  start_carrier(h.carrier, [this, c, end] {
    const unobserved bookkeeping;
    carry(c, end);
  });
}

// By a carrier.
void network::carry(const shared_connection& c, unsigned end) {
  half& h = c->to[end];
  while (!h.on_the_way.empty()) {
    delay();
    if (!wait_until_reachable(c->server, deadline_after(patience_of_bytes))) {
      break_off(*c, 1 - end, ETIMEDOUT);
      break;
    }
    decide(operation::arrive, c.get());
    if (h.on_the_way.empty()) break;  // reset meanwhile
    if (happens(operation::reset, resets_left_)) {
      break_off(*c, connection::client_end, ECONNRESET);
      break_off(*c, connection::server_end, ECONNRESET);
      break;
    }
    arrive(*c, end);
  }
  h.carried = false;
}

// The first segment on the way.
void network::arrive(connection& c, unsigned end) {
  half& h = c.to[end];
  segment s = std::move(h.on_the_way.front());
  h.on_the_way.pop_front();
  switch (s.what) {
    case segment::kind::bytes:
      if (h.closed || h.broken || (h.reads_no_more && c.to[1 - end].complete && !c.instant)) {
        h.size -= s.bytes.size();
        while (!c.to[1 - end].on_the_way.empty()) arrive(c, 1 - end);  // it was sent before the reset
        break_off(c, end, ECONNRESET);
        return break_off(c, 1 - end, ECONNRESET);
      }
      h.arrived += s.bytes;
      return report(c, end, EPOLLIN);
    case segment::kind::end:
      h.ended = true;
      return report(c, end, EPOLLIN | EPOLLRDHUP);
    case segment::kind::reset:
      return break_off(c, end, ECONNRESET);
  }
}

// ---- ends ----------------------------------------------------------------------------------------------------------

// That end learns that the connection is no more.
void network::break_off(connection& c, unsigned end, int error) {
  half& h = c.to[end];
  if (h.broken) return;
  h.broken = true;
  h.error = h.ended && !c.instant && error == ECONNRESET ? EPIPE : error;
  for (const unsigned each : {end, 1 - end}) {
    c.to[each].on_the_way.clear();
    c.to[each].size = c.to[each].arrived.size();
    report_room(c, each);
  }
  report(c, end, all_events);
}

// Nothing more is sent to that end.
void network::end_half(const shared_connection& c, unsigned end) {
  if (std::exchange(c->to[end].complete, true)) return;
  send_segment(c, end, {segment::kind::end});
}

// The socket at that end is closed.
void network::hang_up(const shared_connection& c, unsigned end) {
  half& mine = c->to[end];
  const unsigned other = 1 - end;
  const bool unread = !mine.arrived.empty() && !c->is_pipe;
  mine.closed = true;
  mine.number = nobody_there;
  mine.size -= mine.arrived.size();
  mine.arrived.clear();
  report_room(*c, end);
  if (mine.broken) return;
  if (unread) {
    c->to[other].complete = true;
    send_segment(c, other, {segment::kind::reset});
  } else if (!c->is_pipe || end == connection::server_end) {
    end_half(c, other);
  }
  if (c->instant) report(*c, other, EPOLLOUT | EPOLLHUP);  // what it writes fails now
}

network::size network::shut_down(int fd, int how) {
  const socket& s = *find(fd);
  if (!s.is_stream() || s.is != socket::phase::connected) return -ENOTCONN;
  const shared_connection c = s.joined;
  if (c->is_over(s.end)) return -ENOTCONN;
  if (c->to[s.end].broken) return 0;
  if (how != SHUT_RD) {
    end_half(c, 1 - s.end);
    if (!c->instant) report(*c, s.end, EPOLLOUT);  // who waits for room there fails now
  }
  if (how != SHUT_WR) {
    c->to[s.end].reads_no_more = true;
    report(*c, s.end, EPOLLIN | EPOLLRDHUP);
  }
  if (c->instant && c->hangs_up())
    for (const unsigned end : {s.end, 1 - s.end}) report(*c, end, EPOLLOUT | EPOLLHUP);
  return 0;
}

}  // namespace coir::detail
