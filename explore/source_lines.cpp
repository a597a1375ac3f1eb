#include "source_lines.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

extern char** environ;  // NOLINT: POSIX

namespace coir::inline COIR_ABI::detail {

namespace {

struct call {
  std::string function;
  std::string place;  // file:line
};

using calls_at = std::map<void*, std::vector<call>>;  // of one address: those that were inlined there, innermost first

/// What a program writes to its standard output; nothing if it cannot be run.
std::string output_of(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string out;
  if (error == 0) {
    std::array<char, 4096> part{};
    for (ssize_t n = 0; (n = ::read(ends[0], part.data(), part.size())) > 0;)
      out.append(part.data(), static_cast<std::size_t>(n));
    ::waitpid(child, nullptr, 0);
  }
  ::close(ends[0]);
  return out;
}

std::string hexadecimal(std::uintptr_t n) {
  char text[2 + 2 * sizeof n + 1];
  std::snprintf(text, sizeof text, "0x%zx", static_cast<std::size_t>(n));
  return text;
}

/// Looks up all addresses in one file of the program at once.
void look_up(const std::string& file, std::uintptr_t bias, const std::vector<void*>& addresses, calls_at& found) {
  std::vector<std::string> arguments{"addr2line", "-a", "-i", "-f", "-C", "-e", file};
  // The call is before the address that it returns to.
  for (void* a : addresses) arguments.push_back(hexadecimal(reinterpret_cast<std::uintptr_t>(a) - 1 - bias));
  const std::string text = output_of(std::move(arguments));
  std::size_t which = 0;
  std::string function;
  bool is_function = true;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.rfind("0x", 0) == 0) {
      ++which;
      is_function = true;
    } else if (which == 0 || which > addresses.size()) {
      return;
    } else if (std::exchange(is_function, !is_function)) {
      function = line;
    } else {
      const std::filesystem::path place = line.substr(0, line.find(" (discriminator"));
      found[addresses[which - 1]].push_back({function, place.lexically_normal().string()});
    }
  }
}

bool is_of_library(const call& c, std::string_view source_root) {
  const std::string_view place = c.place;
  if (place.rfind("??", 0) == 0)
    return c.function.find("coir::") != std::string::npos || c.function.rfind("std::", 0) == 0 ||
           c.function.rfind("coir_", 0) == 0 || c.function == "??";
  if (place.find("/include/coir/") != std::string_view::npos) return true;
  if (place.find("/include/c++/") != std::string_view::npos || place.find("/bits/") != std::string_view::npos)
    return true;
  if (source_root.empty() || place.substr(0, source_root.size()) != source_root) return false;
  const std::string_view inside = place.substr(source_root.size());
  for (const std::string_view layer : {"runtime/", "channel/", "sync/", "net/", "explore/"})
    if (inside.substr(0, layer.size()) == layer) return true;
  return false;
}

/// Adds what is not known yet.
void look_up_all(const std::vector<call_addresses>& stacks, calls_at& found) {
  std::map<std::pair<std::string, std::uintptr_t>, std::vector<void*>> by_file;
  for (const call_addresses& stack : stacks) {
    for (void* address : stack) {
      if (!found.emplace(address, std::vector<call>()).second) continue;
      Dl_info info{};
      link_map* map = nullptr;
      if (::dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) continue;
      by_file[{*map->l_name != '\0' ? map->l_name : "/proc/self/exe", map->l_addr}].push_back(address);
    }
  }
  for (const auto& [file, addresses] : by_file) {
    std::string path = file.first;
    if (path == "/proc/self/exe") {  // because the child has another one
      std::array<char, 4096> name{};
      const ssize_t n = ::readlink(path.c_str(), name.data(), name.size());
      if (n > 0) path.assign(name.data(), static_cast<std::size_t>(n));
    }
    look_up(path, file.second, addresses, found);
  }
}

/// The folder that this library was compiled in, as the places of its functions name it.
std::string_view source_root(const calls_at& found, void* here) {
  const auto at = found.find(here);
  if (at == found.end() || at->second.empty()) return {};
  const std::string_view place = at->second.back().place;
  const std::size_t end = place.rfind("explore/source_lines.cpp");
  return end != std::string_view::npos ? place.substr(0, end) : std::string_view();
}

}  // namespace

std::vector<std::vector<std::string>> lines_of_calls(const std::vector<call_addresses>& stacks) {
  // To ask for them takes a tenth of a second or more, and the same ones come again.
  static std::mutex lock;
  static calls_at found;
  const std::lock_guard locked(lock);
  void* const here = reinterpret_cast<char*>(&lines_of_calls) + 1;
  look_up_all({{here}}, found);
  look_up_all(stacks, found);
  const std::string_view root = source_root(found, here);
  std::vector<std::vector<std::string>> all;
  all.reserve(stacks.size());
  for (const call_addresses& stack : stacks) {
    std::vector<std::string>& lines = all.emplace_back();
    for (void* address : stack) {
      const auto at = found.find(address);
      if (at == found.end()) continue;
      for (const call& c : at->second)
        if (!is_of_library(c, root)) lines.push_back(c.place.rfind("??", 0) == 0 ? c.function : c.place);
    }
  }
  return all;
}

}  // namespace coir::detail
