// select() and pselect(). The kernel alone says what is ready. The fiber parks as in poll().
#include <sys/select.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include <poll.h>

#include <coir/detail/abi.hpp>

#include "fiber_call.hpp"
#include "original.hpp"
#include "wait_any.hpp"

namespace coir::inline COIR_ABI::hooks {

namespace {

constinit original<int(int, ::fd_set*, ::fd_set*, ::fd_set*, ::timeval*)> libc_select{"select"};
constinit original<int(int, ::fd_set*, ::fd_set*, ::fd_set*, const ::timespec*, const ::sigset_t*)> libc_pselect{
    "pselect"};

[[gnu::constructor]] void find_all() {
  libc_select.find();
  libc_pselect.find();
}

/// The three sets of a call, which may be larger than fd_set. Each time the kernel is asked, the sets are its answer.
class select_sets {
 public:
  /// Throws std::bad_alloc.
  select_sets(int n, ::fd_set* readable, ::fd_set* writable, ::fd_set* exceptional)
      : count_(n), sets_{readable, writable, exceptional} {
    const std::size_t words = (static_cast<std::size_t>(n) + word_bits - 1) / word_bits;
    for (unsigned i = 0; i < kinds; ++i) {
      if (sets_[i] == nullptr) continue;
      asked_[i].resize(words);
      std::memcpy(asked_[i].data(), sets_[i], words * sizeof(word));
    }
    for (int fd = 0; fd < n; ++fd) {
      short events = 0;
      for (unsigned i = 0; i < kinds; ++i)
        if (asks(i, fd)) events = static_cast<short>(events | kind_events[i]);
      if (events != 0) fds_.push_back({fd, events, 0});
    }
  }

  const std::vector<::pollfd>& fds() const noexcept { return fds_; }

  result ask() {
    for (unsigned i = 0; i < kinds; ++i)
      if (sets_[i] != nullptr) std::memcpy(sets_[i], asked_[i].data(), asked_[i].size() * sizeof(word));
    ::timeval no_time{};
    return value_or_error(libc_select(count_, sets_[0], sets_[1], sets_[2], &no_time));
  }

 private:
  using word = unsigned long;
  static constexpr std::size_t word_bits = 8 * sizeof(word);
  static constexpr unsigned kinds = 3;
  static constexpr short kind_events[kinds] = {POLLIN, POLLOUT, POLLPRI};

  bool asks(unsigned kind, int fd) const noexcept {
    const auto at = static_cast<std::size_t>(fd);
    return !asked_[kind].empty() && (asked_[kind][at / word_bits] >> at % word_bits & 1) != 0;
  }

  int count_;
  ::fd_set* sets_[kinds];
  std::vector<word> asked_[kinds];
  std::vector<::pollfd> fds_;
};

result select_in_fiber(const hook_services& runtime, int n, ::fd_set* readable, ::fd_set* writable,
                       ::fd_set* exceptional, deadline until) {
  try {
    select_sets sets(n, readable, writable, exceptional);
    return wait_any(runtime, sets.fds().data(), sets.fds().size(), "select", until, [&] { return sets.ask(); });
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
}

/// Tells how much of the time is left, as Linux does.
void tell_rest(const hook_services& runtime, deadline until, ::timeval& time) noexcept {
  const auto left = std::max<deadline>(until - runtime.now(), 0);
  time = {left / 1'000'000'000, left % 1'000'000'000 / 1000};
}

}  // namespace

}  // namespace coir::hooks

using namespace coir::hooks;

#pragma GCC visibility push(default)
extern "C" {

int select(int n, ::fd_set* readable, ::fd_set* writable, ::fd_set* exceptional, ::timeval* time) {
  const auto* const runtime = n >= 0 ? fiber_runtime() : nullptr;
  const bool waits = time == nullptr || (time->tv_sec >= 0 && time->tv_usec >= 0 && time->tv_sec + time->tv_usec > 0);
  if (runtime == nullptr || !waits) return libc_select(n, readable, writable, exceptional, time);
  const int before = errno;
  const auto until =
      time == nullptr ? no_deadline
                      : after(*runtime, {time->tv_sec + time->tv_usec / 1'000'000, time->tv_usec % 1'000'000 * 1000});
  const auto r = select_in_fiber(*runtime, n, readable, writable, exceptional, until);
  if (time != nullptr) tell_rest(*runtime, until, *time);
  return static_cast<int>(returned(r, before));
}

// A mask of signals is for the thread, so such a call blocks the thread.
int pselect(int n, ::fd_set* readable, ::fd_set* writable, ::fd_set* exceptional, const ::timespec* time,
            const ::sigset_t* mask) {
  const auto* const runtime = n >= 0 && mask == nullptr ? fiber_runtime() : nullptr;
  if (runtime == nullptr || !is_valid(time)) return libc_pselect(n, readable, writable, exceptional, time, mask);
  const int before = errno;
  const auto until = time == nullptr ? no_deadline : after(*runtime, *time);
  const auto r = select_in_fiber(*runtime, n, readable, writable, exceptional, until);
  return static_cast<int>(returned(r, before));
}

}  // extern "C"
#pragma GCC visibility pop
