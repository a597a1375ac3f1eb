// hiredis in fibers, against the redis-server that databases.py has started. Its socket is in blocking mode; it waits
// in read() and write().
#include <hiredis/hiredis.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "hooks_test.hpp"

namespace hooks_test {
namespace {

class connection {
 public:
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
  connection() : context_(::redisConnectUnix(std::getenv("COIR_REDIS_SOCKET")), &::redisFree) {
    if (context_ == nullptr || context_->err != 0) throw std::runtime_error(context_ ? context_->errstr : "no memory");
  }

  /// The answer as text; the last element of an array. Throws if the connection has failed.
  std::string ask(const std::string& command) {
    const std::unique_ptr<::redisReply, decltype(&::freeReplyObject)> reply(
        static_cast<::redisReply*>(::redisCommand(context_.get(), command.c_str())), &::freeReplyObject);
    if (reply == nullptr) throw std::runtime_error(context_->errstr);
    const ::redisReply* r = reply.get();
    if (r->type == REDIS_REPLY_ARRAY && r->elements != 0) r = r->element[r->elements - 1];
    return r->type == REDIS_REPLY_INTEGER ? std::to_string(r->integer) : std::string(r->str, r->len);
  }

 private:
  std::unique_ptr<::redisContext, decltype(&::redisFree)> context_;
};

class hiredis : public coir_test::with_processors {};

TEST_P(hiredis, ManyCommandsWaitAtOnceOnFewThreads) {
  constexpr int count = 400;
  run([] {
    std::vector<coir::task<std::string>> waiting;
    for (int i = 0; i < count; ++i)
      waiting.push_back(coir::spawn([i] { return connection().ask("BLPOP list" + std::to_string(i) + " 0"); }));
    connection own;
    const std::string all = "blocked_clients:" + std::to_string(count) + "\r";
    while (own.ask("INFO clients").find(all) == std::string::npos) ::usleep(10'000);
    EXPECT_LT(entries("task"), count / 4);
    for (int i = 0; i < count; ++i) own.ask("RPUSH list" + std::to_string(i) + " value" + std::to_string(i));
    for (int i = 0; i < count; ++i) EXPECT_EQ(waiting[static_cast<std::size_t>(i)].get(), "value" + std::to_string(i));
  });
}

TEST_P(hiredis, ManyFibersCountTogether) {
  run([] {
    connection().ask("DEL counter");
    std::vector<coir::task<void>> tasks;
    for (int i = 0; i < 40; ++i) {
      tasks.push_back(coir::spawn([] {
        connection own;
        for (int n = 0; n < 25; ++n) own.ask("INCR counter");
      }));
    }
    for (coir::task<void>& each : tasks) each.get();
    EXPECT_EQ(connection().ask("GET counter"), "1000");
  });
}

TEST_P(hiredis, ACommandOfACancelledFiberFails) {
  run([] {
    coir::task<bool> command = coir::spawn([] {
      try {
        connection().ask("BLPOP nothing 0");
        return false;
      } catch (const std::runtime_error& e) {
        return std::string(e.what()).find("cancel") != std::string::npos;
      }
    });
    coir_test::until_blocked(command);
    command.request_stop();
    EXPECT_TRUE(command.get());
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, hiredis, testing::Values(1U, 2U), coir_test::processors_name);

}  // namespace
}  // namespace hooks_test
