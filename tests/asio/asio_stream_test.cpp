// asio_stream under Asio's own synchronous functions and Boost.Beast's.
#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/http.hpp>
#include <coir/asio_stream.hpp>
#include <coir/coir.hpp>
#include <coir/io.hpp>
#include <coir/net.hpp>

#include "coir_test.hpp"
#include "net_test.hpp"

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using coir::asio_stream;
using coir::net::tcp_stream;
using coir::net::unix_stream;

static_assert(beast::is_sync_stream<asio_stream<tcp_stream>>::value);
static_assert(beast::is_sync_stream<asio_stream<unix_stream>>::value);
static_assert(beast::is_sync_stream<asio_stream<coir::pipe_stream>>::value);
static_assert(std::is_convertible_v<asio_stream<tcp_stream>::executor_type, asio::any_io_executor>);
static_assert(std::is_nothrow_move_constructible_v<asio_stream<tcp_stream>>);

class asio_stream_test : public net_test::no_descriptor_left {};

template <class F>
error_code error_of(F&& f) {
  try {
    f();
  } catch (const boost::system::system_error& e) {
    return e.code();
  }
  return {};
}

std::pair<asio_stream<tcp_stream>, asio_stream<tcp_stream>> tcp_pair() {
  auto [a, b] = net_test::tcp_pair();
  return {asio_stream(std::move(a)), asio_stream(std::move(b))};
}

TEST_P(asio_stream_test, LinesAreReadWithReadUntil) {
  run([] {
    auto [one, other] = tcp_pair();
    asio::write(one, asio::buffer(std::string_view("first\nsecond\nrest")));
    one.next_layer().shutdown(coir::net::shutdown_how::write);
    std::string text;
    EXPECT_EQ(asio::read_until(other, asio::dynamic_buffer(text), '\n'), 6U);
    EXPECT_EQ(text.substr(0, 6), "first\n");
    text.erase(0, 6);
    EXPECT_EQ(asio::read_until(other, asio::dynamic_buffer(text), '\n'), 7U);
    text.erase(0, 7);
    EXPECT_EQ(error_of([&, &s = other] { asio::read_until(s, asio::dynamic_buffer(text), '\n'); }), asio::error::eof);
    EXPECT_EQ(text, "rest");
  });
}

TEST_P(asio_stream_test, SequencesOfBuffersAreReadAndWrittenAtOnce) {
  run([] {
    auto [a, b] = unix_stream::pair();
    asio_stream one(std::move(a)), other(std::move(b));
    const std::array<asio::const_buffer, 4> parts{asio::buffer(std::string_view("ab")), asio::const_buffer(),
                                                  asio::buffer(std::string_view("cde")),
                                                  asio::buffer(std::string_view("f"))};
    EXPECT_EQ(one.write_some(parts), 6U);
    std::array<char, 4> first{};
    std::array<char, 4> second{};
    const std::array<asio::mutable_buffer, 2> into{asio::buffer(first), asio::buffer(second)};
    EXPECT_EQ(other.read_some(into), 6U);
    EXPECT_EQ(std::string(first.data(), 4), "abcd");
    EXPECT_EQ(std::string(second.data(), 2), "ef");
  });
}

TEST_P(asio_stream_test, ManySmallBuffersAndOneLargeArrive) {
  run([] {
    auto [one, other] = tcp_pair();
    const std::string large(1 << 20, 'x');
    coir::task<std::string> reader = coir::spawn([&, &s = other] {
      std::string all;
      error_code end;
      asio::read(s, asio::dynamic_buffer(all), end);
      EXPECT_EQ(end, asio::error::eof);
      return all;
    });
    std::vector<asio::const_buffer> parts(200, asio::buffer(std::string_view("0123456789")));
    parts.push_back(asio::buffer(large));
    EXPECT_EQ(asio::write(one, parts), large.size() + 2000);
    one.next_layer().close();
    const std::string all = reader.get();
    EXPECT_EQ(all.size(), large.size() + 2000);
    EXPECT_EQ(all.substr(1990, 12), "0123456789xx");
  });
}

TEST_P(asio_stream_test, EmptyBuffersAreNoEndOfTheStream) {
  run([] {
    auto [one, other] = tcp_pair();
    error_code error = asio::error::eof;
    EXPECT_EQ(other.read_some(asio::mutable_buffer(), error), 0U);
    EXPECT_FALSE(error);
    EXPECT_EQ(other.write_some(std::array<asio::const_buffer, 2>{}, error), 0U);
    EXPECT_FALSE(error);
  });
}

