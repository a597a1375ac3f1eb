// libpq in fibers, against the PostgreSQL that databases.py has started. Its socket is in non-blocking mode; it waits
// in poll().
#include <libpq-fe.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "hooks_test.hpp"

namespace hooks_test {
namespace {

using connection = std::unique_ptr<::PGconn, decltype(&::PQfinish)>;
using rows = std::unique_ptr<::PGresult, decltype(&::PQclear)>;

connection connect() {
  connection c(::PQconnectdb(""), &::PQfinish);
  if (::PQstatus(c.get()) != CONNECTION_OK) throw std::runtime_error(::PQerrorMessage(c.get()));
  return c;
}

/// The first field of the answer.
std::string ask(const connection& c, const std::string& query) {
  const rows r(::PQexec(c.get(), query.c_str()), &::PQclear);
  if (::PQresultStatus(r.get()) != PGRES_TUPLES_OK) throw std::runtime_error(::PQerrorMessage(c.get()));
  return ::PQgetvalue(r.get(), 0, 0);
}

class libpq : public coir_test::with_processors {};

// Each fiber's query waits for a lock of the database that the test holds: so all are under way at the same time.
TEST_P(libpq, ManyQueriesWaitAtOnceOnFewThreads) {
  constexpr int count = 50;
  run([] {
    const connection holder = connect();
    ask(holder, "select pg_advisory_lock(1)");
    std::vector<coir::task<std::string>> queries;
    for (int i = 0; i < count; ++i) {
      queries.push_back(coir::spawn([i] {
        const connection c = connect();
        ask(c, "select pg_advisory_lock_shared(1)");
        return ask(c, "select " + std::to_string(i) + " * 2");
      }));
    }
    const std::string waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted";
    while (ask(holder, waiting) != std::to_string(count)) ::usleep(10'000);
    EXPECT_LT(entries("task"), count / 2);
    ask(holder, "select pg_advisory_unlock(1)");
    for (int i = 0; i < count; ++i) EXPECT_EQ(queries[static_cast<std::size_t>(i)].get(), std::to_string(2 * i));
  });
}

TEST_P(libpq, LongAnswersComeWhole) {
  run([] {
    std::vector<coir::task<std::size_t>> queries;
    for (int i = 0; i < 8; ++i)
      queries.push_back(coir::spawn([] { return ask(connect(), "select repeat('x', 1000000)").size(); }));
    for (coir::task<std::size_t>& each : queries) EXPECT_EQ(each.get(), 1'000'000U);
  });
}

TEST_P(libpq, AQueryOfACancelledFiberFails) {
  run([] {
    std::atomic<bool> connected{false};
    coir::task<std::string> query = coir::spawn([&connected]() -> std::string {
      const connection c = connect();
      connected = true;
      const rows r(::PQexec(c.get(), "select pg_sleep(1000)"), &::PQclear);
      return ::PQresultStatus(r.get()) == PGRES_TUPLES_OK ? "" : ::PQerrorMessage(c.get());
    });
    coir_test::until([&] { return connected.load(); });
    coir_test::until_blocked(query);
    query.request_stop();
    EXPECT_NE(query.get(), "");
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, libpq, testing::Values(1U, 2U), coir_test::processors_name);

}  // namespace
}  // namespace hooks_test
