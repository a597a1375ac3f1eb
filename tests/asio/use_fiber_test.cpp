// use_fiber: every kind of completion signature, errors, cancellation, who runs the io_context and who waits.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/ioctl.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/experimental/concurrent_channel.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <coir/coir.hpp>
#include <coir/use_fiber.hpp>

#include "coir_test.hpp"
#include "io_thread.hpp"

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::ip::tcp;
using asio_test::io_threads;
using boost::system::error_code;
using coir::use_fiber;

class use_fiber_test : public coir_test::with_processors {};

/// What an operation with the signature completes with: `arguments`, posted.
template <class Signature, class Token, class... Arguments>
auto complete_with(asio::io_context& io, Token&& token, Arguments... arguments) {
  return asio::async_initiate<Token, Signature>(
      [](auto handler, asio::io_context& where, auto... values) {
        asio::post(where,
                   [h = std::move(handler), ... v = std::move(values)]() mutable { std::move(h)(std::move(v)...); });
      },
      token, io, std::move(arguments)...);
}

/// f() must throw a system_error with that code.
template <class F>
void expect_error(F&& f, error_code code) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown; expected " << code.message();
  } catch (const boost::system::system_error& e) {
    EXPECT_EQ(e.code(), code);
  }
}

tcp::acceptor local_acceptor(asio::io_context& io) {
  return tcp::acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
}

/// Two sockets that are connected with each other.
std::pair<tcp::socket, tcp::socket> connected(asio::io_context& io) {
  tcp::acceptor acceptor = local_acceptor(io);
  tcp::socket one(io);
  one.connect(acceptor.local_endpoint());
  return {std::move(one), acceptor.accept()};
}

/// How many bytes have come and were not read. (What a socket of Asio itself could say only while nobody uses it.)
int unread(int fd) {
  int n = 0;
  ::ioctl(fd, FIONREAD, &n);
  return n;
}

// ---- results -------------------------------------------------------------------------------------------------------

TEST_P(use_fiber_test, TheResultsOfEverySignatureAreReturned) {
  io_threads io;
  run([&] {
    static_assert(std::is_void_v<decltype(complete_with<void()>(*io, use_fiber))>);
    complete_with<void()>(*io, use_fiber);
    complete_with<void(error_code)>(*io, use_fiber, error_code());
    complete_with<void(std::exception_ptr)>(*io, use_fiber, std::exception_ptr());
    EXPECT_EQ(complete_with<void(int)>(*io, use_fiber, 7), 7);
    EXPECT_EQ((complete_with<void(error_code, std::string)>(*io, use_fiber, error_code(), std::string("text"))),
              "text");
    const auto [n, text] =
        complete_with<void(error_code, int, std::string)>(*io, use_fiber, error_code(), 2, std::string("two"));
    EXPECT_EQ(n, 2);
    EXPECT_EQ(text, "two");
    const std::unique_ptr<int> moved = complete_with<void(std::exception_ptr, std::unique_ptr<int>)>(
        *io, use_fiber, std::exception_ptr(), std::make_unique<int>(3));
    EXPECT_EQ(*moved, 3);
  });
}

TEST_P(use_fiber_test, ErrorsAreThrownAsWhatTheyAre) {
  io_threads io;
  run([&] {
    expect_error([&] { complete_with<void(error_code)>(*io, use_fiber, error_code(asio::error::host_not_found)); },
                 asio::error::host_not_found);
    expect_error([&] { complete_with<void(error_code, int)>(*io, use_fiber, error_code(asio::error::eof), 1); },
                 asio::error::eof);
    EXPECT_THROW(
        complete_with<void(std::exception_ptr)>(*io, use_fiber, std::make_exception_ptr(std::out_of_range("far"))),
        std::out_of_range);
    // One that nobody cancelled is an error as any other.
    expect_error([&] { complete_with<void(error_code)>(*io, use_fiber, error_code(asio::error::operation_aborted)); },
                 asio::error::operation_aborted);
  });
}

TEST_P(use_fiber_test, ErrorsAreReturnedIfTheTokenIsAdapted) {
  io_threads io;
  run([&] {
    error_code error;
    EXPECT_EQ((complete_with<void(error_code, int)>(*io, asio::redirect_error(use_fiber, error),
                                                    error_code(asio::error::eof), 5)),
              5);
    EXPECT_EQ(error, asio::error::eof);
    const auto [code, n] =
        complete_with<void(error_code, int)>(*io, asio::as_tuple(use_fiber), error_code(asio::error::eof), 6);
    EXPECT_EQ(code, asio::error::eof);
    EXPECT_EQ(n, 6);
  });
}

