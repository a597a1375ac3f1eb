// The echo server with Boost.Asio's callbacks, one thread:  net_asio echo
#include <array>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string_view>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include "descriptors.hpp"

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

class connection : public std::enable_shared_from_this<connection> {
 public:
  explicit connection(tcp::socket socket) : socket_(std::move(socket)) {}

  void read() {
    socket_.async_read_some(asio::buffer(buffer_),
                            [self = shared_from_this()](const boost::system::error_code& error, std::size_t n) {
                              if (!error) self->write(n);
                            });
  }

 private:
  void write(std::size_t n) {
    asio::async_write(socket_, asio::buffer(buffer_, n),
                      [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                        if (!error) self->read();
                      });
  }

  tcp::socket socket_;
  std::array<char, 256> buffer_;
};

void accept(tcp::acceptor& listener) {
  listener.async_accept([&listener](const boost::system::error_code& error, tcp::socket socket) {
    if (!error) {
      boost::system::error_code unimportant;
      socket.set_option(tcp::no_delay(true), unimportant);
      std::make_shared<connection>(std::move(socket))->read();
    }
    accept(listener);
  });
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2 || std::string_view(argv[1]) != "echo") {
    std::cerr << "usage: " << argv[0] << " echo\n";
    return 2;
  }
  bench::allow_many_descriptors();
  asio::io_context io(1);
  tcp::acceptor listener(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  listener.listen(4096);
  std::cout << "port " << listener.local_endpoint().port() << std::endl;
  accept(listener);
  io.run();
} catch (const std::exception& e) {
  std::cerr << argv[0] << ": " << e.what() << '\n';
  return 1;
}
