#include "network.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>

#include <netinet/in.h>
#include <sys/epoll.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/start_record.hpp>

#include "base/sanitizer.hpp"
#include "engine.hpp"
#include "network_addresses.hpp"
#include "network_carrier.hpp"
#include "network_state.hpp"
#include "sched/scheduler.hpp"
#include "unobserved.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::uint16_t first_free_port = 32'768;

// As Linux does it: how long a connection is tried, and how often if the listener has no room.
constexpr std::chrono::seconds patience_of_connect(127);
constexpr std::chrono::seconds until_next_try(1);

/// As a socket of that family sees it.
net::endpoint as_seen_by(int family, const net::endpoint& e) noexcept {
  if (family == AF_INET6) return mapped(e);
  if (family != AF_UNIX || e.family() == AF_UNIX) return e;
  constexpr ::sa_family_t unnamed = AF_UNIX;
  return {reinterpret_cast<const ::sockaddr*>(&unnamed), sizeof unnamed};
}

bool has_name_in_file_system(const net::endpoint& e) noexcept { return !e.to_string().starts_with("unix:@"); }

}  // namespace

network::~network() = default;

network& network::here() noexcept {
  return static_cast<engine*>(current_worker()->home->explored_by())->simulated_network();
}

void network::begin() noexcept {
  sockets_.clear();
  unreachable_.clear();
  resets_left_ = options_.resets;
  cut_offs_left_ = options_.cut_offs;
  losses_left_ = options_.losses;
  next_port_ = first_free_port;
}

// ---- sockets -------------------------------------------------------------------------------------------------------

network::shared_socket& network::place(int fd) noexcept {
  return sockets_[static_cast<std::size_t>(fd - first_simulated_number)];
}

network::socket* network::find(int fd) const noexcept {
  const auto at = static_cast<std::size_t>(fd - first_simulated_number);
  return at < sockets_.size() ? sockets_[at].get() : nullptr;
}

network::socket& network::add(int family, int type) {
  std::size_t at = 0;  // the lowest free number, as the kernel
  while (at < sockets_.size() && sockets_[at] != nullptr) ++at;
  if (at == sockets_.size()) sockets_.emplace_back();
  sockets_[at] = std::make_shared<socket>(first_simulated_number + static_cast<int>(at), family, type);
  return *sockets_[at];
}

network::size network::open(int family, int type) { return add(family, type).number; }

network::size network::open_pair(int (&ends)[2], bool is_pipe) {
  auto c = std::make_shared<connection>();
  c->instant = true;
  c->is_pipe = is_pipe;
  for (const unsigned end : {connection::client_end, connection::server_end}) {
    socket& s = add(AF_UNIX, SOCK_STREAM);
    s.is = socket::phase::connected;
    s.joined = c;
    s.end = end;
    c->to[end].number = s.number;
    ends[end] = s.number;
  }
  return 0;
}

void network::close(int fd) {
  socket* const found = find(fd);
  if (found == nullptr) return;
  const shared_socket s = std::move(place(fd));
  s->number = nobody_there;
  if (s->is == socket::phase::connected && s->is_stream()) hang_up(s->joined, s->end);
  for (const shared_connection& c : s->waiting) {
    c->to[connection::server_end].closed = true;
    break_off(*c, connection::client_end, ECONNRESET);
  }
}

bool network::in_use(const socket& for_whom, const net::endpoint& at) const noexcept {
  return std::any_of(sockets_.begin(), sockets_.end(), [&](const shared_socket& s) {
    if (s == nullptr || s.get() == &for_whom || s->type != for_whom.type || s->at.family() == AF_UNSPEC) return false;
    // Connections do not keep their address from others that reuse it.
    const bool is_connection = s->is == socket::phase::connected && s->is_stream();
    if (is_connection && (s->family == AF_UNIX || (s->reuses_address && for_whom.reuses_address))) return false;
    if (s->shares_port && for_whom.shares_port) return false;
    return covers(s->at, at, s->only_ipv6) || covers(at, s->at, for_whom.only_ipv6);
  });
}

net::endpoint network::free_address(const socket& for_whom, const net::endpoint& at) {
  net::endpoint found;
  do {
    found = with_port(at, next_port_);
    next_port_ = next_port_ == UINT16_MAX ? first_free_port : static_cast<std::uint16_t>(next_port_ + 1);
  } while (in_use(for_whom, found));
  return found;
}

