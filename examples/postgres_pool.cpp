// A pool of database connections in two channels, as connection_pool.cpp has it, over libpq and a real PostgreSQL.
// libpq knows nothing of fibers: libcoir_hooks, which this program is linked with, parks the fiber where libpq would
// block the thread.
//
//   postgres_pool [CLIENTS [CONNECTIONS]]
//
// The server is found as psql finds it (PGHOST, PGUSER, PGDATABASE). Each client, a fiber, takes a connection, adds its
// number to a sum that the database keeps, and gives the connection back. Prints the sum, how many connections were
// made, and how many were lost.
#include <libpq-fe.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <coir/coir.hpp>

namespace {

using namespace std::chrono_literals;

struct database_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class connection {
 public:
  connection() : handle_(::PQconnectdb(""), &::PQfinish) {
    if (::PQstatus(handle_.get()) != CONNECTION_OK) fail();
  }

  /// The first field of the answer, or nothing.
  std::string ask(const std::string& query) {
    const std::unique_ptr<::PGresult, decltype(&::PQclear)> answer(::PQexec(handle_.get(), query.c_str()), &::PQclear);
    const ::ExecStatusType status = ::PQresultStatus(answer.get());
    if (status == PGRES_COMMAND_OK) return {};
    if (status != PGRES_TUPLES_OK) fail();
    return ::PQntuples(answer.get()) != 0 ? ::PQgetvalue(answer.get(), 0, 0) : "";
  }

 private:
  // What waits in a cancelled fiber fails with ECANCELED, since C code cannot be unwound. Here is C++ again.
  [[noreturn]] void fail() const {
    const std::string cancelled_text = std::generic_category().message(ECANCELED);
    if (std::strstr(::PQerrorMessage(handle_.get()), cancelled_text.c_str()) != nullptr) throw coir::cancelled();
    throw database_error(::PQerrorMessage(handle_.get()));
  }

  std::unique_ptr<::PGconn, decltype(&::PQfinish)> handle_;
};

class pool {
 public:
  /// A connection for a while. It goes back to the pool, unless it has failed: then its place becomes free.
  class lease {
   public:
    lease(pool& from, std::unique_ptr<connection> c) : from_(&from), connection_(std::move(c)) {}
    lease(lease&&) = default;
    ~lease() {
      if (connection_ != nullptr) from_->idle_.try_send(std::move(connection_));  // there is room for all that exist
    }

    std::string ask(const std::string& query) {
      try {
        return connection_->ask(query);
      } catch (...) {
        connection_.reset();
        from_->free_place();
        throw;
      }
    }

   private:
    pool* from_;
    std::unique_ptr<connection> connection_;
  };

  explicit pool(std::size_t limit)
      : idle_(coir::make_chan<std::unique_ptr<connection>>(limit)), places_(coir::make_chan<void>(limit)) {}

  /// An idle connection, a new one if there is a place for it, else whatever is given back first. Nothing: `patience`
  /// is over.
  std::optional<lease> acquire(std::chrono::milliseconds patience) {
    std::unique_ptr<connection> found;
    if (idle_.try_recv(found) == coir::recv_status::done) return lease(*this, std::move(found));
    bool dial = false;
    coir::select(coir::on_recv(idle_, [&](std::optional<std::unique_ptr<connection>> c) { found = std::move(*c); }),
                 coir::on_send(places_, [&] { dial = true; }), coir::on_timeout(patience));
    if (dial) found = make();
    if (found == nullptr) return std::nullopt;
    return lease(*this, std::move(found));
  }

  int made() const { return made_; }
  int lost() const { return lost_; }

 private:
  std::unique_ptr<connection> make() {
    try {
      auto made = std::make_unique<connection>();
      ++made_;
      return made;
    } catch (...) {
      places_.recv();
      throw;
    }
  }

  void free_place() {
    ++lost_;
    const coir::uncancellable guard;  // the place is there, so this does not wait
    places_.recv();
  }

  coir::chan<std::unique_ptr<connection>> idle_;
  coir::chan<void> places_;
  std::atomic<int> made_{0};
  std::atomic<int> lost_{0};
};

void serve(pool& connections, int clients) {
  auto first = connections.acquire(10s);
  first->ask("create table counted (sum bigint)");
  first->ask("insert into counted values (0)");
  {
    coir::task_group all;
    for (int i = 1; i <= clients; ++i) {
      all.spawn([&connections, i] {
        auto mine = connections.acquire(60s);
        if (!mine) throw database_error("no connection within a minute");
        mine->ask("update counted set sum = sum + " + std::to_string(i));
      });
    }
    first.reset();
    all.wait();
  }
  // A query that takes too long: the timeout ends it, and its connection is not used again.
  try {
    coir::timeout(100ms, [&] { connections.acquire(10s)->ask("select pg_sleep(600)"); });
  } catch (const coir::timed_out&) {
    std::cout << "the slow query was given up\n";
  }
  auto last = connections.acquire(10s);
  std::cout << "sum " << last->ask("select sum from counted") << '\n';
  last->ask("drop table counted");
}

int number(const char* text) {
  int n = 0;
  std::from_chars(text, text + std::strlen(text), n);
  return n > 0 ? n : throw std::invalid_argument(text);
}

}  // namespace

int main(int argc, char** argv) try {
  const int clients = argc > 1 ? number(argv[1]) : 1'000;
  pool connections(static_cast<std::size_t>(argc > 2 ? number(argv[2]) : 20));
  coir::run([&] { serve(connections, clients); });
  std::cout << "connections made " << connections.made() << ", lost " << connections.lost() << '\n';
} catch (const std::exception& e) {
  std::cerr << "postgres_pool: " << e.what() << '\n';
  return EXIT_FAILURE;
}
