#include <cerrno>
#include <memory>
#include <string>

#include <netdb.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/endpoint.hpp>
#include <coir/error.hpp>
#include <coir/runtime.hpp>
#include <coir/semaphore.hpp>
#include <coir/single_flight.hpp>
#include <coir/task.hpp>
#include <coir/this_fiber.hpp>

namespace coir::inline COIR_ABI::net {

namespace {

class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "coir.net.resolve"; }
  std::string message(int code) const override { return ::gai_strerror(code); }
};

struct answer {
  std::vector<endpoint> found;
  std::error_code error;
};

constexpr int most_at_once = 16;

answer ask(const std::string& host, const std::string& service, int flags) {
  ::addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  ::addrinfo* list = nullptr;
  answer a;
  const int code = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &list);
  if (code == EAI_SYSTEM)
    a.error.assign(errno, std::system_category());
  else if (code != 0)
    a.error.assign(code, resolve_category());
  const std::unique_ptr<::addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const ::addrinfo* each = list; each != nullptr; each = each->ai_next)
    a.found.emplace_back(each->ai_addr, each->ai_addrlen);
  return a;
}

/// The lookups of the process. Never destroyed, since a detached lookup may use it until the process ends.
struct lookups {
  semaphore room{most_at_once};
  single_flight<std::string, answer> flights;

  answer run(const std::string& host, const std::string& service) {
    return flights.run(host + '\0' + service, [&] {
      room.acquire();
      struct leaver {
        semaphore& from;
        ~leaver() { from.release(); }
      } const leaver{room};
      return blocking([&] { return ask(host, service, AI_ADDRCONFIG); });
    });
  }
};

lookups& all_lookups() {
  static lookups& all = *new lookups;
  return all;
}

}  // namespace

const std::error_category& resolve_category() noexcept {
  static const category one;
  return one;
}

std::vector<endpoint> resolve(std::string_view host_text, std::string_view service_text, std::error_code& error) {
  const std::string host(host_text), service(service_text);
  if (host.find('\0') != host.npos || service.find('\0') != service.npos) {
    error.assign(EAI_NONAME, resolve_category());
    return {};
  }
  answer a = ask(host, service, AI_NUMERICHOST | AI_NUMERICSERV);  // does not block
  if (a.error == std::error_code(EAI_NONAME, resolve_category())) {
    if (detail::exploring()) {
      a = ask(host == "localhost" ? "127.0.0.1" : host, service, AI_NUMERICHOST);
    } else if (!this_fiber::is_fiber()) {
      a = all_lookups().run(host, service);
    } else {
      // A fiber of its own makes the lookup, so that a cancelled caller can leave: getaddrinfo() cannot be interrupted.
      task<answer> lookup = spawn([host, service] {
        const uncancellable until_the_answer;
        return all_lookups().run(host, service);
      });
      try {
        lookup.wait();
      } catch (const cancelled&) {
        lookup.detach();
        throw;
      }
      a = lookup.get();
    }
  }
  error = a.error;
  return std::move(a.found);
}

std::vector<endpoint> resolve(std::string_view host, std::string_view service) {
  std::error_code error;
  std::vector<endpoint> found = resolve(host, service, error);
  if (error)
    throw std::system_error(error, "coir: resolve \"" + std::string(host) + "\", \"" + std::string(service) + '"');
  return found;
}

}  // namespace coir::net
