// Which file below the root a request means. What a client writes is not to be trusted: no name that is returned leaves
// the root, and open_below() does not follow a symbolic link out of it either.
#pragma once

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace example {

/// The value of a hexadecimal digit; -1: it is none.
constexpr int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// "%41" is "A". Nothing: a "%" without two digits, or a null character.
inline std::optional<std::string> percent_decoded(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (text.size() - i < 3) return std::nullopt;
      const int high = hex_digit(text[i + 1]);
      const int low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') return std::nullopt;
    plain += c;
  }
  return plain;
}

/// The file that a target ("/docs/?page=2") names, relative to the root ("docs/index.html"). Nothing: it names none. A
/// part that begins with a dot never does: neither "..", encoded or not, nor ".git".
inline std::optional<std::string> static_path(std::string_view target) {
  if (target.empty() || target.front() != '/') return std::nullopt;
  const std::optional<std::string> decoded = percent_decoded(target.substr(0, target.find_first_of("?#")));
  if (!decoded) return std::nullopt;

  std::string path;
  std::string_view rest = *decoded;
  while (!rest.empty()) {
    rest.remove_prefix(1);  // the slash
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(part.size());
    if (part.starts_with('.')) return std::nullopt;
    if (part.empty()) continue;
    if (!path.empty()) path += '/';
    path += part;
  }
  if (decoded->back() == '/') path += path.empty() ? "index.html" : "/index.html";
  return path;
}

constexpr int reading = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // a pipe that lies about must not block

/// open_below() where the kernel has no openat2(), or a filter refuses it: a part at a time. It follows no link at all.
inline int open_by_parts(int root, std::string_view path) {
  int at = root;
  while (at >= 0 && !path.empty()) {
    const std::string part(path.substr(0, path.find('/')));
    path.remove_prefix(part.size());
    const bool last = path.empty();
    if (!last) path.remove_prefix(1);
    const int next = ::openat(at, part.c_str(), (last ? reading : O_PATH | O_DIRECTORY | O_CLOEXEC) | O_NOFOLLOW);
    if (const int error = errno; at != root) {
      ::close(at);
      errno = error;
    }
    at = next;
  }
  return at;
}

/// Opens a file for reading, one that static_path() has named; -1 and errno. The kernel refuses what lies outside of
/// `root`, be it by a link (Linux 5.6).
inline int open_below(int root, const std::string& path) {
  ::open_how how{};
  how.flags = reading;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  long file = -1;
  do file = ::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
  while (file < 0 && (errno == EAGAIN || errno == EINTR));
  if (file < 0 && (errno == ENOSYS || errno == EPERM)) return open_by_parts(root, path);
  return static_cast<int>(file);
}

}  // namespace example
