// Fetch-all: many fetches at once, but not too many; the first failure ends the others; and all of it within a
// deadline. A task_group holds the fetches together, timeout() bounds them, and a context tells the "servers" who
// nobody waits for any more.
#include <atomic>
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <coir/context.hpp>
#include <coir/runtime.hpp>
#include <coir/sleep.hpp>
#include <coir/task_group.hpp>
#include <coir/timeout.hpp>

namespace {

using namespace std::chrono_literals;

struct request {
  std::string url;
  coir::chan<std::string> reply = coir::make_chan<std::string>(1);
  coir::context ctx;
};

/// Stands for the network: one fiber a request, which ends when the answer is sent or nobody wants it any more.
class servers {
 public:
  std::string fetch(const coir::context& ctx, const std::string& url) {
    request r{url, coir::make_chan<std::string>(1), ctx};
    ++open_;
    coir::go([this, r] { serve(r); });
    std::string text = *r.reply.recv();  // blocks: here a failure elsewhere, or the deadline, gets us out
    if (text.empty()) throw std::runtime_error("404 " + url);
    return text;
  }

  int open() const { return open_; }

 private:
  void serve(const request& r) {
    if (r.url == "/slow") {
      r.ctx.done().recv();  // no answer, until nobody waits for it any more
    } else {
      coir::sleep_for(100us);
      r.reply.send(r.url == "/missing" ? "" : "contents of " + r.url);
    }
    --open_;
  }

  std::atomic<int> open_{0};
};

std::vector<std::string> fetch_all(servers& net, const std::vector<std::string>& urls) {
  auto [ctx, cancel] = coir::with_cancel(coir::context::background());
  const struct at_end {
    coir::cancel_function cancel;
    ~at_end() { cancel(); }  // defer cancel()
  } cancels{cancel};

  std::vector<std::string> pages(urls.size());
  coir::task_group group;
  group.set_limit(4);
  for (std::size_t i = 0; i < urls.size(); ++i)
    group.spawn([&net, &page = pages[i], &url = urls[i], ctx = ctx] { page = net.fetch(ctx, url); });
  group.wait();
  return pages;
}

void report(servers& net, const std::vector<std::string>& urls, std::chrono::milliseconds limit) {
  try {
    for (const std::string& page : coir::timeout(limit, [&] { return fetch_all(net, urls); }))
      std::cout << page << '\n';
  } catch (const coir::timed_out&) {
    std::cout << "not all of them came in time\n";
  } catch (const std::runtime_error& e) {
    std::cout << "failed: " << e.what() << '\n';
  }
}

}  // namespace

int main() {
  servers net;
  coir::run([&net] {
    report(net, {"/a", "/b", "/c", "/d", "/e", "/f"}, 10s);
    report(net, {"/a", "/slow", "/missing", "/slow"}, 10s);
    report(net, {"/a", "/slow", "/b"}, 20ms);
  });  // returns when the servers' fibers, too, have ended
  std::cout << net.open() << " requests are left\n";
}
