// What the drivers of explored servers have in common. A driver explores a function in which clients talk to a server
// of examples/ over the simulated network; the server's main() runs in a fiber. The linker puts the driver's main()
// before the server's (--wrap=main).
#pragma once

#include <csignal>
#include <cstddef>
#include <functional>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include <coir/coir.hpp>
#include <coir/explore.hpp>
#include <coir/net.hpp>

#include "run_in_place.hpp"
#include "signals_in_place.hpp"
#undef run
#undef signals

extern "C" {                             // the linker's names
int __real_main(int argc, char** argv);  // NOLINT(bugprone-reserved-identifier)
int __wrap_main();                       // NOLINT(bugprone-reserved-identifier)
}

namespace explored {

using coir::net::endpoint;
using coir::net::tcp_stream;

/// The server, from its start to its graceful stop.
class server {
 public:
  server()
      : main_(coir::spawn([] {
          std::string name = "server", option = "--port", port = "700";
          char* arguments[] = {name.data(), option.data(), port.data(), nullptr};
          if (__real_main(3, arguments) != 0) throw std::runtime_error("the server has failed");
        })) {
    coir::settle();  // it listens now
  }

  tcp_stream connect(std::error_code& error) const { return tcp_stream::connect(endpoint("127.0.0.1:700"), error); }
  tcp_stream connect() const { return tcp_stream::connect(endpoint("127.0.0.1:700")); }

  /// Ends what the server still does for its clients, too.
  void stop() {
    coir::stop_signals().send(SIGTERM);
    main_.get();
  }

 private:
  const coir::chan<int> signals_ = coir::begin_stop_signals();
  coir::task<void> main_;
};

inline void write(tcp_stream& to, std::string_view text) { to.write(std::as_bytes(std::span(text))); }

inline void expect(bool holds, std::string_view what) {
  if (!holds) throw std::runtime_error(std::string(what));
}

/// Fails if the next bytes are not these.
inline void expect_read(tcp_stream& from, std::string_view text) {
  std::string got(text.size(), '\0');
  from.read(std::as_writable_bytes(std::span(got)));
  expect(got == text, "\"" + got + "\" instead of \"" + std::string(text) + '"');
}

/// A client that faults may hit. It sends the request; what comes, until an error, is the beginning of the answer.
inline void ask_despite_faults(const server& of, std::string_view request, std::string_view answer) {
  std::error_code error;
  tcp_stream c = of.connect(error);
  c.set_read_deadline(coir::clock::now() + std::chrono::hours(1));
  if (!error) c.write(std::as_bytes(std::span(request)), error);
  std::string got(answer.size(), '\0');
  std::size_t n = 0;
  if (!error) n = c.read(std::as_writable_bytes(std::span(got)), error);
  expect(got.substr(0, n) == answer.substr(0, n), "another answer: " + got);
}

/// main() of a driver: explores each of the functions under schedules with and without faults of the network.
inline int explore_all(const std::function<void()>& without_faults, const std::function<void()>& with_faults) {
  const int silent = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (silent < 0 || ::dup2(silent, STDOUT_FILENO) < 0) return 2;
  program_is_alone = false;
  bool failed = false;
  const auto explore = [&](const coir::explore_options& o, const std::function<void()>& f) {
    const coir::exploration e = coir::explore(o, f);
    if (!e) std::cerr << e << '\n';
    failed = failed || !e;
  };
  explore({.schedules = 1'000, .strategy = coir::pct(3)}, without_faults);
  explore({.schedules = 1'000, .strategy = coir::random_walk()}, without_faults);
  explore({.schedules = 1'000, .strategy = coir::pct(3), .network = {.resets = 2, .cut_offs = 1}}, with_faults);
  return failed ? 1 : 0;
}

}  // namespace explored