struct refuses_to_be_copied {
  refuses_to_be_copied() = default;
  refuses_to_be_copied(const refuses_to_be_copied&) { throw std::length_error("no copy"); }
};

TEST_P(use_fiber_test, AResultThatCannotBeStoredIsThrownInTheFiber) {
  io_threads io;
  run([&] {
    const auto begin = [&](auto handler) {
      asio::post(*io, [h = std::move(handler)]() mutable { std::move(h)(refuses_to_be_copied()); });
    };
    using signature = void(refuses_to_be_copied);
    EXPECT_THROW((asio::async_initiate<const coir::use_fiber_t, signature>(begin, use_fiber)), std::length_error);
  });
}

TEST_P(use_fiber_test, AnInitiationThatThrowsLeavesNothingBehind) {
  run([] {
    const auto begin = [](auto handler) {
      const auto taken = std::move(handler);
      throw std::bad_alloc();
    };
    EXPECT_THROW((asio::async_initiate<const coir::use_fiber_t, void()>(begin, use_fiber)), std::bad_alloc);
  });
}

// ---- operations of Asio --------------------------------------------------------------------------------------------

TEST_P(use_fiber_test, TimersAndPostedWorkBlockTheFiberAlone) {
  io_threads io;
  run([&] {
    std::atomic<int> others = 0;
    coir::task<void> other = coir::spawn([&] {
      asio::steady_timer timer(*io, 1ms);
      timer.async_wait(use_fiber);
      ++others;
    });
    asio::post(*io, use_fiber);
    asio::post(asio::bind_executor(*io, use_fiber));
    other.get();
    EXPECT_EQ(others, 1);
  });
}

TEST_P(use_fiber_test, FibersTalkOverAsiosSockets) {
  io_threads io;
  run([&] {
    tcp::acceptor acceptor = local_acceptor(*io);
    coir::task<std::string> server = coir::spawn([&] {
      tcp::socket s = acceptor.async_accept(use_fiber);
      std::string heard(5, '\0');
      EXPECT_EQ(asio::async_read(s, asio::buffer(heard), use_fiber), 5U);
      asio::async_write(s, asio::buffer(std::string("answer")), use_fiber);
      return heard;
    });
    tcp::socket client(*io);
    client.async_connect(acceptor.local_endpoint(), use_fiber);
    asio::async_write(client, asio::buffer("hello", 5), use_fiber);
    std::array<char, 64> answer{};
    error_code error;
    const std::size_t n = asio::async_read(client, asio::buffer(answer), asio::redirect_error(use_fiber, error));
    EXPECT_EQ(std::string(answer.data(), n), "answer");
    EXPECT_EQ(error, asio::error::eof);
    EXPECT_EQ(server.get(), "hello");
  });
}

TEST_P(use_fiber_test, IsTheDefaultTokenWhereItIsAskedFor) {
  io_threads io;
  run([&] {
    coir::use_fiber_t::as_default_on_t<asio::steady_timer> timer(*io, 1ms);
    timer.async_wait();
    auto moved = use_fiber.as_default_on(asio::steady_timer(*io, 1ms));
    moved.async_wait();
  });
}

TEST_P(use_fiber_test, ChannelsOfAsioCarryValuesBetweenFibers) {
  io_threads io;
  run([&] {
    using channel = asio::experimental::concurrent_channel<void(error_code, std::string)>;
    channel ch(*io);
    coir::task<std::string> receiver = coir::spawn([&] { return ch.async_receive(use_fiber); });
    ch.async_send(error_code(), "value", use_fiber);
    EXPECT_EQ(receiver.get(), "value");
    coir::task<void> closed = coir::spawn(
        [&] { expect_error([&] { ch.async_receive(use_fiber); }, asio::experimental::error::channel_closed); });
    coir_test::until_blocked(closed);
    ch.close();
    closed.get();
  });
}

TEST_P(use_fiber_test, AFiberCanRunTheContextItself) {
  run([] {
    asio::io_context io;
    auto [one, other] = connected(io);
    auto guard = asio::make_work_guard(io);
    coir::task<void> runner = coir::spawn([&] { io.run(); });
    coir::task<char> reader = coir::spawn([&s = one] {
      char c = 0;
      asio::async_read(s, asio::buffer(&c, 1), use_fiber);
      return c;
    });
    asio::async_write(other, asio::buffer("x", 1), use_fiber);
    EXPECT_EQ(reader.get(), 'x');
    guard.reset();
  });
}

