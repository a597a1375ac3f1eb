// Input and output as programs outside this repository spell it: every name and overload of <coir/io.hpp> and
// <coir/net.hpp>, what each returns, what may be moved. Nearly all of it is checked by compiling.
#include <chrono>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/uio.h>

#include <coir/coir.hpp>
#include <coir/io.hpp>
#include <coir/net.hpp>

#include "coir_test.hpp"

namespace {

using namespace std::chrono_literals;
using std::same_as;
using steady = std::chrono::steady_clock;
using wall = std::chrono::system_clock;
namespace net = coir::net;

template <class T>
constexpr bool move_only = std::movable<T> && !std::copy_constructible<T> && !std::is_copy_assignable_v<T>;

// ---- io.hpp

using coir::readiness;
static_assert(std::is_enum_v<readiness>);
static_assert((readiness::readable | readiness::writable) != readiness::none);
static_assert((readiness::readable & readiness::writable) == readiness::none);
static_assert((readiness::hang_up | readiness::error) != readiness::readable);

static_assert(move_only<coir::watched_fd> && std::constructible_from<coir::watched_fd, int>);
static_assert(!std::convertible_to<int, coir::watched_fd>);
static_assert(requires(coir::watched_fd& w) {
  { w.wait(readiness::readable) } -> same_as<readiness>;
  { w.wait_for(readiness::readable | readiness::writable, 1ms) } -> same_as<readiness>;
  { w.wait_for(readiness::readable, std::chrono::duration<double>(1)) } -> same_as<readiness>;
  { w.wait_until(readiness::readable, steady::now()) } -> same_as<readiness>;
  { w.wait_until(readiness::readable, wall::now()) } -> same_as<readiness>;
});
static_assert(requires(std::span<pollfd> fds) {
  { coir::poll(fds, 1ms) } -> same_as<int>;
  { coir::poll(fds, -1ms) } -> same_as<int>;
  { coir::poll(fds, 1s) } -> same_as<int>;
});
static_assert(same_as<decltype(coir::signals({1, 2})), coir::recv_chan<int>>);
static_assert(same_as<decltype(coir::make_pipe()), std::pair<coir::pipe_stream, coir::pipe_stream>>);

static_assert(move_only<coir::process>);
static_assert(std::constructible_from<coir::process, std::vector<std::string>, coir::process_options>);
static_assert(std::constructible_from<coir::process, std::vector<std::string>>);
static_assert(requires(coir::process& p) {
  { p.wait() } -> same_as<int>;
  { p.in() } -> same_as<coir::pipe_stream&>;
  { p.out() } -> same_as<coir::pipe_stream&>;
  { p.err() } -> same_as<coir::pipe_stream&>;
  p.kill(15);
  p.detach();
});

// ---- endpoints and errors

static_assert(std::regular<net::endpoint> && std::constructible_from<net::endpoint, std::string_view>);
static_assert(!std::convertible_to<std::string_view, net::endpoint>);
static_assert(requires(const net::endpoint& e) {
  { e.to_string() } -> same_as<std::string>;
  { e.port() } -> std::convertible_to<int>;
  { e == e } -> same_as<bool>;
});
static_assert(requires(std::error_code& error) {
  { net::resolve("host", "service") } -> same_as<std::vector<net::endpoint>>;
  { net::resolve(std::string("host"), std::string("service"), error) } -> same_as<std::vector<net::endpoint>>;
});
static_assert(std::is_error_code_enum_v<net::errc>);
static_assert(net::errc::closed != net::errc::end_of_stream);
static_assert(net::shutdown_how::read != net::shutdown_how::write &&
              net::shutdown_how::both != net::shutdown_how::read);

// ---- streams: each operation in two forms

template <class Stream>
concept byte_stream =
    move_only<Stream> && std::default_initializable<Stream> &&
    requires(Stream& s, const Stream& constant, std::span<std::byte> into, std::span<const std::byte> from,
             std::span<const ::iovec> parts, std::error_code& error, int file, ::off_t offset, std::size_t n) {
      { s.read_some(into) } -> same_as<std::size_t>;
      { s.read_some(into, error) } -> same_as<std::size_t>;
      { s.write_some(from) } -> same_as<std::size_t>;
      { s.write_some(from, error) } -> same_as<std::size_t>;
      { s.read(into) } -> same_as<void>;
      { s.read(into, error) } -> same_as<std::size_t>;
      { s.write(from) } -> same_as<void>;
      { s.write(from, error) } -> same_as<std::size_t>;
      { s.readv(parts) } -> same_as<std::size_t>;
      { s.readv(parts, error) } -> same_as<std::size_t>;
      { s.writev(parts) } -> same_as<std::size_t>;
      { s.writev(parts, error) } -> same_as<std::size_t>;
      { s.send_file(file, offset, n) } -> same_as<std::size_t>;
      { s.send_file(file, offset, n, error) } -> same_as<std::size_t>;
      s.set_read_deadline(steady::now());
      s.set_read_deadline(steady::now() + 1s);
      s.set_read_deadline(std::nullopt);
      s.set_write_deadline(steady::now());
      s.set_write_deadline(std::nullopt);
      { s.close() } -> same_as<void>;
      { constant.native_handle() } -> same_as<int>;
      { constant.is_open() } -> same_as<bool>;
    };
static_assert(byte_stream<coir::pipe_stream> && std::constructible_from<coir::pipe_stream, int>);

template <class Stream>
concept socket_stream = byte_stream<Stream> &&
                        requires(Stream& s, const Stream& constant, const net::endpoint& to, std::error_code& error) {
                          { Stream::connect(to) } -> same_as<Stream>;
                          { Stream::connect(to, error) } -> same_as<Stream>;
                          s.shutdown(net::shutdown_how::read);
                          s.shutdown(net::shutdown_how::write);
                          s.shutdown(net::shutdown_how::both, error);
                          { constant.local_endpoint() } -> same_as<net::endpoint>;
                          { constant.remote_endpoint() } -> same_as<net::endpoint>;
                        };
static_assert(socket_stream<net::tcp_stream> && socket_stream<net::unix_stream>);
static_assert(requires(net::tcp_stream& s, std::error_code& error) {
  { net::tcp_stream::connect("host", "service") } -> same_as<net::tcp_stream>;
  { net::tcp_stream::connect("host", "service", error) } -> same_as<net::tcp_stream>;
  s.set_no_delay(true);
  s.set_no_delay(false, error);
  s.set_keep_alive(true);
  s.set_keep_alive(false, error);
});
static_assert(same_as<decltype(net::unix_stream::pair()), std::pair<net::unix_stream, net::unix_stream>>);

// ---- listeners and datagrams

template <class Listener, class Stream>
concept listener_of = move_only<Listener> && std::constructible_from<Listener, net::endpoint> &&
                      std::constructible_from<Listener, net::endpoint, net::listen_options> &&
                      !std::convertible_to<net::endpoint, Listener> && requires(Listener& l, std::error_code& error) {
                        { l.accept() } -> same_as<Stream>;
                        { l.accept(error) } -> same_as<Stream>;
                        { l.close() } -> same_as<void>;
                        { l.local_endpoint() } -> same_as<net::endpoint>;
                        l.set_deadline(steady::now());
                        l.set_deadline(std::nullopt);
                      };
static_assert(listener_of<net::tcp_listener, net::tcp_stream> && listener_of<net::unix_listener, net::unix_stream>);

static_assert(move_only<net::udp_socket> && std::constructible_from<net::udp_socket, net::endpoint>);
static_assert(requires(net::udp_socket& s, std::span<std::byte> into, std::span<const std::byte> from,
                       net::endpoint& peer, const net::endpoint& to, std::error_code& error) {
  { s.send_to(from, to) } -> same_as<void>;
  s.send_to(from, to, error);
  { s.receive_from(into, peer) } -> same_as<std::size_t>;
  { s.receive_from(into, peer, error) } -> same_as<std::size_t>;
  s.connect(to);
  s.connect(to, error);
  { s.send(from) } -> same_as<void>;
  s.send(from, error);
  { s.receive(into) } -> same_as<std::size_t>;
  { s.receive(into, error) } -> same_as<std::size_t>;
  s.set_read_deadline(steady::now());
  s.set_write_deadline(std::nullopt);
  s.close();
  { s.local_endpoint() } -> same_as<net::endpoint>;
});

// ---- select

struct takes_nothing {
  void operator()() const {}
};
struct takes_a_stream {
  void operator()(net::tcp_stream) const {}
};
static_assert(requires(net::tcp_stream& s, net::udp_socket& u, coir::pipe_stream& p, net::tcp_listener& l) {
  { coir::select(coir::on_readable(s), coir::on_writable(s), coir::on_timeout(1s)) } -> same_as<std::size_t>;
  {
    coir::select(coir::on_readable(u, takes_nothing{}), coir::on_writable(p, takes_nothing{}))
  } -> same_as<std::size_t>;
  { coir::select(coir::on_accept(l, takes_a_stream{}), coir::otherwise()) } -> same_as<std::size_t>;
});

// ---- what is decided besides

TEST(IoContract, EndpointsThatAreNoneAreInvalidArguments) {
  EXPECT_THROW(net::endpoint("nowhere"), std::invalid_argument);
  EXPECT_THROW(net::endpoint("127.0.0.1:65536"), std::invalid_argument);
  EXPECT_EQ(net::endpoint("127.0.0.1:80"), net::endpoint("127.0.0.1:80"));
  EXPECT_NE(net::endpoint("[::1]:80"), net::endpoint("127.0.0.1:80"));
  EXPECT_EQ(net::endpoint("unix:/path").to_string(), "unix:/path");
  EXPECT_EQ(net::endpoint("127.0.0.1:80").port(), 80);
}

TEST(IoContract, ErrorsAreOfTheirKin) {
  const std::error_code closed = net::errc::closed;
  EXPECT_EQ(closed, std::errc::bad_file_descriptor);
  EXPECT_NE(closed, net::errc::end_of_stream);
  EXPECT_FALSE(closed.message().empty());
}

TEST(IoContract, AProgramAsTheDocumentsWriteIt) {
  coir::run([] {
    net::tcp_listener listener(net::endpoint("127.0.0.1:0"));
    const net::endpoint at = listener.local_endpoint();
    coir::go([s = std::move(listener)]() mutable {
      net::tcp_stream client = s.accept();
      std::byte room[16];
      while (const std::size_t n = client.read_some(room)) client.write(std::span(room, n));
    });
    net::tcp_stream s = net::tcp_stream::connect(at);
    s.set_read_deadline(steady::now() + 1h);
    s.write(std::as_bytes(std::span("hello", 5)));
    std::byte back[5];
    s.read(back);
    EXPECT_EQ(std::to_integer<char>(back[0]), 'h');
    s.shutdown(net::shutdown_how::write);
    EXPECT_EQ(s.read_some(back), 0U);
    std::error_code error;
    EXPECT_EQ(s.read(back, error), 0U);
    EXPECT_EQ(error, net::errc::end_of_stream);
  });
}

}  // namespace
