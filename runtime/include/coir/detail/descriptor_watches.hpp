// Waiting for several descriptors at once, as poll(2) does. They belong to other parts of the program
// (descriptor::watch). Not for users.
//
// In a loop: look(); ask the kernel; nothing is ready: sleep(). No readiness is lost in between (descriptor.hpp,
// invariant 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <poll.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/descriptor.hpp>
#include <coir/detail/early_claim.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI::detail {

/// Watches each descriptor of a span for what it is asked for, as long as this object lives. So each turn of the loop
/// asks the kernel for nothing but its answer. A negative number is passed over.
class descriptor_watches {
 public:
  /// Throws std::system_error, std::bad_alloc.
  explicit descriptor_watches(std::span<const ::pollfd> fds);
  ~descriptor_watches();
  descriptor_watches(const descriptor_watches&) = delete;
  descriptor_watches& operator=(const descriptor_watches&) = delete;

  void look() noexcept;

  /// Marks POLLNVAL in `fds`, the span of the constructor, where a descriptor's owner has closed it meanwhile and
  /// nothing else is marked. Returns how many it has marked.
  int mark_closed(std::span<::pollfd> fds) const noexcept;

  /// Sleeps until something has happened since look(), or the deadline. False: the deadline. Throws `cancelled`, and
  /// std::system_error if the kernel cannot watch one of them.
  bool sleep(const char* what, deadline until);

 private:
  struct watch {
    std::size_t at = 0;  // in the span
    descriptor* on = nullptr;
    descriptor::generation generation = 0;
    io_way way = io_way::read;
    std::uint32_t seen = 0;
    bool used = false;  // in a section, so that the number is not given back meanwhile
    bool joined = false;
    wait_node node{};
  };
  class joined;

  void add(std::size_t at, int fd, io_way way);
  void unwatch() noexcept;

  std::vector<watch> all_;
};

}  // namespace coir::detail
