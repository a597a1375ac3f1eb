// A page over HTTP/1.0, after which the server closes: enough to show the network. A program that needs more of HTTP
// uses Boost.Beast (docs/network.md).
#pragma once

#include <charconv>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <coir/net.hpp>

namespace example {

struct page {
  int status = 0;
  std::string body;
};

struct address {
  std::string host, port, path;
};

inline address parse(std::string_view url) {
  constexpr std::string_view scheme = "http://";
  const bool is_plain = url.find_first_of(" \r\n") == url.npos;
  if (!url.starts_with(scheme) || !is_plain) throw std::invalid_argument("no URL of HTTP: " + std::string(url));
  url.remove_prefix(scheme.size());
  const std::string_view authority = url.substr(0, url.find('/'));
  const std::size_t colon = authority.find(':');
  return {std::string(authority.substr(0, colon)),
          colon == authority.npos ? "80" : std::string(authority.substr(colon + 1)),
          authority.size() == url.size() ? "/" : std::string(url.substr(authority.size()))};
}

inline std::string read_to_end(coir::net::tcp_stream& stream) {
  constexpr std::size_t largest = 16 * 1024 * 1024;
  std::string text;
  std::byte part[16 * 1024];
  while (const std::size_t n = stream.read_some(part)) {
    if (text.size() + n > largest) throw std::length_error("a page is too large");
    text.append(reinterpret_cast<const char*>(part), n);
  }
  return text;
}

/// Throws std::system_error, and std::runtime_error if the answer is none or is no success.
inline page fetch(const std::string& url) {
  const address at = parse(url);
  coir::net::tcp_stream stream = coir::net::tcp_stream::connect(at.host, at.port);
  const std::string request = "GET " + at.path + " HTTP/1.0\r\nHost: " + at.host + "\r\n\r\n";
  stream.write(std::as_bytes(std::span(request)));

  const std::string answer = read_to_end(stream);
  const std::size_t space = answer.find(' '), body = answer.find("\r\n\r\n");
  page result;
  if (!answer.starts_with("HTTP/1.") || space == answer.npos || body == answer.npos ||
      std::from_chars(answer.data() + space + 1, answer.data() + answer.size(), result.status).ec != std::errc())
    throw std::runtime_error("no answer of HTTP from " + url);
  if (result.status != 200) throw std::runtime_error("status " + std::to_string(result.status) + " from " + url);
  result.body = answer.substr(body + 4);
  return result;
}

}  // namespace example