TEST(UseFiber, BlocksAPlainThread) {
  io_threads io;
  asio::steady_timer timer(*io, 1ms);
  timer.async_wait(use_fiber);
  EXPECT_EQ(complete_with<void(int)>(*io, use_fiber, 4), 4);
  EXPECT_THROW(coir::timeout(1ms,
                             [&] {
                               timer.expires_after(1h);
                               timer.async_wait(use_fiber);
                             }),
               coir::timed_out);
}

// ---- cancellation --------------------------------------------------------------------------------------------------

TEST_P(use_fiber_test, ACancelledFiberCancelsItsOperationAndWaitsForItsEnd) {
  io_threads io;
  run([&] {
    auto [one, other] = connected(*io);
    coir::task<void> reader = coir::spawn([&s = one] {
      std::array<char, 16> data{};
      s.async_read_some(asio::buffer(data), use_fiber);
    });
    coir_test::until_blocked(reader);
    reader.request_stop();
    EXPECT_THROW(reader.get(), coir::task_cancelled);
    // The socket is as good as before, and nobody reads from it any more.
    other.write_some(asio::buffer("y", 1));
    char c = 0;
    EXPECT_EQ(one.async_read_some(asio::buffer(&c, 1), use_fiber), 1U);
    EXPECT_EQ(c, 'y');
  });
}

TEST_P(use_fiber_test, AFiberThatIsCancelledBeforehandStartsTheOperationAndEndsIt) {
  io_threads io;
  run([&] {
    coir::task<void> sleeper = coir::spawn([&] {
      try {
        coir::sleep_for(1h);
      } catch (const coir::cancelled&) {
      }
      asio::steady_timer timer(*io, 1h);
      timer.async_wait(use_fiber);
    });
    coir_test::until_blocked(sleeper);
    sleeper.request_stop();
    EXPECT_THROW(sleeper.get(), coir::task_cancelled);
  });
}

TEST_P(use_fiber_test, AnExpiredTimeoutCancelsTheOperation) {
  io_threads io;
  run([&] {
    auto [one, other] = connected(*io);
    std::array<char, 16> data{};
    EXPECT_THROW(coir::timeout(1ms, [&, &s = one] { asio::async_read(s, asio::buffer(data), use_fiber); }),
                 coir::timed_out);
    asio::experimental::concurrent_channel<void(error_code, int)> ch(*io);
    EXPECT_THROW(coir::timeout(1ms, [&] { ch.async_receive(use_fiber); }), coir::timed_out);
  });
}

TEST_P(use_fiber_test, HowMuchWasDoneBeforeTheCancellationIsToldByAnAdaptedToken) {
  io_threads io;
  run([&] {
    auto [one, other] = connected(*io);
    other.write_some(asio::buffer("abc", 3));
    const int fd = one.native_handle();
    coir_test::until([&] { return unread(fd) == 3; });
    coir::task<std::size_t> reader = coir::spawn([&, &s = one] {
      std::array<char, 16> data{};
      const auto [error, n] = asio::async_read(s, asio::buffer(data), asio::as_tuple(use_fiber));
      EXPECT_EQ(error, asio::error::operation_aborted);
      EXPECT_THROW(coir::sleep_for(1h), coir::cancelled);
      return n;
    });
    // Blocked again, once the first three have been read.
    coir_test::until([&] { return reader.status() == coir::task_status::blocked && unread(fd) == 0; });
    asio::post(*io, use_fiber);
    reader.request_stop();
    EXPECT_EQ(reader.get(), 3U);
  });
}

TEST_P(use_fiber_test, AnOperationThatCannotBeCancelledIsAwaited) {
  io_threads io;
  run([&] {
    asio::steady_timer gate(*io, 1h);
    std::atomic<bool> begun = false;
    coir::task<int> waiter = coir::spawn([&] {
      const int n = asio::async_initiate<const coir::use_fiber_t, void(int)>(
          [&](auto handler) {
            gate.async_wait([h = std::move(handler)](error_code) mutable { std::move(h)(8); });
            begun = true;
          },
          use_fiber);
      EXPECT_THROW(coir::sleep_for(1h), coir::cancelled);
      return n;
    });
    coir_test::until([&] { return begun.load(); });
    coir_test::until_blocked(waiter);
    waiter.request_stop();
    asio::post(*io, use_fiber);
    EXPECT_FALSE(waiter.ready());
    asio::post(*io, [&] { gate.cancel(); });
    EXPECT_EQ(waiter.get(), 8);
  });
}

