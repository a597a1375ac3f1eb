#include "sched/poller.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "base/clock.hpp"
#include "base/raw_calls.hpp"
#include "base/report.hpp"
#include "base/sanitizer.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::uint64_t bell_mark = ~std::uint64_t{0};  // no number is that large

constexpr std::uint64_t mark(int fd, descriptor::generation g) noexcept {
  return std::uint64_t{g} << 32 | static_cast<std::uint32_t>(fd);
}

constexpr std::uint32_t epoll_mask(unsigned ways) noexcept {
  std::uint32_t mask = EPOLLET;
  if ((ways & 1U << static_cast<unsigned>(io_way::read)) != 0) mask |= EPOLLIN | EPOLLRDHUP | EPOLLPRI;
  if ((ways & 1U << static_cast<unsigned>(io_way::write)) != 0) mask |= EPOLLOUT;
  return mask;
}

int control(int epoll, int what, int fd, std::uint64_t data, std::uint32_t mask) noexcept {
  epoll_event e{};
  e.events = mask;
  e.data.u64 = data;
  return ::epoll_ctl(epoll, what, fd, &e) == 0 ? 0 : errno;
}

// Older kernels, and some that filter system calls, have no epoll_pwait2(). ppoll() can wait for an epoll instance,
// too.
int wait_in_two_calls(int epoll, epoll_event* events, int most, const timespec& time) noexcept {
  pollfd self{epoll, POLLIN, 0};
  if (::ppoll(&self, 1, &time, nullptr) <= 0) return 0;
  return ::epoll_wait(epoll, events, most, 0);
}

}  // namespace

poller::~poller() {
  const int epoll = epoll_.load(std::memory_order_relaxed);
  if (epoll < 0) return;
  descriptor::forget(*this);
  ::close(epoll);
  ::close(bell_);
}

void poller::start() {
  if (active()) return;
  starting_.lock();
  int error = 0;
  if (!active()) {
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    error = epoll < 0 ? errno : 0;
    if (error == 0) {
      bell_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
      error = bell_ < 0 ? errno : control(epoll, EPOLL_CTL_ADD, bell_, bell_mark, EPOLLIN);
      if (error != 0) {
        if (bell_ >= 0) ::close(bell_);
        ::close(epoll);
      } else {
        tsan_release(this);
        epoll_.store(epoll, std::memory_order_release);
      }
    }
  }
  starting_.unlock();
  if (error != 0) throw std::system_error(error, std::system_category(), "coir: no epoll for a runtime");
}

int poller::started() noexcept {
  const int epoll = epoll_.load(std::memory_order_acquire);
  tsan_acquire(this);
  return epoll;
}

int poller::add(int fd, descriptor::generation g, unsigned ways) noexcept {
  const int epoll = started();
  const int error = control(epoll, EPOLL_CTL_ADD, fd, mark(fd, g), epoll_mask(ways));
  // It is registered for a waiter that is gone. The number and the file are the same, or the registration would not be
  // there.
  return error == EEXIST ? change(fd, g, ways) : error;
}

int poller::change(int fd, descriptor::generation g, unsigned ways) noexcept {
  return control(started(), EPOLL_CTL_MOD, fd, mark(fd, g), epoll_mask(ways));
}

void poller::remove(int fd) noexcept {
  control(started(), EPOLL_CTL_DEL, fd, 0, 0);  // it may be closed already
}

void poller::collect(batch& into, deadline until, int most) noexcept {
  static std::atomic<bool> without_pwait2{false};
  const int epoll = started();
  int n = 0;
  if (until == 0) {
    n = ::epoll_wait(epoll, into.events, most, 0);
  } else if (until == no_deadline) {
    n = ::epoll_wait(epoll, into.events, most, -1);
  } else {
    const std::int64_t left = std::max<std::int64_t>(until - monotonic_now(), 0);
    const timespec time{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
    n = -1;
    if (!without_pwait2.load(std::memory_order_relaxed)) {
      n = ::epoll_pwait2(epoll, into.events, most, &time, nullptr);
      if (n < 0 && (errno == ENOSYS || errno == EPERM)) without_pwait2.store(true, std::memory_order_relaxed);
    }
    if (without_pwait2.load(std::memory_order_relaxed)) n = wait_in_two_calls(epoll, into.events, most, time);
  }
  if (n < 0 && errno != EINTR) fatal("the epoll of a poller: epoll_wait() failed, errno ", errno);
  epoll_event* const end = into.events + std::max(n, 0);
  epoll_event* const bell =
      std::find_if(into.events, end, [](const epoll_event& e) { return e.data.u64 == bell_mark; });
  into.rung = bell != end;
  into.more = n == most;
  into.size = static_cast<int>((into.rung ? std::copy(bell + 1, end, bell) : end) - into.events);
  asked_.fetch_add(1, std::memory_order_relaxed);
}

void poller::deliver(const batch& b) noexcept {
  // With many connections a descriptor has usually left the cache since its last event.
  constexpr int ahead = 4;
  for (int i = 0; i < b.size; ++i) {
    if (i + ahead < b.size) descriptor::prefetch(static_cast<int>(b.events[i + ahead].data.u64 & UINT32_MAX));
    const std::uint64_t data = b.events[i].data.u64;
    descriptor::deliver(static_cast<int>(data & UINT32_MAX), static_cast<descriptor::generation>(data >> 32),
                        b.events[i].events);
  }
}

void poller::ring() noexcept {
  started();  // and so the bell
  const std::uint64_t one = 1;
  // It cannot fail: the counter is far from its end.
  if (raw_write(bell_, &one, sizeof one) != sizeof one) fatal("the bell of a poller: write() failed, errno ", errno);
}

void poller::answer(const batch& b) noexcept {
  if (!b.rung) return;
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = raw_read(bell_, &count, sizeof count);
}

}  // namespace coir::detail
