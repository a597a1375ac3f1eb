#include <coir/endpoint.hpp>

#include <coir/detail/abi.hpp>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <optional>
#include <stdexcept>

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/un.h>

namespace coir::inline COIR_ABI::net {

namespace {

[[noreturn]] void refuse(std::string_view text, const char* why) {
  throw std::invalid_argument("coir: endpoint \"" + std::string(text) + "\": " + why);
}

std::optional<std::uint32_t> number(std::string_view digits, std::uint32_t most) {
  std::uint32_t n = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, n);
  if (digits.empty() || error != std::errc() || stop != end || n > most) return std::nullopt;
  return n;
}

::in_port_t parse_port(std::string_view text, std::string_view digits) {
  const auto port = number(digits, 65'535);
  if (!port) refuse(text, "the port is no number of 0 to 65535");
  return htons(static_cast<std::uint16_t>(*port));
}

std::uint32_t parse_scope(std::string_view text, const std::string& scope) {
  if (const std::uint32_t index = ::if_nametoindex(scope.c_str()); index != 0) return index;
  const auto n = number(scope, UINT32_MAX);
  if (!n) refuse(text, "there is no such network interface");
  return *n;
}

template <class Address>
::socklen_t store(::sockaddr_storage& to, const Address& from) noexcept {
  static_assert(sizeof from <= sizeof to);
  std::memcpy(&to, &from, sizeof from);
  return sizeof from;
}

::socklen_t parse_path(std::string_view text, std::string_view path, ::sockaddr_storage& to) {
  ::sockaddr_un un{};
  un.sun_family = AF_UNIX;
  const bool is_abstract = path.starts_with('@');
  if (path.empty() || path == "@") refuse(text, "the path is empty");
  if (path.find('\0') != path.npos) refuse(text, "the path contains a zero byte");
  if (path.size() + (is_abstract ? 0 : 1) > sizeof un.sun_path) refuse(text, "the path is too long");
  std::memcpy(un.sun_path, path.data(), path.size());
  if (is_abstract) un.sun_path[0] = '\0';
  store(to, un);
  return static_cast<::socklen_t>(offsetof(::sockaddr_un, sun_path) + path.size() + (is_abstract ? 0 : 1));
}

::socklen_t parse_v6(std::string_view text, ::sockaddr_storage& to) {
  const std::size_t end = text.find(']');
  if (end == text.npos || end + 1 >= text.size() || text[end + 1] != ':') refuse(text, "it is not [address]:port");
  ::sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = parse_port(text, text.substr(end + 2));
  std::string address(text.substr(1, end - 1));
  if (const std::size_t percent = address.find('%'); percent != address.npos) {
    in6.sin6_scope_id = parse_scope(text, address.substr(percent + 1));
    address.resize(percent);
  }
  if (address.find('\0') != address.npos || ::inet_pton(AF_INET6, address.c_str(), &in6.sin6_addr) != 1)
    refuse(text, "it is no IPv6 address");
  return store(to, in6);
}

::socklen_t parse_v4(std::string_view text, ::sockaddr_storage& to) {
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) refuse(text, "there is no port");
  ::sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = parse_port(text, text.substr(colon + 1));
  const std::string address(text.substr(0, colon));
  if (address.find('\0') != address.npos || ::inet_pton(AF_INET, address.c_str(), &in.sin_addr) != 1)
    refuse(text, "it is no IPv4 address (names are for resolve(), IPv6 addresses stand in brackets)");
  return store(to, in);
}

template <class Address>
Address as(const ::sockaddr_storage& from) noexcept {
  Address to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace

endpoint::endpoint(std::string_view text) {
  constexpr std::string_view local = "unix:";
  if (text.starts_with(local))
    size_ = parse_path(text, text.substr(local.size()), address_);
  else if (text.starts_with('['))
    size_ = parse_v6(text, address_);
  else
    size_ = parse_v4(text, address_);
}

endpoint::endpoint(const ::sockaddr* address, ::socklen_t size) : size_(size) {
  if (size > sizeof address_) throw std::invalid_argument("coir: endpoint: the address is too long");
  std::memcpy(&address_, address, size);
  if (size < sizeof(::sa_family_t)) *this = endpoint();
}

std::uint16_t endpoint::port() const noexcept {
  if (family() == AF_INET) return ntohs(as<::sockaddr_in>(address_).sin_port);
  if (family() == AF_INET6) return ntohs(as<::sockaddr_in6>(address_).sin6_port);
  return 0;
}

std::string endpoint::to_string() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    const auto in = as<::sockaddr_in>(address_);
    ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
    return std::string(text) + ':' + std::to_string(port());
  }
  if (family() == AF_INET6) {
    const auto in6 = as<::sockaddr_in6>(address_);
    ::inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof text);
    std::string scope;
    if (in6.sin6_scope_id != 0) {
      char name[IF_NAMESIZE] = "";
      scope = '%';
      scope += ::if_indextoname(in6.sin6_scope_id, name) != nullptr ? name : std::to_string(in6.sin6_scope_id);
    }
    return '[' + std::string(text) + scope + "]:" + std::to_string(port());
  }
  if (family() == AF_UNIX) {
    const auto un = as<::sockaddr_un>(address_);
    constexpr std::size_t before = offsetof(::sockaddr_un, sun_path);
    std::string path(un.sun_path, size_ > before ? size_ - before : 0);
    if (!path.empty() && path.front() == '\0')
      path.front() = '@';
    else
      path.resize(std::strlen(path.c_str()));
    return "unix:" + path;
  }
  return {};
}

bool endpoint::operator==(const endpoint& other) const noexcept {
  if (family() != other.family()) return false;
  if (family() == AF_INET) {
    const auto a = as<::sockaddr_in>(address_), b = as<::sockaddr_in>(other.address_);
    return a.sin_port == b.sin_port && a.sin_addr.s_addr == b.sin_addr.s_addr;
  }
  if (family() == AF_INET6) {
    const auto a = as<::sockaddr_in6>(address_), b = as<::sockaddr_in6>(other.address_);
    return a.sin6_port == b.sin6_port && a.sin6_scope_id == b.sin6_scope_id &&
           std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof a.sin6_addr) == 0;
  }
  return size_ == other.size_ && std::memcmp(&address_, &other.address_, size_) == 0;
}

}  // namespace coir::net
