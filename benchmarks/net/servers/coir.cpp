// coir's server of the network rows:
//
//   net_coir MODE      prints "port N", then serves until it is killed
//     echo             a fiber for each connection sends back what it reads
//     deadline         the same, with a read deadline set before every read
//     yielding         echo beside fibers that do nothing but yield
//     computing        echo beside fibers that compute for 100 ms at a time
//     timers           echo beside a million timers that are set for the next hour and the one after
//   net_coir parked N  prints "bytes B": the resident memory of each of N fibers that are blocked in a receive
#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <coir/net.hpp>
#include <coir/runtime.hpp>
#include <coir/time.hpp>

#include "../../workloads/parked.hpp"
#include "descriptors.hpp"

namespace {

using namespace std::chrono_literals;

constexpr auto read_timeout = 10s;
constexpr auto computation = 100ms;
constexpr int yielding_fibers = 4;
constexpr int computing_fibers = 2;
constexpr int timers = 1'000'000;

void echo(coir::net::tcp_stream peer, bool deadlines) {
  std::array<std::byte, 256> buffer;
  std::error_code error;
  for (;;) {
    if (deadlines) peer.set_read_deadline(std::chrono::steady_clock::now() + read_timeout);
    const std::size_t n = peer.read_some(buffer, error);
    if (error || n == 0) return;
    peer.write(std::span(buffer).first(n), error);
    if (error) return;
  }
}

[[noreturn]] void serve(bool deadlines) {
  coir::net::tcp_listener listener(coir::net::endpoint("127.0.0.1:0"));
  std::cout << "port " << listener.local_endpoint().port() << std::endl;
  for (;;) coir::go([peer = listener.accept(), deadlines]() mutable { echo(std::move(peer), deadlines); });
}

void compute(std::chrono::nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

[[noreturn]] void serve_beside(std::string_view load) {
  std::vector<coir::timer> set;
  if (load == "yielding") {
    for (int i = 0; i < yielding_fibers; ++i)
      coir::go([] {
        for (;;) coir::yield();
      });
  } else if (load == "computing") {
    for (int i = 0; i < computing_fibers; ++i)
      coir::go([] {
        for (;; coir::yield()) compute(computation);
      });
  } else if (load == "timers") {
    set.reserve(timers);
    for (int i = 0; i < timers; ++i) set.push_back(coir::after_func(1h + i * 3'600us, [] {}));
  }
  serve(load == "deadline");
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  bench::allow_many_descriptors();
  if (mode == "parked" && argc == 3) {
    const int fibers = std::stoi(argv[2]);
    std::cout << "bytes " << coir::run([=] { return bench::parked(fibers).resident_bytes; }) << std::endl;
    return 0;
  }
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " echo|deadline|yielding|computing|timers | parked N\n";
    return 2;
  }
  coir::run([&] { serve_beside(mode); });
} catch (const std::exception& e) {
  std::cerr << argv[0] << ": " << e.what() << '\n';
  return 1;
}