network::size network::bind(int fd, const net::endpoint& at) {
  socket& s = *find(fd);
  const bool is_ip = at.family() != AF_UNIX;
  if (is_ip && !is_loopback(at) && !is_any_address(at)) return -EADDRNOTAVAIL;
  if (is_ip && at.port() == 0) {
    s.at = free_address(s, at);
    return 0;
  }
  if (in_use(s, at)) return -EADDRINUSE;
  s.at = at;
  return 0;
}

network::size network::listen(int fd, int backlog) {
  socket& s = *find(fd);
  s.is = socket::phase::listening;
  s.backlog = std::max(backlog, 0);
  return 0;
}

network::size network::accept(int fd) {
  socket& s = *find(fd);
  tsan_acquire(&s);
  if (s.is != socket::phase::listening) return -EINVAL;
  if (s.waiting.empty()) return -EAGAIN;
  const shared_connection c = std::move(s.waiting.front());
  s.waiting.pop_front();
  socket& made = add(s.family, SOCK_STREAM);
  made.is = socket::phase::connected;
  made.at = c->server;
  made.reuses_address = s.reuses_address;
  made.joined = c;
  made.end = connection::server_end;
  c->to[made.end].number = made.number;
  return made.number;
}

network::size network::set_option(int fd, int level, int option, int value) {
  socket& s = *find(fd);
  if (level == SOL_SOCKET && option == SO_REUSEPORT) s.shares_port = value != 0;
  if (level == SOL_SOCKET && option == SO_REUSEADDR) s.reuses_address = value != 0;
  if (level == IPPROTO_IPV6 && option == IPV6_V6ONLY) s.only_ipv6 = value != 0;
  return 0;  // the others change nothing here
}

network::size network::local_address(int fd, net::endpoint& into) const {
  const socket& s = *find(fd);
  if (s.at.family() != AF_UNSPEC || s.family == AF_UNIX)
    into = as_seen_by(s.family, s.at);
  else
    into = s.family == AF_INET ? net::endpoint("0.0.0.0:0") : net::endpoint("[::]:0");
  return 0;
}

network::size network::peer_address(int fd, net::endpoint& into) const {
  const socket& s = *find(fd);
  if (s.is != socket::phase::connected) return -ENOTCONN;
  if (!s.is_stream()) {
    into = as_seen_by(s.family, s.peer);
    return 0;
  }
  const connection& c = *s.joined;
  if (c.is_over(s.end)) return -ENOTCONN;
  into = as_seen_by(s.family, s.end == connection::client_end ? c.server : c.client);
  return 0;
}

void network::remove_file(const net::endpoint& at) noexcept {
  for (const shared_socket& s : sockets_)
    if (s != nullptr && s->is == socket::phase::listening && s->at == at) s->at = net::endpoint();
}

bool network::is_ready(int fd, io_way way) noexcept {
  const socket& s = *find(fd);
  if (s.error != 0) return true;
  if (!s.is_stream()) return way == io_way::write || !s.datagrams.empty();
  if (s.is == socket::phase::listening) return way == io_way::read && !s.waiting.empty();
  if (s.is != socket::phase::connected) return s.is == socket::phase::fresh;
  const connection& c = *s.joined;
  const half& mine = c.to[s.end];
  half& other = s.joined->to[1 - s.end];
  if (mine.broken) return true;
  if (way == io_way::read) return !mine.arrived.empty() || mine.ended || mine.reads_no_more;
  if (c.instant ? other.closed || c.hangs_up() : other.complete) return true;
  if (other.room() >= (c.is_pipe ? PIPE_BUF : 1)) return true;
  other.awaited = true;
  return false;
}

// ---- connecting ----------------------------------------------------------------------------------------------------

// One of those that share the port.
network::socket* network::bound_to(int type, const net::endpoint& to) const {
  std::vector<socket*> found;
  for (const shared_socket& s : sockets_)
    if (s != nullptr && s->type == type && (type != SOCK_STREAM || s->is == socket::phase::listening) &&
        covers(s->at, to, s->only_ipv6))
      found.push_back(s.get());
  if (found.size() <= 1) return found.empty() ? nullptr : found.front();
  return found[choose_one_of(operation::connect, static_cast<std::uint32_t>(found.size()))];
}

// Where what is sent to `asked` goes. Returns 0 or -errno.
network::size network::destination(const socket& s, const net::endpoint& asked, net::endpoint& to) {
  if (asked.family() != s.family && (s.family != AF_INET6 || asked.family() != AF_INET)) return -EAFNOSUPPORT;
  const net::endpoint plain = unmapped(asked);
  to = is_any_address(plain) ? loopback_address(plain.family(), plain.port()) : plain;
  if (!is_loopback(to) || (s.only_ipv6 && to.family() == AF_INET)) return -ENETUNREACH;
  return 0;
}

