// Datagrams of the simulated network. Each has a carrier of its own, so they arrive in any order.
#include <cerrno>
#include <utility>

#include <sys/epoll.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

#include "base/sanitizer.hpp"
#include "network.hpp"
#include "network_addresses.hpp"
#include "network_carrier.hpp"
#include "network_state.hpp"
#include "unobserved.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::size_t largest_datagram = 65'507;

}  // namespace

network::size network::connect_datagrams(socket& s, const net::endpoint& to) {
  net::endpoint plain;
  if (const size n = destination(s, to, plain); n < 0) return n;
  s.peer = plain;
  if (is_any_address(s.at)) s.at = loopback_address(plain.family(), s.at.port());
  s.is = socket::phase::connected;
  return 0;
}

network::size network::receive(int fd, std::span<const ::iovec> to, net::endpoint* from) {
  socket& s = *find(fd);
  tsan_acquire(&s);
  if (s.error != 0) return -std::exchange(s.error, 0);
  if (s.datagrams.empty()) return -EAGAIN;
  const socket::datagram d = std::move(s.datagrams.front());
  s.datagrams.pop_front();
  const std::size_t done = scatter(d.bytes, to);
  if (from != nullptr) *from = s.family == AF_INET6 ? mapped(d.from) : d.from;
  return static_cast<size>(done);
}

network::size network::send_to(int fd, std::string datagram, const net::endpoint& asked) {
  socket& s = *find(fd);
  if (s.error != 0) return -std::exchange(s.error, 0);
  if (datagram.size() > largest_datagram) return -EMSGSIZE;
  net::endpoint to;
  if (const size result = destination(s, asked, to); result < 0) return result;
  const std::size_t n = datagram.size();
  tsan_release(&s);
  start_carrier("network: datagram to " + to.to_string(),
                [this, from = place(fd), bytes = std::move(datagram), to]() mutable {
                  const unobserved bookkeeping;
                  carry(from, std::move(bytes), to);
                });
  return static_cast<size>(n);
}

// By a carrier.
void network::carry(const shared_socket& from, std::string datagram, const net::endpoint& to) {
  const net::endpoint sender = is_any_address(from->at) ? loopback_address(to.family(), from->at.port()) : from->at;
  delay();
  if (!wait_until_reachable(to, now())) return;
  decide(operation::arrive, from.get());
  if (happens(operation::lose, losses_left_)) return;
  socket* const receiver = bound_to(SOCK_DGRAM, to);
  if (receiver == nullptr || (receiver->is == socket::phase::connected && !(receiver->peer == sender))) {  // refused
    if (from->number == nobody_there || from->is != socket::phase::connected || !(from->peer == to)) return;
    from->error = ECONNREFUSED;
    descriptor::report(from->number, EPOLLIN | EPOLLOUT | EPOLLERR);
    return;
  }
  if (receiver->datagrams.size() == socket::most_datagrams) return;
  receiver->datagrams.push_back({std::move(datagram), sender});
  tsan_release(receiver);
  descriptor::report(receiver->number, EPOLLIN);
}

}  // namespace coir::detail
