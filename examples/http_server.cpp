// An HTTP server on Boost.Beast, with TLS by Asio and OpenSSL: their synchronous functions, in a fiber for each client.
//
//   http_server [--port N] [--tls CERTIFICATE KEY] [--root DIRECTORY] [--timeout SECONDS]
//
//   /plaintext      a greeting, for measurements
//   /metrics        what the runtime does, for Prometheus
//   /debug/fibers   what every fiber does
//   others          the files below DIRECTORY
//
// Without a port, or with 0, it takes one that is free and prints it. A client has SECONDS (30) to send a request, from
// when it may begin, and as long to take each part of the answer. SIGTERM stops the server: requests that have begun
// are answered, and connections without one are closed.
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory_resource>
#include <optional>
#include <span>
#include <sstream>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <sys/stat.h>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <coir/asio_stream.hpp>
#include <coir/coir.hpp>
#include <coir/dump.hpp>
#include <coir/metrics.hpp>
#include <coir/net.hpp>

#include "common/serve.hpp"
#include "http/static_path.hpp"

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using coir::net::tcp_stream;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::uint32_t max_header = 16 * 1024;
constexpr std::uint64_t max_body = 1024 * 1024;
constexpr std::string_view end_of_line = "\r\n";
constexpr std::size_t file_part = 1024 * 1024;

using plain_stream = coir::asio_stream<tcp_stream>;
using tls_stream = asio::ssl::stream<plain_stream>;

// The fields of a request and its response live in a buffer of the connection.
using allocator = std::pmr::polymorphic_allocator<char>;
using fields = http::basic_fields<allocator>;
using request_parser = http::request_parser<http::string_body, allocator>;
using request = request_parser::value_type;

struct settings {
  std::uint16_t port = 0;
  std::optional<asio::ssl::context> tls;
  int root = -1;  // the directory
  steady_clock::duration timeout = 30s;
};

class open_file {
 public:
  open_file(int root, const std::string& path) : fd_(example::open_below(root, path)) {
    struct ::stat about{};
    if (fd_ >= 0 && ::fstat(fd_, &about) == 0 && S_ISREG(about.st_mode))
      size_ = static_cast<std::size_t>(about.st_size);
  }
  ~open_file() {
    if (fd_ >= 0) ::close(fd_);
  }
  open_file(open_file&& other) noexcept : fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  open_file& operator=(open_file&&) = delete;

  int fd() const { return fd_; }
  bool is_regular() const { return size_.has_value(); }
  std::size_t size() const { return *size_; }

 private:
  int fd_;
  std::optional<std::size_t> size_;
};

struct answer {
  http::status status = http::status::ok;
  std::string_view type = "text/plain; charset=utf-8";
  std::string_view text = {};  // what is sent, if there is nothing of these:
  std::string made_text = {};  // a text that was made for this answer
  std::optional<open_file> file = {};

  std::string_view body() const { return made_text.empty() ? text : made_text; }
};

std::string_view content_type(std::string_view path) {
  static constexpr std::pair<std::string_view, std::string_view> types[] = {
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css"},
      {".js", "text/javascript"},
      {".json", "application/json"},
      {".txt", "text/plain"},
      {".svg", "image/svg+xml"},
      {".png", "image/png"},
      {".jpg", "image/jpeg"},
      {".gif", "image/gif"},
      {".ico", "image/x-icon"},
      {".wasm", "application/wasm"},
      {".pdf", "application/pdf"},
  };
  for (const auto& [end, type] : types)
    if (path.ends_with(end)) return type;
  return "application/octet-stream";
}

answer failure(http::status status) { return {.status = status, .text = http::obsolete_reason(status)}; }

answer answer_to(const request& asked, const settings& s) {
  if (asked.method() != http::verb::get && asked.method() != http::verb::head)
    return failure(http::status::method_not_allowed);
  const std::string_view target(asked.target().data(), asked.target().size());
  if (target == "/plaintext") return {.text = "Hello, World!"};
  if (target == "/metrics") return {.made_text = coir::prometheus(coir::metrics())};
  if (target == "/debug/fibers") {
    std::ostringstream out;
    coir::dump(out);
    return {.made_text = std::move(out).str()};
  }
  if (s.root < 0) return failure(http::status::not_found);
  const std::optional<std::string> path = example::static_path(target);
  if (!path) return failure(http::status::bad_request);
  // From memory, as a rule. If the disk makes it wait, the monitor gives the processor to another thread.
  open_file file(s.root, *path);
  if (!file.is_regular()) return failure(http::status::not_found);
  return {.type = content_type(*path), .file = std::move(file)};
}

