#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/descriptor.hpp>
#include <coir/detail/descriptor_watches.hpp>
#include <coir/io.hpp>
#include <coir/this_fiber.hpp>

namespace coir::inline COIR_ABI {

namespace {

using detail::deadline;
using detail::descriptor;
using detail::descriptor_watches;
using detail::io_way;

int ask(std::span<::pollfd> fds) {
  for (;;) {
    const int n = ::poll(fds.data(), fds.size(), 0);
    if (n >= 0) return n;
    if (errno != EINTR) throw std::system_error(errno, std::system_category(), "coir: poll");
  }
}

/// A section in which the number of a descriptor is not given back to the kernel.
class section {
 public:
  section(descriptor& of, descriptor::generation g) : of_(of), generation_(g) {
    if (!of.begin(g)) throw std::system_error(net::errc::closed, "coir: watched_fd");
  }
  ~section() { of_.end(generation_); }
  section(const section&) = delete;
  section& operator=(const section&) = delete;

 private:
  descriptor& of_;
  descriptor::generation generation_;
};

constexpr short events_of(readiness want) noexcept {
  short events = 0;
  if ((want & readiness::readable) != readiness::none) events |= POLLIN | POLLRDHUP;
  if ((want & readiness::writable) != readiness::none) events |= POLLOUT;
  return events;
}

constexpr readiness readiness_of(short events) noexcept {
  readiness r = readiness::none;
  if ((events & (POLLIN | POLLPRI)) != 0) r = r | readiness::readable;
  if ((events & POLLOUT) != 0) r = r | readiness::writable;
  if ((events & (POLLHUP | POLLRDHUP)) != 0) r = r | readiness::hang_up;
  if ((events & (POLLERR | POLLNVAL)) != 0) r = r | readiness::error;
  return r;
}

}  // namespace

int poll(std::span<::pollfd> fds, std::chrono::milliseconds timeout) {
  detail::refuse_in_exploration("poll()");
  const deadline until = timeout.count() < 0 ? detail::no_deadline : detail::deadline_after(timeout);
  if (const int n = ask(fds); n != 0 || timeout.count() == 0) return n;
  descriptor_watches all(fds);
  for (;;) {
    all.look();
    if (const int n = ask(fds); n != 0) return n;
    if (const int n = all.mark_closed(fds); n != 0) return n;
    if (until != detail::no_deadline && until <= detail::now()) return 0;
    all.sleep("poll", until);
  }
}

watched_fd::watched_fd(int fd) : fd_(fd) {
  detail::refuse_in_exploration("a watched_fd");
  struct ::stat is{};
  if (::fstat(fd, &is) != 0) throw std::system_error(errno, std::system_category(), "coir: watched_fd");
  if (S_ISREG(is.st_mode) || S_ISDIR(is.st_mode))
    throw std::system_error(EPERM, std::system_category(), "coir: watched_fd: a file cannot be polled");
  descriptor_ = &descriptor::watch(fd);
  generation_ = descriptor_->current();
}

watched_fd::~watched_fd() { drop(); }

watched_fd::watched_fd(watched_fd&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      descriptor_(std::exchange(other.descriptor_, nullptr)),
      generation_(other.generation_) {}

watched_fd& watched_fd::operator=(watched_fd&& other) noexcept {
  if (this != &other) {
    drop();
    fd_ = std::exchange(other.fd_, -1);
    descriptor_ = std::exchange(other.descriptor_, nullptr);
    generation_ = other.generation_;
  }
  return *this;
}

void watched_fd::drop() noexcept {
  if (descriptor_ != nullptr) descriptor_->unwatch(generation_);
}

readiness watched_fd::wait(readiness want, deadline until) {
  ::pollfd one{fd_, events_of(want), 0};
  const std::span<::pollfd> fds(&one, 1);
  if (descriptor_ == nullptr) throw std::system_error(EBADF, std::system_category(), "coir: watched_fd: moved from");
  const section used(*descriptor_, generation_);
  const bool both = (one.events & POLLOUT) != 0 && (one.events & POLLIN) != 0;
  std::optional<descriptor_watches> all;
  if (both) all.emplace(fds);
  const io_way way = (one.events & POLLOUT) != 0 ? io_way::write : io_way::read;
  for (;;) {
    const std::uint32_t seen = descriptor_->edges(way);
    if (both) all->look();
    if (ask(fds) != 0) return readiness_of(one.revents);
    if (!descriptor_->is_open(generation_)) throw std::system_error(net::errc::closed, "coir: watched_fd");
    if (until != detail::no_deadline && until <= detail::now()) return readiness::none;
    if (both)
      all->sleep("poll", until);
    else if (descriptor_->wait(generation_, way, seen, "watched_fd", false, until) == detail::io_wake::closed)
      throw std::system_error(net::errc::closed, "coir: watched_fd");
  }
}

}  // namespace coir
