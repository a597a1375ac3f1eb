// Storms of connections: both sides of each send tagged bytes, and are disturbed at random by deadlines, cancellation
// and closes from elsewhere, while other fibers open and close descriptors so that their numbers are used again at
// once.
//
// What must hold: every byte that is read is the next one of its connection; an orderly conversation loses none; every
// program ends, and leaves no descriptor behind.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

#include <coir/coir.hpp>
#include <coir/io.hpp>
#include <coir/net.hpp>

#include "../net/net_test.hpp"
#include "coir_test.hpp"
#include "crew.hpp"
#include "seeded.hpp"

namespace stress {
namespace {

namespace net = coir::net;
using std::chrono::steady_clock;

/// What both sides know of a conversation: the client sends it first.
struct plan {
  std::uint32_t id = 0;
  std::uint32_t orderly = 0;
  std::array<std::uint32_t, 2> bytes{};  // that the client sends, and the server

  std::byte byte(std::size_t side, std::size_t i) const {
    return static_cast<std::byte>(id * 31 + side * 101 + i * 7 + (i >> 8) * 13);
  }
};

/// The errors of whoever is disturbed, or whose peer is.
bool is_to_be_expected(const std::error_code& error) {
  return error == net::errc::closed || error == net::errc::end_of_stream || error == std::errc::connection_reset ||
         error == std::errc::broken_pipe || error == std::errc::not_connected || error == std::errc::timed_out;
}

/// One side of a connection.
class conversation {
 public:
  conversation(net::socket_stream& s, const plan& p, std::size_t side, choices random)
      : stream_(s), plan_(p), side_(side), random_(random) {}

  void run() {
    coir::task<void> writer = coir::spawn([this, c = random_.split()]() mutable { write(c); });
    coir::task<void> disturber = coir::spawn([this, c = random_.split()]() mutable { disturb(c); });
    if (plan_.orderly == 0 && random_.chance(20)) writer.request_stop();
    read();
    join(writer);
    disturber.request_stop();
    join(disturber);
  }

 private:
  static void join(coir::task<void>& t) {
    try {
      t.get();
    } catch (const coir::task_cancelled&) {
    }
  }

  /// Whether to go on after that.
  bool goes_on(const std::error_code& error, bool reads) {
    if (!error) return true;
    if (error == std::errc::timed_out) {
      reads ? stream_.set_read_deadline(std::nullopt) : stream_.set_write_deadline(std::nullopt);
      return true;
    }
    EXPECT_EQ(plan_.orderly, 0U) << error.message();
    EXPECT_TRUE(is_to_be_expected(error)) << error << ": " << error.message();
    return false;
  }

  // However it ends, also if it is cancelled: else both readers might wait for each other's writer for ever.
  struct end_of_writing {
    net::socket_stream& stream;
    ~end_of_writing() {
      std::error_code unimportant;
      stream.shutdown(net::shutdown_how::write, unimportant);
    }
  };

  void write(choices& random) {
    const end_of_writing at_end{stream_};
    const std::size_t all = plan_.bytes[side_];
    std::array<std::byte, 8192> part;
    for (std::size_t done = 0; done < all;) {
      const std::size_t n = std::min<std::size_t>(all - done, 1 + random.draw(part.size()));
      for (std::size_t i = 0; i < n; ++i) part[i] = plan_.byte(side_, done + i);
      std::error_code error;
      done += random.chance(50) ? stream_.write(std::span(part).first(n), error)
                                : stream_.write_some(std::span(part).first(n), error);
      if (!goes_on(error, false)) return;
      if (random.chance(10)) dawdle(random);
    }
  }

  std::size_t read_some(std::span<std::byte> into, std::error_code& error) {
    switch (random_.draw(6)) {
      case 0:
        if (coir::select(coir::on_readable(stream_), coir::on_timeout(random_.draw_time(300))) == 1) {
          error = std::make_error_code(std::errc::timed_out);
          return 0;
        }
        return stream_.read_some(into, error);
      case 1:
        try {
          return coir::timeout(random_.draw_time(300), [&] { return stream_.read_some(into, error); });
        } catch (const coir::timed_out&) {
          error = std::make_error_code(std::errc::timed_out);
          return 0;
        }
      case 2: {
        const std::size_t half = into.size() / 2;
        const std::array<::iovec, 2> parts{{{into.data(), half}, {into.data() + half, into.size() - half}}};
        return stream_.readv(parts, error);
      }
      default:
        return stream_.read_some(into, error);
    }
  }