network::size network::connect(int fd, const net::endpoint& asked) {
  socket& s = *find(fd);
  if (!s.is_stream()) return connect_datagrams(s, asked);
  if (s.error != 0) return -std::exchange(s.error, 0);
  if (s.is == socket::phase::connected) return -EISCONN;
  if (s.is == socket::phase::connecting) return -EALREADY;
  if (s.family == AF_UNIX) return connect_local(s, asked);
  net::endpoint to;
  if (const size result = destination(s, asked, to); result < 0) return result;
  if (s.at.family() == AF_UNSPEC) s.at = free_address(s, loopback_address(to.family(), 0));
  s.is = socket::phase::connecting;
  start_carrier("network: connect to " + to.to_string(), [this, client = place(fd), to] {
    const unobserved bookkeeping;
    shake_hands(client, to);
  });
  return -EINPROGRESS;
}

network::size network::connect_local(socket& s, const net::endpoint& to) {
  socket* const server = bound_to(SOCK_STREAM, to);
  if (server == nullptr) return has_name_in_file_system(to) ? -ENOENT : -ECONNREFUSED;
  if (std::cmp_greater(server->waiting.size(), server->backlog)) return -EAGAIN;
  auto c = std::make_shared<connection>();
  c->instant = true;
  c->server = to;
  c->to[connection::client_end].number = s.number;
  s.is = socket::phase::connected;
  s.joined = c;
  s.end = connection::client_end;
  server->waiting.push_back(std::move(c));
  tsan_release(server);
  descriptor::report(server->number, EPOLLIN);
  return 0;
}

void network::fail_to_connect(socket& client, int error) {
  if (client.number == nobody_there) return;
  client.is = socket::phase::fresh;
  client.error = error;
  descriptor::report(client.number, EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP);
}

// By a carrier.
void network::shake_hands(const shared_socket& client, const net::endpoint& to) {
  const deadline gives_up = deadline_after(patience_of_connect);
  delay();
  if (!wait_until_reachable(to, gives_up)) return fail_to_connect(*client, ETIMEDOUT);
  for (;;) {
    decide(operation::arrive, client.get());
    if (reach(client, to)) return;
    if (now() >= gives_up) return fail_to_connect(*client, ETIMEDOUT);
    park_until(deadline_after(until_next_try));
  }
}

// False: the listener has no room.
bool network::reach(const shared_socket& client, const net::endpoint& to) {
  if (client->number == nobody_there) return true;  // closed meanwhile
  socket* const server = bound_to(SOCK_STREAM, to);
  if (server == nullptr) {
    fail_to_connect(*client, ECONNREFUSED);
    return true;
  }
  if (std::cmp_greater(server->waiting.size(), server->backlog)) return false;
  auto c = std::make_shared<connection>();
  c->client = client->at;
  c->server = to;
  c->to[connection::client_end].carrier = "network: bytes to " + c->client.to_string();
  c->to[connection::server_end].carrier = "network: bytes to " + c->server.to_string();
  c->to[connection::client_end].number = client->number;
  client->is = socket::phase::connected;
  client->joined = c;
  client->end = connection::client_end;
  server->waiting.push_back(std::move(c));
  tsan_release(server);
  descriptor::report(server->number, EPOLLIN);
  descriptor::report(client->number, EPOLLOUT);
  return true;
}

// ---- what the network does -----------------------------------------------------------------------------------------

bool network::happens(operation what, unsigned& left) {
  if (left == 0 || choose_one_of(what, 2) == 0) return false;
  --left;
  return true;
}

void network::delay() {
  if (options_.latency.count() > 0 && choose_one_of(operation::delay, 2) == 1)
    park_until(deadline_after(options_.latency));
}

// By a carrier. False: the server cannot be reached until then.
bool network::wait_until_reachable(const net::endpoint& server, deadline gives_up) {
  if (happens(operation::cut_off, cut_offs_left_))
    unreachable_.emplace_back(server, deadline_after(options_.cut_off_time));
  for (;;) {
    deadline until = 0;
    for (const auto& [whom, end] : unreachable_)
      if (whom == server) until = std::max(until, end);
    if (until <= now()) return true;
    park_until(std::min(until, gives_up));
    if (until > gives_up) return false;
  }
}

}  // namespace coir::detail
