#include <coir/detail/hook_services.hpp>

#include <exception>
#include <span>
#include <system_error>

#include <dlfcn.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/descriptor_watches.hpp>
#include <coir/error.hpp>

#include "sched/worker.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

::pid_t served_process = 0;  // written before the library knows of us

[[gnu::noinline]] bool in_fiber() noexcept {
  const worker* w = current_worker_at_entry();
  return w != nullptr && w->current != nullptr && !w->in_bracket();
}

void abandon(int fd) noexcept {
  if (::getpid() == served_process) descriptor::abandon(fd);
}

/// Calls f(), which waits. An exception becomes a return value, since there may be C code between here and a handler.
template <class F>
hook_wake quietly(F f) noexcept {
  try {
    return f() ? hook_wake::ready : hook_wake::timed_out;
  } catch (const cancelled&) {
    return hook_wake::cancelled;
  } catch (const std::exception&) {
    return hook_wake::unwatchable;
  }
}

/// A number that is watched as long as this lives.
class watched {
 public:
  explicit watched(int fd) : on_(descriptor::watch(fd)), generation_(on_.current()) {}
  ~watched() { on_.unwatch(generation_); }
  watched(const watched&) = delete;
  watched& operator=(const watched&) = delete;

  io_wake wait(io_way way, std::uint32_t seen, const char* what, deadline until) {
    return on_.wait(generation_, way, seen, what, false, until);
  }

 private:
  descriptor& on_;
  descriptor::generation generation_;
};

hook_wake wait(int fd, io_way way, std::uint32_t seen, const char* what, deadline until) noexcept {
  return quietly([&] {
    watched number(fd);  // a number that coir is closing is left to poll(): trying again would spin until it is
    try {
      return number.wait(way, seen, what, until) != io_wake::timed_out;
    } catch (const std::system_error& e) {
      if (e.code() != std::errc::bad_file_descriptor) throw;
      return true;  // it has just been closed: the call, tried again, says so
    }
  });
}

hook_wake wait_any(const ::pollfd* fds, std::size_t n, bool (*look)(void*), void* arg, const char* what,
                   deadline until) noexcept {
  return quietly([&] {
    descriptor_watches all(std::span(fds, n));
    all.look();
    return look(arg) || all.sleep(what, until);
  });
}

hook_wake sleep(deadline until) noexcept {
  return quietly([&] {
    park_until(until);
    return false;
  });
}

constexpr hook_services services = {
    hook_services::current_version,
    &in_fiber,
    &descriptor::is_owned,
    &descriptor::edges_of,
    &abandon,
    &now,
    &wait,
    &wait_any,
    &sleep,
};

}  // namespace

void serve_hooks() noexcept {
  [[maybe_unused]] static const bool once = [] {
    served_process = ::getpid();
    const auto* found = static_cast<const hook_table*>(::dlsym(RTLD_DEFAULT, "coir_hook_table"));
    if (found != nullptr && found->version == hook_table::current_version) found->serve(services);
    return true;
  }();
}

}  // namespace coir::detail