/// What a connection is served with: `run()` reads requests and answers them until one side wants an end.
template <class Stream>
class connection {
 public:
  connection(Stream& stream, const settings& s) : stream_(stream), settings_(s), input_(max_header + 4096) {}

  void run() {
    while (wait_for_request()) {
      const coir::uncancellable in_flight;
      if (!serve_request()) return;
      memory_.release();
    }
  }

 private:
  tcp_stream& tcp() { return stream_.lowest_layer().next_layer(); }
  bool stopping() const { return stop_.stop_requested(); }

  /// Blocks until a request begins; false: none will. Only here the server's stop ends a connection.
  bool wait_for_request() {
    tcp().set_read_deadline(steady_clock::now() + settings_.timeout);
    if (input_.size() != 0) return true;
    try {
      error_code error;
      input_.commit(stream_.read_some(input_.prepare(4096), error));
      return !error;
    } catch (const coir::cancelled&) {
      return false;
    }
  }

  /// False: the connection ends.
  bool serve_request() {
    request_parser parser(std::piecewise_construct, std::tuple(), std::tuple(allocator(&memory_)));
    parser.header_limit(max_header);
    parser.body_limit(max_body);
    error_code error;
    http::read_header(stream_, input_, parser, error);
    if (!error && !parser.is_done()) {
      tcp().set_read_deadline(steady_clock::now() + settings_.timeout);
      if (beast::iequals(parser.get()[http::field::expect], "100-continue")) say_continue(error);
      if (!error) http::read(stream_, input_, parser, error);
    }
    const request& asked = parser.get();
    if (!error) {
      const bool keep = asked.keep_alive() && !stopping();
      return send(answer_to(asked, settings_), asked, keep) && keep;
    }
    if (const std::optional<http::status> status = status_of(error)) {
      send(failure(*status), asked, false);
      linger();
    }
    return false;
  }

  /// What a client is told that has sent nonsense; nothing: it is gone, or too slow.
  static std::optional<http::status> status_of(const error_code& error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      return http::status::request_header_fields_too_large;
    if (error == http::error::body_limit) return http::status::payload_too_large;
    if (error == http::error::end_of_stream || error == http::error::partial_message) return std::nullopt;
    if (error.category() == make_error_code(http::error::bad_method).category()) return http::status::bad_request;
    return std::nullopt;
  }

  void say_continue(error_code& error) {
    tcp().set_write_deadline(steady_clock::now() + settings_.timeout);
    asio::write(stream_, asio::buffer(std::string_view("HTTP/1.1 100 Continue\r\n\r\n")), error);
  }

  /// False: the client does not take it.
  bool send(const answer& a, const request& asked, bool keep) {
    http::response_header<fields> head(allocator{&memory_});
    head.result(a.status);
    head.version(asked.version() == 10 ? 10 : 11);
    head.insert(http::field::server, "coir");
    head.insert(http::field::date, date());
    head.insert(http::field::content_type, a.type);
    if (a.status == http::status::method_not_allowed) head.insert(http::field::allow, "GET, HEAD");
    head.insert(http::field::content_length, std::to_string(a.file ? a.file->size() : a.body().size()));
    if (keep != (head.version() == 11)) head.insert(http::field::connection, keep ? "keep-alive" : "close");

    const bool with_body = asked.method() != http::verb::head;
    put(head);
    if (with_body) output_ += a.body();
    tcp().set_write_deadline(steady_clock::now() + settings_.timeout);
    error_code error;
    asio::write(stream_, asio::buffer(output_), error);
    return !error && (!with_body || !a.file || send_file(stream_, *a.file));
  }

  /// The head in one piece. (Beast's serializer hands on a list of its many parts: twice the work of all the rest.)
  void put(const http::response_header<fields>& head) {
    output_ = head.version() == 10 ? "HTTP/1.0 " : "HTTP/1.1 ";
    output_ += std::to_string(head.result_int());
    for (const std::string_view part : {std::string_view(" "), std::string_view(head.reason()), end_of_line})
      output_ += part;
    for (const auto& field : head)
      for (const std::string_view part : {std::string_view(field.name_string()), std::string_view(": "),
                                          std::string_view(field.value()), end_of_line})
        output_ += part;
    output_ += end_of_line;
  }

  bool send_file(plain_stream& to, const open_file& file) {
    for (std::size_t at = 0; at < file.size();) {
      const std::size_t part = std::min(file_part, file.size() - at);
      tcp().set_write_deadline(steady_clock::now() + settings_.timeout);
      std::error_code error;
      const std::size_t sent = to.next_layer().send_file(file.fd(), static_cast<::off_t>(at), part, error);
      if (error || sent != part) return false;
      at += sent;
    }
    return true;
  }

