// The network of a schedule: all sockets and pipes of the program, in memory. It stands where the kernel does.
// system_calls.cpp of coir::net calls it with numbers that the kernel does not know (descriptor.hpp), and it reports
// what has become ready to the descriptors, as a poller does. The streams, listeners and sockets above are the ordinary
// ones.
//
// What a TCP connection carries to one of its ends is a *half*: segments that are on the way, then bytes that have
// arrived. While anything is on the way there is a *carrier*, which is a fiber like the program's. Since the strategy
// chooses when each carrier runs, bytes of different connections arrive in any order, and those of one half arrive in
// the order in which they were sent. A carrier may also sleep for a while (operation::delay), so that deadlines come
// first. It ends when nothing is on the way, so it is no fiber that is left over. A connection that is being made, and
// each datagram, have a carrier of their own. Local sockets and pipes have none: their bytes arrive at once, as in the
// kernel.
//
// Decisions of the network: whether the bytes of one write arrive in two parts (split), whether something takes
// options.latency (delay), and, as often as the options allow in one schedule, whether a connection is reset (reset), a
// server cannot be reached for a while (cut_off), a datagram is lost (lose).
//
// Invariants:
//  1. half::size is the number of its bytes on the way and arrived, at most `capacity`.
//  2. If something is on the way in a half of a TCP connection, the half is `carried`.
//  3. What makes an operation possible is reported after it has happened: bytes, an end, an error, room in a half that
//     was full, a connection that waits for accept(). So a descriptor misses no edge.
//  4. The state changes between two decisions only. A carrier looks at it anew after each decision and each sleep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/descriptor.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/system_calls.hpp>
#include <coir/endpoint.hpp>
#include <coir/explore.hpp>

namespace coir::inline COIR_ABI::detail {

class network {
 public:
  using size = system_calls::size;

  explicit network(const network_options& o) : options_(o) {}
  ~network();
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  /// That of the exploration that the caller is a fiber of.
  static network& here() noexcept;

  /// A schedule begins, without sockets.
  void begin() noexcept;

  bool has(int fd) const noexcept { return find(fd) != nullptr; }

  // As the system calls, with a number that the network has. They return a number, a size, or -errno.
  size open(int family, int type);
  size open_pair(int (&ends)[2], bool is_pipe);
  void close(int fd);
  size bind(int fd, const net::endpoint& at);
  size listen(int fd, int backlog);
  size accept(int fd);
  size connect(int fd, const net::endpoint& to);
  size shut_down(int fd, int how);
  size set_option(int fd, int level, int option, int value);
  size local_address(int fd, net::endpoint& into) const;
  size peer_address(int fd, net::endpoint& into) const;
  void remove_file(const net::endpoint& at) noexcept;
  bool is_ready(int fd, io_way way) noexcept;
  size read(int fd, std::span<const ::iovec> to);
  size receive(int fd, std::span<const ::iovec> to, net::endpoint* from);
  size write(int fd, std::span<const ::iovec> from);
  size send_to(int fd, std::string datagram, const net::endpoint& to);

 private:
  struct segment;
  struct half;
  struct connection;
  struct socket;
  using shared_connection = std::shared_ptr<connection>;
  using shared_socket = std::shared_ptr<socket>;

  // ---- sockets (network.cpp)
  shared_socket& place(int fd) noexcept;  // of a number that it has
  socket* find(int fd) const noexcept;
  socket& add(int family, int type);
  socket* bound_to(int type, const net::endpoint& to) const;
  bool in_use(const socket& for_whom, const net::endpoint& at) const noexcept;
  net::endpoint free_address(const socket& for_whom, const net::endpoint& at);
  static size destination(const socket& s, const net::endpoint& asked, net::endpoint& to);
  size connect_local(socket& s, const net::endpoint& to);
  void shake_hands(const shared_socket& client, const net::endpoint& to);
  bool reach(const shared_socket& client, const net::endpoint& to);
  void fail_to_connect(socket& client, int error);

  // ---- connections (network_connections.cpp)
  size read_stream(socket& s, std::span<const ::iovec> to);
  size write_stream(socket& s, std::span<const ::iovec> from);
  void hang_up(const shared_connection& c, unsigned end);
  void end_half(const shared_connection& c, unsigned end);
  void send_segment(const shared_connection& c, unsigned end, segment s);
  void carry(const shared_connection& c, unsigned end);
  void arrive(connection& c, unsigned end);
  void break_off(connection& c, unsigned end, int error);
  static void report(const connection& c, unsigned end, std::uint32_t events);
  static void report_room(connection& c, unsigned end);

  // ---- datagrams (network_datagrams.cpp)
  size connect_datagrams(socket& s, const net::endpoint& to);
  void carry(const shared_socket& from, std::string datagram, const net::endpoint& to);

  // ---- faults (network.cpp)
  bool happens(operation what, unsigned& left);
  void delay();
  bool wait_until_reachable(const net::endpoint& server, deadline gives_up);
  template <class F>
  static void start_carrier(std::string name, F f);

  const network_options options_;
  std::vector<shared_socket> sockets_;                           // by number; null: free
  std::vector<std::pair<net::endpoint, deadline>> unreachable_;  // servers, and until when
  unsigned resets_left_ = 0;
  unsigned cut_offs_left_ = 0;
  unsigned losses_left_ = 0;
  std::uint16_t next_port_ = 0;
};

}  // namespace coir::detail
