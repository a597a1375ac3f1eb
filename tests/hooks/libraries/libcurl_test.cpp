// libcurl's easy interface in fibers, against a small HTTP server of coir's in the same process.
#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <coir/net.hpp>

#include "hooks_test.hpp"

namespace hooks_test {
namespace {

/// Answers each request with its path, once that many have come.
class http_server {
 public:
  explicit http_server(int at_once)
      : all_(at_once), listener_(coir::net::endpoint("127.0.0.1:0")), accepts_(coir::spawn([this] { accept(); })) {}
  ~http_server() { listener_.close(); }

  std::string url(int i) const { return "http://" + listener_.local_endpoint().to_string() + "/" + std::to_string(i); }

 private:
  void accept() {
    coir::task_group clients;
    for (;;) {
      std::error_code error;
      coir::net::tcp_stream client = listener_.accept(error);
      if (error) break;
      clients.spawn([this, c = std::move(client)]() mutable { serve(c); });
    }
    clients.wait();
  }

  void serve(coir::net::tcp_stream& client) {
    std::string request;
    std::byte part[1024];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const std::size_t n = client.read_some(part);
      if (n == 0) return;
      request.append(reinterpret_cast<const char*>(part), n);
    }
    const std::size_t path = request.find('/') + 1;
    const std::string body = request.substr(path, request.find(' ', path) - path);
    all_.arrive_and_wait();
    const std::string answer =
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    client.write(std::as_bytes(std::span(answer)));
  }

  coir::latch all_;
  coir::net::tcp_listener listener_;
  coir::task<void> accepts_;
};

std::size_t append(const char* data, std::size_t size, std::size_t n, std::string* to) {
  to->append(data, size * n);
  return size * n;
}

std::pair<::CURLcode, std::string> fetch(const std::string& url) {
  const std::unique_ptr<::CURL, decltype(&::curl_easy_cleanup)> easy(::curl_easy_init(), &::curl_easy_cleanup);
  std::string body;
  ::curl_easy_setopt(easy.get(), CURLOPT_URL, url.c_str());
  ::curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);  // its time limits are not to raise SIGALRM
  ::curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, &append);
  ::curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &body);
  ::curl_easy_setopt(easy.get(), CURLOPT_TIMEOUT, 100L);
  const ::CURLcode code = ::curl_easy_perform(easy.get());
  return {code, body};
}

class libcurl : public coir_test::with_processors {
 protected:
  static void SetUpTestSuite() { ::curl_global_init(CURL_GLOBAL_DEFAULT); }
};

TEST_P(libcurl, ManyRequestsAreUnderWayAtOnceOnFewThreads) {
  constexpr int count = coir_test::thread_sanitizer ? 50 : 200;
  run([] {
    const http_server server(count);
    std::vector<coir::task<int>> requests;
    for (int i = 0; i < count; ++i) {
      requests.push_back(coir::spawn([&server, i] {
        const auto [code, body] = fetch(server.url(i));
        EXPECT_EQ(code, CURLE_OK) << ::curl_easy_strerror(code);
        EXPECT_EQ(body, std::to_string(i));
        return entries("task");
      }));
    }
    int threads = 0;
    for (coir::task<int>& each : requests) threads = std::max(threads, each.get());
    EXPECT_LT(threads, count / 2);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, libcurl, testing::Values(1U, 2U), coir_test::processors_name);

}  // namespace
}  // namespace hooks_test
