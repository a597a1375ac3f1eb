// The echo server with Boost.Fiber over Boost.Asio, one thread:  net_boost_fiber echo
//
// A fiber for each connection starts an asynchronous operation and waits for its handler. As in the example that comes
// with Boost.Fiber, the fibers' scheduler and the io_context share the thread: the scheduler's suspend_until() is
// where the thread asks Asio when no fiber is ready. Here that is a scheduling algorithm over round_robin which runs
// the io_context itself, so no fiber is woken just to poll.
#include <array>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/fiber/algo/round_robin.hpp>
#include <boost/fiber/context.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/operations.hpp>

#include "descriptors.hpp"

namespace {

namespace asio = boost::asio;
namespace fibers = boost::fibers;
using asio::ip::tcp;

/// Fibers in turn; when none is ready the thread waits in the io_context.
class asio_round_robin : public fibers::algo::round_robin {
 public:
  explicit asio_round_robin(asio::io_context& io) : io_(io) {}

  void suspend_until(const std::chrono::steady_clock::time_point& until) noexcept override {
    if (until == std::chrono::steady_clock::time_point::max())
      io_.run_one();
    else
      io_.run_one_until(until);
    io_.poll();  // what else is ready: one batch for all
  }

 private:
  asio::io_context& io_;
};

/// What a fiber waits for: set by the handler of the operation that it has started, on the same thread.
struct completion {
  boost::system::error_code error;
  std::size_t size = 0;

  template <class Start>
  bool wait_for(Start start) {
    fibers::context* self = fibers::context::active();
    bool done = false;
    start([&, self](const boost::system::error_code& e, std::size_t n = 0) {
      error = e;
      size = n;
      done = true;
      if (fibers::context::active() != self) fibers::context::active()->schedule(self);
    });
    while (!done) self->suspend();
    return !error;
  }
};

void echo(tcp::socket socket) {
  std::array<char, 256> buffer;
  completion io;
  while (io.wait_for([&](auto handler) { socket.async_read_some(asio::buffer(buffer), handler); }) &&
         io.wait_for([&](auto handler) { asio::async_write(socket, asio::buffer(buffer, io.size), handler); })) {
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2 || std::string_view(argv[1]) != "echo") {
    std::cerr << "usage: " << argv[0] << " echo\n";
    return 2;
  }
  bench::allow_many_descriptors();
  asio::io_context io(1);
  const auto work = asio::make_work_guard(io);
  fibers::use_scheduling_algorithm<asio_round_robin>(io);
  tcp::acceptor listener(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  listener.listen(4096);
  std::cout << "port " << listener.local_endpoint().port() << std::endl;
  for (;;) {
    tcp::socket socket(io);
    completion accepted;
    if (!accepted.wait_for([&](auto handler) { listener.async_accept(socket, handler); })) continue;
    boost::system::error_code unimportant;
    socket.set_option(tcp::no_delay(true), unimportant);
    fibers::fiber([s = std::move(socket)]() mutable { echo(std::move(s)); }).detach();
  }
} catch (const std::exception& e) {
  std::cerr << argv[0] << ": " << e.what() << '\n';
  return 1;
}
