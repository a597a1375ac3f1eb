// resolve(): only what needs no network, since a test may not.
#include <coir/net.hpp>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <netdb.h>

#include "net_test.hpp"

namespace {

using coir::net::endpoint;
using coir::net::resolve;
using coir::net::resolve_category;
using net_test::error_of;
using namespace std::chrono_literals;

class resolve_test : public net_test::io_test {};

bool has(const std::vector<endpoint>& all, const char* one) {
  return std::find(all.begin(), all.end(), endpoint(one)) != all.end();
}

TEST_P(resolve_test, NumbersNeedNobody) {
  both([] {
    EXPECT_EQ(resolve("127.0.0.1", "80"), std::vector{endpoint("127.0.0.1:80")});
    EXPECT_EQ(resolve("::1", "80"), std::vector{endpoint("[::1]:80")});
    EXPECT_FALSE(resolve("", "80").empty());
  });
}

TEST_P(resolve_test, AServiceHasAName) {
  both([] {
    std::error_code error;
    const std::vector<endpoint> found = resolve("127.0.0.1", "http", error);
    if (error == std::error_code(EAI_SERVICE, resolve_category())) GTEST_SKIP() << "this machine has no /etc/services";
    EXPECT_TRUE(has(found, "127.0.0.1:80"));
  });
}

TEST_P(resolve_test, ThisMachineHasAName) {
  both([] {
    const std::vector<endpoint> found = resolve("localhost", "7");
    EXPECT_TRUE(has(found, "127.0.0.1:7") || has(found, "[::1]:7"));
  });
}

TEST_P(resolve_test, ANameThatIsNoneIsAnErrorThatSaysWhich) {
  both([] {
    // RFC 6761: nothing is called so. Without a network the error is another one.
    EXPECT_EQ(error_of([] { resolve("coir-test.invalid", "80"); }).category(), resolve_category());
    coir_test::expect_throw_message<std::system_error>([] { resolve("coir-test.invalid", "80"); }, "coir-test.invalid");
    std::error_code error;
    EXPECT_TRUE(resolve(std::string_view("a\0b", 3), "80", error).empty());
    EXPECT_EQ(error, std::error_code(EAI_NONAME, resolve_category()));
    EXPECT_TRUE(resolve("127.0.0.1", "no-such-service", error).empty());
    EXPECT_TRUE(error);
    EXPECT_FALSE(error.message().empty());
    EXPECT_FALSE(coir::net::tcp_stream::connect("coir-test.invalid", "80", error).is_open());
    EXPECT_TRUE(error);
  });
}

TEST_P(resolve_test, ACallerWhoIsCancelledLeavesAndTheNextOneGetsTheAnswer) {
  run([] {
    for (int i = 0; i < coir_test::scaled(20); ++i) {
      coir::task<void> caller = coir::spawn([] { resolve("localhost", "7"); });
      if (i % 2 == 0) coir::yield();
      caller.request_stop();
      try {
        caller.get();
      } catch (const coir::task_cancelled&) {
      }
    }
    EXPECT_FALSE(resolve("localhost", "7").empty());
  });
}

TEST_P(resolve_test, ManyCallersAtOnce) {
  std::thread thread([] { EXPECT_FALSE(resolve("localhost", "7").empty()); });
  run([] {
    std::vector<coir::task<void>> callers;
    for (int i = 0; i < 60; ++i)
      callers.push_back(coir::spawn([i] { EXPECT_FALSE(resolve("localhost", std::to_string(1 + i % 20)).empty()); }));
    for (auto& t : callers) t.get();
  });
  thread.join();
}

TEST_P(resolve_test, ARuntimeThatEndsWaitsForItsLookups) {
  coir::runtime rt(opts());
  for (int i = 0; i < 5; ++i)
    rt.go([i] {
      std::error_code error;
      resolve("coir-test-" + std::to_string(i) + ".invalid", "80", error);
    });
  rt.cancel();
  rt.wait();
}

INSTANTIATE_TEST_SUITE_P(Processors, resolve_test, coir_test::processors, coir_test::processors_name);

}  // namespace
