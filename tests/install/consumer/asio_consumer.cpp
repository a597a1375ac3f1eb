// A program that uses the component asio: built and linked, not run.
#include <string>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read_until.hpp>
#include <coir/asio.hpp>
#include <coir/coir.hpp>
#include <coir/net.hpp>

int main() {
  return coir::run([] {
    auto [one, other] = coir::net::unix_stream::pair();
    coir::asio_stream stream(std::move(other));
    one.close();
    std::string line;
    boost::system::error_code error;
    boost::asio::read_until(stream, boost::asio::dynamic_buffer(line), '\n', error);
    return error == boost::asio::error::eof ? 0 : 1;
  });
}