  bool send_file(tls_stream& to, const open_file& file) {
    std::array<char, 16 * 1024> part;  // a TLS record
    for (std::size_t at = 0; at < file.size();) {
      const ::ssize_t n =
          ::pread(file.fd(), part.data(), std::min(part.size(), file.size() - at), static_cast<::off_t>(at));
      if (n <= 0) return false;
      tcp().set_write_deadline(steady_clock::now() + settings_.timeout);
      error_code error;
      asio::write(to, asio::buffer(part.data(), static_cast<std::size_t>(n)), error);
      if (error) return false;
      at += static_cast<std::size_t>(n);
    }
    return true;
  }

  /// Lets a client read its answer that still sends: a close would reset the connection, and take the answer with it.
  void linger() {
    std::error_code ignored;
    tcp().shutdown(coir::net::shutdown_how::write, ignored);
    tcp().set_read_deadline(steady_clock::now() + std::min<steady_clock::duration>(settings_.timeout, 1s));
    std::array<std::byte, 4096> rest;
    for (std::error_code error; !error && tcp().read_some(rest, error) != 0;) {
    }
  }

  /// Now, as HTTP writes it; made anew once a second.
  std::string_view date() {
    const std::time_t now = std::time(nullptr);
    if (now != date_of_) {
      std::tm parts{};
      ::gmtime_r(&now, &parts);
      date_size_ = std::strftime(date_.data(), date_.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
      date_of_ = now;
    }
    return {date_.data(), date_size_};
  }

  Stream& stream_;
  const settings& settings_;
  const std::stop_token stop_ = coir::this_fiber::stop_token();
  beast::flat_buffer input_;
  std::string output_;
  std::array<std::byte, 2048> small_memory_;
  std::pmr::monotonic_buffer_resource memory_{small_memory_.data(), small_memory_.size()};
  std::array<char, 40> date_{};
  std::size_t date_size_ = 0;
  std::time_t date_of_ = -1;
};

void serve_client(tcp_stream& client, settings& s) {
  if (!s.tls) {
    plain_stream stream(std::move(client));
    connection(stream, s).run();
    return;
  }
  tls_stream stream(std::move(client), *s.tls);
  tcp_stream& tcp = stream.lowest_layer().next_layer();
  error_code error;
  tcp.set_read_deadline(steady_clock::now() + s.timeout);
  tcp.set_write_deadline(steady_clock::now() + s.timeout);
  stream.handshake(asio::ssl::stream_base::server, error);
  if (error) return;
  connection(stream, s).run();
  const coir::uncancellable says_goodbye;
  tcp.set_read_deadline(steady_clock::now() + std::min<steady_clock::duration>(s.timeout, 1s));
  stream.shutdown(error);
}

// ---- the command line ----------------------------------------------------------------------------------------------

[[noreturn]] void usage(const char* program) {
  std::fprintf(stderr, "usage: %s [--port N] [--tls CERTIFICATE KEY] [--root DIRECTORY] [--timeout SECONDS]\n",
               program);
  std::exit(2);
}

template <class Number>
Number number_argument(std::string_view text, const char* program) {
  Number n{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) usage(program);
  return n;
}

settings settings_of(std::span<char*> arguments) {
  settings s;
  const char* const program = arguments[0];
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view option = arguments[i];
    const auto value = [&] { return ++i < arguments.size() ? arguments[i] : (usage(program), nullptr); };
    if (option == "--port") {
      s.port = number_argument<std::uint16_t>(value(), program);
    } else if (option == "--timeout") {
      const auto seconds = std::chrono::duration<double>(number_argument<double>(value(), program));
      s.timeout = std::chrono::duration_cast<steady_clock::duration>(seconds);
    } else if (option == "--root") {
      const char* const name = value();
      s.root = ::open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
      if (s.root < 0) throw std::system_error(errno, std::system_category(), name);
    } else if (option == "--tls") {
      s.tls.emplace(asio::ssl::context::tls_server);
      s.tls->set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
      s.tls->use_certificate_chain_file(value());
      s.tls->use_private_key_file(value(), asio::ssl::context::pem);
    } else {
      usage(program);
    }
  }
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    settings s = settings_of({argv, static_cast<std::size_t>(argc)});
    coir::run([&s] { example::serve(s.port, [&s](tcp_stream& client) { serve_client(client, s); }); });
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 1;
  }
}
