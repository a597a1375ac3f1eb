// The load of the network rows: one thread, one epoll, closed loop. Each connection sends a request of 64 bytes when it
// has the answer to the one before. The load polls instead of sleeping, so that what is measured is the server.
//
//   net_load MODE PORT PID OPTION=VALUE...     a line a figure: "name value"
//     echo      connections=64 idle=0 pause_us=0 seconds=1
//     connect   connections=64 seconds=1: each connects, asks once, closes, and so on
//     idle      connections=10000 seconds=2: each asks once, then all are quiet
//   calls=FILE: the file with the system calls of a _counted server
//
// PID is the server's: its CPU time is read at the beginning and the end of the measured time.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/epoll.h>
#include <unistd.h>

#include "../servers/descriptors.hpp"
#include "client.hpp"
#include "observed_server.hpp"

namespace {

using namespace bench;
using namespace std::chrono_literals;

constexpr auto warm_up = 200ms;
constexpr auto patience = 10s;  // without any answer
constexpr std::size_t least_requests = 100;

struct plan {
  std::string mode;
  int port = 0;
  ::pid_t pid = 0;
  std::map<std::string, std::string, std::less<>> options;

  double number(std::string_view name, double otherwise) const {
    const auto at = options.find(name);
    return at != options.end() ? std::stod(at->second) : otherwise;
  }
  std::size_t count(std::string_view name, std::size_t otherwise) const {
    return static_cast<std::size_t>(number(name, static_cast<double>(otherwise)));
  }
};

plan parse(int argc, char** argv) {
  if (argc < 4) throw std::runtime_error("usage: net_load echo|connect|idle PORT PID OPTION=VALUE...");
  plan p{argv[1], std::stoi(argv[2]), std::stoi(argv[3]), {}};
  for (int i = 4; i < argc; ++i) {
    const std::string_view text = argv[i];
    const auto equals = text.find('=');
    if (equals == text.npos) throw std::runtime_error("not an option: " + std::string(text));
    p.options.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return p;
}

class load {
 public:
  explicit load(const plan& p)
      : plan_(p),
        server_(p.pid, p.options.contains("calls") ? p.options.at("calls").c_str() : nullptr),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        clients_(p.count("connections", 64)),
        pause_(static_cast<std::int64_t>(p.number("pause_us", 0))) {
    if (epoll_ < 0) fail("epoll_create1");
  }

  void echo() {
    const std::vector<client> others = idle_clients(plan_.count("idle", 0));
    connect_all();
    measure([this](std::size_t i) { finish_request(i); });
  }

  void connect_and_close() {
    connect_all();
    measure([this](std::size_t i) {
      clients_[i].disconnect();
      clients_[i].connect(epoll_, plan_.port, i, salt_++);
      connecting_[i] = true;
    });
  }

  void idle() {
    const double before = server_.resident_bytes();
    const std::vector<client> quiet = idle_clients(clients_.size());
    std::this_thread::sleep_for(500ms);
    const double after = server_.resident_bytes();
    const auto from = server_.now();
    std::this_thread::sleep_for(std::chrono::duration<double>(plan_.number("seconds", 2)));
    const auto to = server_.now();
    print("bytes", (after - before) / static_cast<double>(quiet.size()));
    print("cpu_ms", (to.cpu - from.cpu) * 1e3);
    print("switches", static_cast<double>(to.switches - from.switches));
  }

 private:
  static void print(const char* name, double value) { std::printf("%s %.6g\n", name, value); }

  void connect_all() {
    connecting_.assign(clients_.size(), true);
    for (std::size_t i = 0; i < clients_.size(); ++i) clients_[i].connect(epoll_, plan_.port, i, salt_++);
  }

  /// Connections that have asked once, so that the server has all that it needs for them.
  std::vector<client> idle_clients(std::size_t n) {
    std::vector<client> made(n);
    std::vector<bool> done(n);
    std::size_t begun = 0;
    std::size_t ended = 0;
    while (ended < n) {
      for (; begun < n && begun - ended < 256; ++begun) made[begun].connect(epoll_, plan_.port, begun, salt_++);
      wait([&](std::size_t i, std::uint32_t events) {
        if (done[i]) return;
        if ((events & EPOLLIN) == 0) return made[i].request();
        if (made[i].receive()) done[i] = true, ++ended;
      });
    }
    return made;
  }

  /// Calls `handle(key, events)` for what is ready.
  template <class Handle>
  void wait(Handle handle) {
    ::epoll_event events[256];
    const int n = ::epoll_wait(epoll_, events, 256, 0);
    const auto now = load_clock::now();
    if (n > 0) last_event_ = now;
    if (now - last_event_ > patience) throw std::runtime_error("the server does not answer");
    for (int i = 0; i < n; ++i) {
      if ((events[i].events & (EPOLLERR | EPOLLHUP)) != 0)
        throw std::runtime_error("the server has reset a connection");
      handle(static_cast<std::size_t>(events[i].data.u64), events[i].events);
    }
  }

  void finish_request(std::size_t i) {
    if (pause_.count() == 0)
      clients_[i].request();
    else
      paused_.push_back({load_clock::now() + pause_, i});
  }

  void resume_paused() {
    while (!paused_.empty() && paused_.front().until <= load_clock::now()) {
      clients_[paused_.front().who].request();
      paused_.pop_front();
    }
  }

  /// Closed loop; `answered(i)`: what client i does next.
  template <class Answered>
  void measure(Answered answered) {
    std::vector<std::uint32_t> times;
    times.reserve(1 << 20);
    bool measuring = false;
    const auto turn = [&] {
      resume_paused();
      wait([&](std::size_t i, std::uint32_t events) {
        if (connecting_[i]) {
          if ((events & EPOLLOUT) == 0) return;
          connecting_[i] = false;
          return clients_[i].request();
        }
        if ((events & EPOLLIN) == 0 || !clients_[i].receive()) return;
        if (measuring)
          times.push_back(
              static_cast<std::uint32_t>(std::chrono::nanoseconds(clients_[i].waited(load_clock::now())).count()));
        answered(i);
      });
    };
    for (const auto end = load_clock::now() + warm_up; load_clock::now() < end;) turn();
    measuring = true;
    const auto from = server_.now();
    const auto start = load_clock::now();
    const auto end = start + std::chrono::duration_cast<load_clock::duration>(
                                 std::chrono::duration<double>(plan_.number("seconds", 1)));
    while (load_clock::now() < end || times.size() < least_requests) turn();
    const auto to = server_.now();
    const double seconds = std::chrono::duration<double>(load_clock::now() - start).count();
    report(times, seconds, from, to);
  }

  void report(std::vector<std::uint32_t>& times, double seconds, const observed_server::figures& from,
              const observed_server::figures& to) const {
    const auto requests = static_cast<double>(times.size());
    const auto quantile = [&](double q) {
      const auto at = times.begin() + static_cast<std::ptrdiff_t>(q * (requests - 1));
      std::nth_element(times.begin(), at, times.end());
      return *at / 1e3;
    };
    print("requests", requests);
    print("time", seconds * 1e6 / requests);
    print("cpu", (to.cpu - from.cpu) * 1e6 / requests);
    print("p50", quantile(0.5));
    print("p99", quantile(0.99));
    print("switches", static_cast<double>(to.switches - from.switches) / requests);
    if (!server_.has_calls()) return;
    print("calls", static_cast<double>(to.calls - from.calls) / requests);
    print("futexes", static_cast<double>(to.futexes - from.futexes) / requests);
  }

  struct paused {
    load_clock::time_point until;
    std::size_t who;
  };

  const plan& plan_;
  const observed_server server_;
  const int epoll_;
  std::vector<client> clients_;
  std::vector<bool> connecting_;
  const std::chrono::microseconds pause_;
  std::deque<paused> paused_;  // in the order of their ends: all pauses are equally long
  unsigned salt_ = 0;
  load_clock::time_point last_event_ = load_clock::now();
};

}  // namespace

int main(int argc, char** argv) try {
  allow_many_descriptors();
  const plan p = parse(argc, argv);
  load l(p);
  if (p.mode == "echo")
    l.echo();
  else if (p.mode == "connect")
    l.connect_and_close();
  else if (p.mode == "idle")
    l.idle();
  else
    throw std::runtime_error("no such mode: " + p.mode);
} catch (const std::exception& e) {
  std::fprintf(stderr, "net_load: %s\n", e.what());
  return 1;
}
