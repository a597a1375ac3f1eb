// A rate limiter with a burst: a bucket of tokens that a ticker refills, one a beat, and that overflows. Who has been
// quiet for a while may send a burst; who goes on must keep to the beat.
#include <chrono>
#include <iostream>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/select.hpp>
#include <coir/time.hpp>

namespace {

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

class rate_limiter {
 public:
  /// `burst` tokens at first and at most, another one every `beat`. Must be made in a fiber.
  rate_limiter(std::chrono::nanoseconds beat, std::size_t burst) : bucket_(coir::make_chan<void>(burst)) {
    for (std::size_t i = 0; i < burst; ++i) bucket_.send();
    refiller_ = coir::spawn([bucket = bucket_, done = done_, beat] {
      coir::ticker beats{beat};
      for (bool open = true; open;)
        coir::select(coir::on_recv(beats.c(), [&](auto) { static_cast<void>(bucket.try_send()); }),  // full: overflows
                     coir::on_recv(done, [&](bool) { open = false; }));
    });
  }
  ~rate_limiter() {
    done_.close();
    refiller_.wait();
  }

  /// Blocks until there is a token.
  void wait() { bucket_.recv(); }

  /// Takes one only if it is there.
  bool allow() { return bucket_.try_recv() == coir::recv_status::done; }

 private:
  coir::chan<void> bucket_;
  coir::chan<void> done_ = coir::make_chan<void>();
  coir::task<void> refiller_;
};

}  // namespace

int main() {
  coir::run([] {
    rate_limiter impatient{1h, 3};
    for (int request = 1; request <= 5; ++request)
      std::cout << "request " << request << (impatient.allow() ? ": served\n" : ": try again later\n");

    constexpr auto beat = 1ms;
    rate_limiter patient{beat, 3};
    const auto begin = clock_type::now();
    for (int request = 0; request < 3 + 20; ++request) patient.wait();
    // The first of the twenty may find a beat that was just due.
    const bool kept = clock_type::now() - begin >= 17 * beat;
    std::cout << "23 requests, 3 of them in a burst: " << (kept ? "the rate was kept\n" : "too fast\n");
  });
}
