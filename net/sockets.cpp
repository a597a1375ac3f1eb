#include <coir/detail/sockets.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/system_calls.hpp>

namespace coir::inline COIR_ABI::detail::sockets {

namespace {

using question = system_calls::size (*)(int, ::sockaddr*, unsigned*) noexcept;

net::endpoint ask(const io_handle& of, question f, const char* what) {
  const io_handle::use used(of);
  if (!used) throw_io_error(net::errc::closed, what);
  ::sockaddr_storage address{};
  ::socklen_t size = sizeof address;
  const system_calls::size n = f(used.number(), reinterpret_cast<::sockaddr*>(&address), &size);
  if (n < 0) throw std::system_error(static_cast<int>(-n), std::system_category(), what);
  return {reinterpret_cast<const ::sockaddr*>(&address), size};
}

/// The pauses between the tries to connect to a local socket whose listener's queue is full. The system does not say
/// when there is room, so each pause is longer than the one before.
class pauses {
 public:
  /// Throws `cancelled`.
  void sleep() {
    park_until(deadline_after(next_));
    next_ = std::min(2 * next_, longest);
  }

 private:
  static constexpr std::chrono::microseconds longest{10'000};
  std::chrono::microseconds next_{100};
};

}  // namespace

io_handle make(int family, int type, std::error_code& error) {
  const system_calls::size fd = system_calls::socket(family, type);
  if (fd < 0) {
    error.assign(static_cast<int>(-fd), std::system_category());
    return {};
  }
  return adopt(static_cast<int>(fd), error);
}

io_handle adopt(int fd, std::error_code& error) noexcept try {
  error.clear();
  return io_handle(fd);
} catch (const std::system_error& e) {
  error = e.code();
  return {};
} catch (const std::bad_alloc&) {
  error = std::make_error_code(std::errc::not_enough_memory);
  return {};
}

io_handle connect(const net::endpoint& to, std::error_code& error) {
  io_handle made = make(to.family(), SOCK_STREAM, error);
  if (error) return {};
  const io_handle::use used(made);
  if (to.family() != AF_UNIX) set_option(made, IPPROTO_TCP, TCP_NODELAY, 1, error);
  pauses before_next;
  while (!error) {
    used.decide(operation::connect);
    const std::uint32_t seen = used->edges(io_way::write);
    const system_calls::size n = system_calls::connect(used.number(), to.data(), to.size());
    if (n == 0 || n == -EISCONN) return made;
    if (n == -EAGAIN && to.family() == AF_UNIX) {
      before_next.sleep();
    } else if (n == -EINPROGRESS || n == -EALREADY || n == -EINTR) {
      used.wait(io_way::write, seen, "connect", error);
    } else {
      error.assign(static_cast<int>(-n), std::system_category());
    }
  }
  made.close();
  return {};
}

void set_option(const io_handle& of, int level, int option, int value, std::error_code& error) noexcept {
  const io_handle::use used(of);
  if (!used) {
    error = net::errc::closed;
    return;
  }
  const system_calls::size n = system_calls::set_option(used.number(), level, option, value);
  error.assign(n < 0 ? static_cast<int>(-n) : 0, std::system_category());
}

net::endpoint local_endpoint(const io_handle& of) {
  return ask(of, &system_calls::local_address, "coir: local_endpoint");
}
net::endpoint remote_endpoint(const io_handle& of) {
  return ask(of, &system_calls::peer_address, "coir: remote_endpoint");
}

}  // namespace coir::detail::sockets
