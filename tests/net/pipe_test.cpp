// pipe_stream and make_pipe.
#include <coir/io.hpp>

#include <csignal>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net_test.hpp"

namespace {

using coir::make_pipe;
using coir::pipe_stream;
using coir::net::errc;
using coir_test::scaled;
using coir_test::until_blocked;
using net_test::bytes;
using net_test::error_of;
using net_test::other;
using net_test::put;
using net_test::take;
using net_test::take_all;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

class pipe_test : public net_test::io_test {};

TEST_P(pipe_test, BytesGoInAndComeOutInOrder) {
  both([] {
    auto [out, in] = make_pipe();
    std::string got;
    other reader([&out = out, &got] { got = take_all(out); });
    const std::size_t much = 300'000;
    std::string text(much, ' ');
    for (std::size_t i = 0; i < much; ++i) text[i] = static_cast<char>(i * 7 % 251);
    put(in, text);
    in.close();
    reader.join();
    EXPECT_EQ(got, text);
  });
}

TEST_P(pipe_test, AWriteThatNobodyReadsIsABrokenPipeAndNoSignal) {
  both([] {
    auto [out, in] = make_pipe();
    put(in, "x");
    out.close();
    EXPECT_EQ(error_of([&in = in] { put(in, "x"); }), std::errc::broken_pipe);
    std::string text = "x";
    const ::iovec part{text.data(), text.size()};
    EXPECT_EQ(error_of([&in = in, &part] { in.writev(std::span(&part, 1)); }), std::errc::broken_pipe);
    ::sigset_t pending;
    ASSERT_EQ(::sigpending(&pending), 0);
    EXPECT_EQ(::sigismember(&pending, SIGPIPE), 0);
  });
}

TEST_P(pipe_test, AWriterThatWaitsForRoomLearnsThatTheReaderHasGone) {
  run([] {
    auto [out, in] = make_pipe();
    coir::task<std::error_code> writer = coir::spawn([&in = in] {
      const std::string much(1U << 20, 'x');
      return error_of([&] { put(in, much); });
    });
    until_blocked(writer);
    out.close();
    EXPECT_EQ(writer.get(), std::errc::broken_pipe);
  });
}

TEST_P(pipe_test, AWriteSaysHowMuchWasWritten) {
  both([] {
    auto [out, in] = make_pipe();
    in.set_write_deadline(steady_clock::now() + 5ms);
    const std::string much(1U << 20, 'x');
    std::error_code error;
    const std::size_t n = in.write(bytes(much), error);
    EXPECT_EQ(error, std::errc::timed_out);
    EXPECT_GT(n, 0U);
    EXPECT_LT(n, much.size());
    in.close();
    EXPECT_EQ(take_all(out).size(), n);
  });
}

TEST_P(pipe_test, DeadlinesCancellationAndClose) {
  run([] {
    auto [out, in] = make_pipe();
    out.set_read_deadline(steady_clock::now() + 1ms);
    EXPECT_EQ(error_of([&out = out] { take(out, 1); }), std::errc::timed_out);
    out.set_read_deadline(std::nullopt);
    EXPECT_THROW(coir::timeout(1ms, [&out = out] { take(out, 1); }), coir::timed_out);
    coir::task<std::error_code> reader = coir::spawn([&out = out] { return error_of([&] { take(out, 1); }); });
    until_blocked(reader);
    out.close();
    EXPECT_EQ(reader.get(), errc::closed);
    EXPECT_EQ(error_of([&out = out] { take(out, 1); }), errc::closed);
  });
}

TEST_P(pipe_test, AnEndThatSomebodyElseMadeIsTakenOver) {
  run([] {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    pipe_stream out(ends[0]), in(ends[1]);
    EXPECT_EQ(out.native_handle(), ends[0]);
    EXPECT_NE(::fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
    put(in, "mine");
    EXPECT_EQ(take(out, 4), "mine");
    EXPECT_EQ(error_of([] { const pipe_stream none(-1); }), std::errc::bad_file_descriptor);
    const pipe_stream closed;
    EXPECT_FALSE(closed.is_open());
    EXPECT_EQ(closed.native_handle(), -1);
  });
}

TEST_P(pipe_test, ToMoveOntoAStreamClosesWhatItHad) {
  run([] {
    auto [out, in] = make_pipe();
    auto [second_out, second_in] = make_pipe();
    in = std::move(second_in);
    EXPECT_EQ(take_all(out), "");
    put(in, "x");
    EXPECT_EQ(take(second_out, 1), "x");
  });
}

TEST_P(pipe_test, ManyPipesInARing) {
  run([] {
    constexpr std::size_t many = 20;
    std::vector<std::pair<pipe_stream, pipe_stream>> pipes;
    for (std::size_t i = 0; i < many; ++i) pipes.push_back(make_pipe());
    constexpr int rounds = scaled(200) + 5;
    std::vector<coir::task<void>> members;
    for (std::size_t i = 1; i < many; ++i)
      members.push_back(coir::spawn([&pipes, i] {
        for (int k = 0; k < rounds; ++k) put(pipes[i].second, take(pipes[i - 1].first, 4));
      }));
    for (int k = 0; k < rounds; ++k) {
      put(pipes[0].second, std::to_string(1000 + k));
      EXPECT_EQ(take(pipes[many - 1].first, 4), std::to_string(1000 + k));
    }
    for (auto& t : members) t.get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, pipe_test, coir_test::processors, coir_test::processors_name);

}  // namespace
