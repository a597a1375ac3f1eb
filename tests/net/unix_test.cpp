// unix_stream and unix_listener: what they have beside their TCP kin, and the file of a listener.
#include <coir/net.hpp>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "net_test.hpp"

namespace {

using coir::net::endpoint;
using coir::net::errc;
using coir::net::unix_listener;
using coir::net::unix_stream;
using coir_test::scaled;
using coir_test::until_blocked;
using net_test::error_of;
using net_test::other;
using net_test::put;
using net_test::take;
using net_test::take_all;
using net_test::temporary_folder;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

class unix_test : public net_test::io_test {
 protected:
  temporary_folder folder_;
};

TEST_P(unix_test, AListenerIsAFileThatItsCloseRemoves) {
  both([this] {
    const endpoint at = folder_.socket("a");
    const std::string path = folder_.path() + "/a";
    {
      unix_listener listener(at);
      EXPECT_EQ(listener.local_endpoint(), at);
      EXPECT_TRUE(std::filesystem::is_socket(path));
      unix_stream client = unix_stream::connect(at);
      EXPECT_EQ(client.remote_endpoint(), at);
      unix_stream server = listener.accept();
      put(client, "ping");
      EXPECT_EQ(take(server, 4), "ping");
      put(server, "pong");
      server.shutdown(coir::net::shutdown_how::write);
      EXPECT_EQ(take_all(client), "pong");
    }
    EXPECT_FALSE(std::filesystem::exists(path));
    unix_listener again(at);
    again.close();
    EXPECT_FALSE(std::filesystem::exists(path));
  });
}

TEST_P(unix_test, ASecondCloseLeavesTheNextListenersFileAlone) {
  run([this] {
    const endpoint at = folder_.socket("a");
    unix_listener first(at);
    first.close();
    unix_listener second(at);
    first.close();
    EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/a"));
  });
}

TEST_P(unix_test, AListenerThatIsMovedKeepsItsFile) {
  run([this] {
    unix_listener first(folder_.socket("a"));
    unix_listener moved(std::move(first));
    EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/a"));
    unix_listener other_one(folder_.socket("b"));
    other_one = std::move(moved);
    EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/a"));
    EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/b"));
    other_one.close();
    EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/a"));
  });
}

TEST_P(unix_test, APathThatIsTakenIsRefusedAndStays) {
  run([this] {
    std::ofstream(folder_.path() + "/a") << "precious";
    EXPECT_EQ(error_of([this] { const unix_listener listener(folder_.socket("a")); }), std::errc::address_in_use);
    EXPECT_EQ(std::filesystem::file_size(folder_.path() + "/a"), 8U);
    EXPECT_EQ(error_of([this] { const unix_listener listener(folder_.socket("none/a")); }),
              std::errc::no_such_file_or_directory);
    EXPECT_THROW(unix_listener(endpoint("127.0.0.1:0")), std::invalid_argument);
    EXPECT_THROW(unix_stream::connect(endpoint("127.0.0.1:1")), std::invalid_argument);
  });
}

TEST_P(unix_test, NobodyThereIsAnErrorThatNamesThePath) {
  both([this] {
    EXPECT_EQ(error_of([this] { unix_stream::connect(folder_.socket("a")); }), std::errc::no_such_file_or_directory);
    coir_test::expect_throw_message<std::system_error>([this] { unix_stream::connect(folder_.socket("a")); },
                                                       folder_.path() + "/a");
    std::error_code error;
    EXPECT_FALSE(unix_stream::connect(folder_.socket("a"), error).is_open());
    EXPECT_EQ(error, std::errc::no_such_file_or_directory);
  });
}

TEST_P(unix_test, AbstractNamesAreNoFiles) {
  run([] {
    const endpoint at("unix:@coir-test-" + std::to_string(::getpid()));
    unix_listener listener(at);
    unix_stream client = unix_stream::connect(at);
    unix_stream server = listener.accept();
    put(client, "x");
    EXPECT_EQ(take(server, 1), "x");
  });
}

TEST_P(unix_test, AnAddressOfNoNameIsEmpty) {
  run([] {
    auto [a, b] = unix_stream::pair();
    EXPECT_EQ(a.local_endpoint().family(), AF_UNIX);
    EXPECT_EQ(a.remote_endpoint(), b.local_endpoint());
  });
}

// The system says EAGAIN when a listener's queue is full, and does not tell when there is room.
TEST_P(unix_test, ConnectWaitsWhileTheQueueIsFull) {
  both([this] {
    unix_listener listener(folder_.socket("a"), {.backlog = 1});
    constexpr int many = 12;
    std::vector<other> clients;
    for (int i = 0; i < many; ++i)
      clients.emplace_back([this] {
        unix_stream s = unix_stream::connect(folder_.socket("a"));
        put(s, "!");
      });
    for (int i = 0; i < many; ++i) {
      unix_stream s = listener.accept();
      EXPECT_EQ(take_all(s), "!");
    }
    for (other& each : clients) each.join();
  });
}

TEST_P(unix_test, AConnectThatWaitsForRoomCanBeCancelled) {
  run([this] {
    const unix_listener listener(folder_.socket("a"), {.backlog = 0});
    std::vector<unix_stream> queued;
    EXPECT_THROW(coir::timeout(20ms,
                               [&] {
                                 for (;;) queued.push_back(unix_stream::connect(folder_.socket("a")));
                               }),
                 coir::timed_out);
    EXPECT_FALSE(queued.empty());
  });
}

TEST_P(unix_test, AConnectThatWaitsForRoomLearnsOfTheListenersEnd) {
  run([this] {
    unix_listener listener(folder_.socket("a"), {.backlog = 0});
    coir::task<std::error_code> client = coir::spawn([this] {
      std::vector<unix_stream> queued;
      return error_of([&] {
        for (;;) queued.push_back(unix_stream::connect(folder_.socket("a")));
      });
    });
    until_blocked(client);
    listener.close();
    const std::error_code error = client.get();
    EXPECT_TRUE(error == std::errc::connection_refused || error == std::errc::no_such_file_or_directory) << error;
  });
}

TEST_P(unix_test, DeadlinesAndTryAccept) {
  run([this] {
    unix_listener listener(folder_.socket("a"));
    EXPECT_FALSE(listener.try_accept());
    listener.set_deadline(steady_clock::now() + 1ms);
    EXPECT_EQ(error_of([&] { listener.accept(); }), std::errc::timed_out);
    listener.set_deadline(std::nullopt);
    unix_stream client = unix_stream::connect(folder_.socket("a"));
    EXPECT_TRUE(listener.try_accept());
    listener.close();
    EXPECT_EQ(error_of([&] { listener.try_accept(); }), errc::closed);
    EXPECT_EQ(error_of([&] { listener.local_endpoint(); }), errc::closed);
  });
}

TEST_P(unix_test, AWriteToAClosedPeerIsABrokenPipe) {
  both([] {
    auto [a, b] = unix_stream::pair();
    b.close();
    EXPECT_EQ(error_of([&a = a] { put(a, "x"); }), std::errc::broken_pipe);
    EXPECT_EQ(take_all(a), "");
  });
}

TEST_P(unix_test, MuchGoesThroughInOrder) {
  run([] {
    auto [a, b] = unix_stream::pair();
    constexpr std::size_t much = scaled(4'000'000);
    coir::task<void> writer = coir::spawn([&a = a] {
      std::string text(much, ' ');
      for (std::size_t i = 0; i < much; ++i) text[i] = static_cast<char>(i * 7 % 251);
      put(a, text);
      a.close();
    });
    const std::string got = take_all(b);
    writer.get();
    ASSERT_EQ(got.size(), much);
    for (std::size_t i = 0; i < much; ++i) ASSERT_EQ(got[i], static_cast<char>(i * 7 % 251)) << i;
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, unix_test, coir_test::processors, coir_test::processors_name);

}  // namespace