  void read() {
    const std::size_t from = 1 - side_;
    std::array<std::byte, 5000> part;
    for (std::size_t done = 0;;) {
      std::error_code error;
      const std::span into = std::span(part).first(1 + random_.draw(part.size()));
      const std::size_t n = read_some(into, error);
      for (std::size_t i = 0; i < n; ++i) {
        if (into[i] == plan_.byte(from, done + i)) continue;
        ADD_FAILURE() << "connection " << plan_.id << ": a wrong byte at " << done + i;
        return stream_.close();
      }
      done += n;
      if (!goes_on(error, true)) return;
      if (n != 0 || error) continue;
      if (plan_.orderly != 0) {
        EXPECT_EQ(done, plan_.bytes[from]);
      }
      return;
    }
  }

  void disturb(choices& random) {
    for (std::uint64_t n = random.draw(6); n > 0; --n) {
      dawdle(random);
      const auto soon = steady_clock::now() + random.draw_time(200);
      switch (random.draw(plan_.orderly != 0 ? 4 : 8)) {
        case 0:
          stream_.set_read_deadline(soon);
          break;
        case 1:
          stream_.set_write_deadline(soon);
          break;
        case 2:
          stream_.set_read_deadline(std::nullopt);
          break;
        case 3:
          watch(random);
          break;
        case 4: {
          std::error_code unimportant;
          stream_.shutdown(net::shutdown_how::both, unimportant);
          break;
        }
        case 5: {
          const ::linger at_once{1, 0};
          ::setsockopt(stream_.native_handle(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
          [[fallthrough]];
        }
        default:
          stream_.close();
      }
    }
  }

  /// Beside the owner, which may close it meanwhile.
  void watch(choices& random) {
    try {
      coir::watched_fd w(stream_.native_handle());
      w.wait_for(random.chance(50) ? coir::readiness::readable : coir::readiness::readable | coir::readiness::writable,
                 random.draw_time(200));
    } catch (const std::system_error&) {  // closed
    }
  }

  net::socket_stream& stream_;
  const plan plan_;
  const std::size_t side_;
  choices random_;
};

/// A conversation in a fiber that may be cancelled, if it is not orderly.
void converse(net::socket_stream& s, const plan& p, std::size_t side, choices random) {
  coir::task<void> task = coir::spawn([&, c = random.split()] { conversation(s, p, side, c).run(); });
  if (p.orderly == 0 && random.chance(30)) {
    dawdle(random);
    task.request_stop();
  }
  try {
    task.get();
  } catch (const coir::task_cancelled&) {
  }
}

template <class Listener, class Stream>
class server {
 public:
  server(const net::endpoint& at, choices random) : listener_(at), random_(random) {
    for (int i = 0; i < 3; ++i) accepters_.push_back(coir::spawn([this, c = random_.split()]() mutable { serve(c); }));
    thread_ = std::thread([this] {
      std::error_code error;
      for (;;) {
        Stream s = listener_.accept(error);
        if (error) return;
        threads_own_.send(std::move(s));
      }
    });
    accepters_.push_back(coir::spawn([this] {
      for (Stream s : threads_own_) answer(std::move(s));
    }));
  }
  ~server() {
    listener_.close();
    coir::blocking([this] { thread_.join(); });
    threads_own_.close();
    accepters_.clear();
    open_.wait();
  }
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// One client: connects, perhaps in vain, and talks.
  void visit(choices random, std::uint32_t id) {
    Stream s;
    const net::endpoint at = listener_.local_endpoint();
    try {
      if (random.chance(20))
        coir::timeout(random.draw_time(500), [&] { s = Stream::connect(at); });
      else
        s = Stream::connect(at);
    } catch (const coir::timed_out&) {
      return;
    }
    plan p;
    p.id = id;
    p.orderly = random.chance(60) ? 1 : 0;
    for (std::uint32_t& n : p.bytes)
      n = random.chance(20) ? random.draw_unsigned(300'000) : random.draw_unsigned(3'000);
    std::error_code error;
    s.write(std::as_bytes(std::span(&p, 1)), error);
    if (!error) converse(s, p, 0, random);
  }

 private:
  void serve(choices& random) {
    const auto never = coir::make_chan<void>();
    for (std::error_code error; !error;) {
      if (random.chance(30)) {
        try {
          coir::select(coir::on_accept(listener_, [this](Stream s) { answer(std::move(s)); }), coir::on_recv(never),
                       coir::on_timeout(random.draw_time(300)));
        } catch (const std::system_error& e) {
          error = e.code();
        }
      } else if (Stream s = listener_.accept(error); !error) {
        answer(std::move(s));
      }
    }
  }

  void answer(Stream s) {
    const choices random(next_seed_.fetch_add(1));
    open_.go([s = std::move(s), random]() mutable {
      plan p;
      std::error_code error;
      s.read(std::as_writable_bytes(std::span(&p, 1)), error);
      if (!error) converse(s, p, 1, random);
    });
  }

  Listener listener_;
  choices random_;
  std::atomic<std::uint64_t> next_seed_{random_.state()};
  coir::wait_group open_;
  coir::chan<Stream> threads_own_ = coir::make_chan<Stream>(4);
  std::vector<coir::task<void>> accepters_;
  std::thread thread_;
};

/// Takes numbers and gives them back at once, with a byte of its own in each pair.
void reuse_numbers(choices random, const std::atomic<bool>& over) {
  while (!over) {
    auto [a, b] = net::unix_stream::pair();
    coir::task<void> reader = coir::spawn([&b = b] {
      std::array<std::byte, 4> room;
      std::error_code error;
      const std::size_t n = b.read_some(room, error);
      if (!error && n != 0) {
        EXPECT_EQ(room[0], std::byte{'!'});
      }
    });
    if (random.chance(50)) dawdle(random);
    const std::byte mark{'!'};
    std::error_code unimportant;
    if (random.chance(50)) a.write(std::span(&mark, 1), unimportant);
    (random.chance(50) ? a : b).close();
    reader.get();
  }
}

void run_program(unsigned processors, std::uint64_t seed) {
  const int before = net_test::open_descriptors();
  choices random(seed);
  const net_test::temporary_folder folder;
  coir::options o;
  o.processors = processors;
  coir::run(o, [&] {
    std::atomic<bool> over{false};
    std::atomic<std::uint32_t> next_id{0};
    coir::task<void> reuse = coir::spawn([&, c = random.split()] { reuse_numbers(c, over); });
    {
      server<net::tcp_listener, net::tcp_stream> by_tcp(net_test::any_port(), random.split());
      server<net::unix_listener, net::unix_stream> locally(folder.socket("s"), random.split());
      std::vector<coir::task<void>> clients;
      for (std::uint64_t n = 2 + random.draw(10); n > 0; --n)
        clients.push_back(coir::spawn([&, c = random.split()]() mutable {
          for (int k = coir_test::scaled(10) + 1; k > 0; --k)
            c.chance(50) ? by_tcp.visit(c.split(), next_id++) : locally.visit(c.split(), next_id++);
        }));
      for (auto& t : clients) t.get();
    }
    over = true;
    reuse.get();
  });
  EXPECT_EQ(net_test::open_descriptors(), before);
}

void run_programs(unsigned processors) {
  auto [a, b] = net::unix_stream::pair();  // what plain threads wait with is made once, and stays
  a.set_read_deadline(steady_clock::now() + std::chrono::milliseconds(1));
  std::array<std::byte, 1> room;
  std::error_code error;
  a.read_some(room, error);
  run_seeds(processors, &run_program);
}

class RandomIo : public testing::TestWithParam<unsigned> {};

TEST_P(RandomIo, NoByteIsLostOrCrossedAndNoDescriptorLeft) { run_programs(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Processors, RandomIo, few_and_many, coir_test::processors_name);

}  // namespace
}  // namespace stress