// A composed operation's steps put their handlers into the cancellation slot while others cancel it: with several
// threads, and no strand. What came is read or still there: no byte is lost, none is read twice.
TEST_P(use_fiber_test, CancellationRacesWithTheStepsOfComposedOperations) {
  io_threads io(2);
  run([&] {
    auto [one, other] = connected(*io);
    const int rounds = coir_test::scaled(2000);
    coir::task<void> writer = coir::spawn([&, &s = other] {
      for (int i = 0; i < rounds; ++i) asio::async_write(s, asio::buffer("0123456789", 10), use_fiber);
      s.shutdown(tcp::socket::shutdown_send);
    });
    std::size_t all = 0;
    for (bool open = true; open;) {
      coir::task<void> reader = coir::spawn([&, &s = one] {
        std::array<char, 64> data{};
        const auto [error, n] =
            asio::async_read(s, asio::buffer(data), asio::transfer_exactly(40), asio::as_tuple(use_fiber));
        for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(data[i], static_cast<char>('0' + (all + i) % 10));
        all += n;
        open = error != asio::error::eof;
      });
      coir::yield();
      reader.request_stop();
      reader.get();
    }
    writer.get();
    EXPECT_EQ(all, static_cast<std::size_t>(rounds) * 10);
  });
}

// ---- executors -----------------------------------------------------------------------------------------------------

TEST_P(use_fiber_test, StepsRunOnTheExecutorThatIsBound) {
  io_threads io(2);
  run([&] {
    auto strand = asio::make_strand(*io);
    auto [one, other] = connected(*io);
    const int fd = one.native_handle();
    bool in_strand = true;
    const auto watched = [&](const error_code& e, std::size_t n) -> std::size_t {
      if (n != 0) in_strand = in_strand && strand.running_in_this_thread();
      return e || n >= 4 ? 0 : 4 - n;
    };
    coir::task<std::size_t> reader = coir::spawn([&, &s = one] {
      std::array<char, 4> data{};
      return asio::async_read(s, asio::buffer(data), watched, asio::bind_executor(strand, use_fiber));
    });
    coir_test::until_blocked(reader);
    for (const char c : {'a', 'b', 'c', 'd'}) {
      asio::async_write(other, asio::buffer(&c, 1), use_fiber);
      coir_test::until([&] { return unread(fd) == 0; });
    }
    EXPECT_EQ(reader.get(), 4U);
    EXPECT_TRUE(in_strand);
  });
}

TEST_P(use_fiber_test, ObjectsWithAStrandOfTheirOwnWork) {
  io_threads io(2);
  run([&] {
    asio::steady_timer timer(asio::make_strand(*io), 1ms);
    timer.async_wait(use_fiber);
    timer.expires_after(1h);
    EXPECT_THROW(coir::timeout(1ms, [&] { timer.async_wait(use_fiber); }), coir::timed_out);
  });
}

// ---- operations that never complete --------------------------------------------------------------------------------

TEST_P(use_fiber_test, AnOperationWhoseContextIsDestroyedIsGivenUp) {
  if (coir_test::thread_sanitizer)
    GTEST_SKIP() << "until_blocked() does not order the fiber's steps before the next ones";
  auto io = std::make_unique<asio::io_context>();
  run([&] {
    coir::task<void> waiter = coir::spawn([&] { complete_with<void()>(*io, use_fiber); });
    coir_test::until_blocked(waiter);
    io.reset();
    expect_error([&] { waiter.get(); }, asio::error::operation_aborted);
  });
}

TEST(UseFiber, AContextThatNobodyRunsIsADeadlock) {
  asio::io_context io;
  coir_test::expect_throw_message<coir::deadlock>(
      [&] {
        coir::run([&] {
          asio::steady_timer timer(io, 1h);
          timer.async_wait(use_fiber);
        });
      },
      "asio operation");
}

INSTANTIATE_TEST_SUITE_P(Processors, use_fiber_test, coir_test::processors, coir_test::processors_name);

}  // namespace