TEST_P(asio_stream_test, ErrorsAreAsios) {
  run([] {
    auto [one, other] = tcp_pair();
    char c = 0;
    const auto read = [&c](auto& s) { return error_of([&] { s.read_some(asio::buffer(&c, 1)); }); };

    other.next_layer().set_read_deadline(std::chrono::steady_clock::now() + 1ms);
    EXPECT_EQ(read(other), asio::error::timed_out);
    other.next_layer().set_read_deadline(std::nullopt);

    one.next_layer().shutdown(coir::net::shutdown_how::write);
    EXPECT_EQ(read(other), asio::error::eof);

    coir::task<error_code> blocked = coir::spawn([&, &s = one] { return read(s); });
    coir_test::until_blocked(blocked);
    one.next_layer().close();
    EXPECT_EQ(blocked.get(), asio::error::bad_descriptor);
    EXPECT_EQ(read(one), asio::error::bad_descriptor);
    EXPECT_EQ(error_of([&, &s = one] { s.write_some(asio::buffer(&c, 1)); }), asio::error::bad_descriptor);

    auto [reader, writer] = coir::make_pipe();
    reader.close();
    asio_stream pipe(std::move(writer));
    EXPECT_EQ(error_of([&] { asio::write(pipe, asio::buffer(&c, 1)); }), asio::error::broken_pipe);
  });
  EXPECT_EQ(coir::to_asio_error(coir::net::errc::end_of_stream), asio::error::eof);
  EXPECT_EQ(coir::to_asio_error(std::make_error_code(std::errc::timed_out)), asio::error::timed_out);
  EXPECT_FALSE(coir::to_asio_error({}));
}

TEST_P(asio_stream_test, ACancelledFiberLeavesAsiosFunctions) {
  run([] {
    auto [one, other] = tcp_pair();
    asio::write(one, asio::buffer(std::string_view("no line")));
    asio::streambuf text;
    coir::task<void> reader = coir::spawn([&, &s = other] { asio::read_until(s, text, '\n'); });
    coir_test::until_blocked(reader);
    reader.request_stop();
    EXPECT_THROW(reader.get(), coir::task_cancelled);
    // What it had read is in the buffer, and the stream goes on.
    EXPECT_EQ(text.size(), 7U);
    asio::write(one, asio::buffer(std::string_view("\n")));
    EXPECT_EQ(asio::read_until(other, text, '\n'), 8U);
  });
}

TEST_P(asio_stream_test, ItsExecutorRunsWorkInAFiber) {
  run([] {
    asio_stream<tcp_stream> s{tcp_stream()};
    const asio::any_io_executor executor = s.get_executor();
    auto where = coir::make_chan<bool>();
    asio::post(executor, [where] { where.send(coir::this_fiber::is_fiber()); });
    EXPECT_EQ(where.recv(), true);
  });
}

TEST_P(asio_stream_test, BeastSpeaksHttpOverIt) {
  run([] {
    auto [one, other] = tcp_pair();
    coir::task<void> server = coir::spawn([&, &s = other] {
      beast::flat_buffer buffer;
      for (bool more = true; more;) {
        http::request<http::string_body> request;
        http::read(s, buffer, request);
        http::response<http::string_body> response(http::status::ok, request.version(), request.body() + "!");
        response.keep_alive(request.keep_alive());
        response.prepare_payload();
        http::write(s, response);
        more = request.keep_alive();
      }
      s.next_layer().shutdown(coir::net::shutdown_how::write);
    });
    beast::flat_buffer buffer;
    for (const std::size_t n : {std::size_t{1}, std::size_t{100'000}, std::size_t{5}}) {
      http::request<http::string_body> request(http::verb::post, "/", 11, std::string(n, 'b'));
      request.set(http::field::host, "here");
      request.keep_alive(n != 5);
      request.prepare_payload();
      http::write(one, request);
      http::response<http::string_body> response;
      http::response_parser<http::string_body> parser;
      http::read(one, buffer, parser);
      EXPECT_EQ(parser.get().body(), std::string(n, 'b') + "!");
    }
    error_code end;
    http::response<http::string_body> none;
    http::read(one, buffer, none, end);
    EXPECT_EQ(end, http::error::end_of_stream);
    server.get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, asio_stream_test, coir_test::processors, coir_test::processors_name);

}  // namespace
