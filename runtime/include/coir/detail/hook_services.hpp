// What the runtime and libcoir_hooks offer each other. Not for users.
//
// The library stands before the C library and is a file of its own, which need not be there. It is linked with no part
// of coir: a program has coir once, as archives or as shared libraries, and the library may be preloaded into it. So
// the first runtime of the process finds the library's table by name (dlsym), and gives it this one.
#pragma once

#include <cstddef>
#include <cstdint>

#include <poll.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/descriptor.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI::detail {

/// How a wait ended. `unwatchable`: the kernel cannot watch that descriptor, or there is no memory; nothing was waited
/// for.
enum class hook_wake : std::uint8_t { ready, timed_out, cancelled, unwatchable };

/// What a hooked call asks of the runtime. Nothing here throws.
struct hook_services {
  static constexpr std::uint32_t current_version = 1;

  std::uint32_t version;

  /// Whether the caller is a fiber's own code: not a plain thread, and not the runtime at work on a fiber's stack. The
  /// functions from wait() to sleep() are for such callers alone.
  bool (*in_fiber)() noexcept;

  /// descriptor::is_owned(), edges_of(), abandon(). The last does nothing in a child that shares this memory (vfork).
  bool (*is_owned)(int fd) noexcept;
  std::uint32_t (*edges)(int fd, io_way way) noexcept;
  void (*abandon)(int fd) noexcept;

  deadline (*now)() noexcept;

  /// Parks the fiber until the descriptor has become ready since `seen`, the deadline has come, or the fiber is
  /// cancelled. `ready` may come too early, and is returned also if the number was closed. `what`: for reports.
  hook_wake (*wait)(int fd, io_way way, std::uint32_t seen, const char* what, deadline until) noexcept;

  /// The same for several, of which none is ready: `look(arg)` asks the kernel once more when all are watched.
  hook_wake (*wait_any)(const ::pollfd* fds, std::size_t n, bool (*look)(void* arg), void* arg, const char* what,
                        deadline until) noexcept;

  /// Parks the fiber until the deadline: timed_out or cancelled.
  hook_wake (*sleep)(deadline until) noexcept;
};

/// What the library offers: by the name coir_hook_table.
struct hook_table {
  static constexpr std::uint32_t current_version = 1;

  std::uint32_t version;

  /// From now on the calls of fibers park. Once; `services` stays.
  void (*serve)(const hook_services& services) noexcept;
};

/// Finds the library, once a process.
void serve_hooks() noexcept;

}  // namespace coir::detail
