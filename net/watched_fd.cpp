#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include <coir/detail/descriptor.hpp>
#include <coir/detail/early_claim.hpp>
#include <coir/io.hpp>
#include <coir/this_fiber.hpp>

namespace coir {

namespace {

using detail::deadline;
using detail::descriptor;
using detail::io_way;

/// One descriptor of those that poll() waits for, one way.
struct watch {
  descriptor* on = nullptr;
  descriptor::generation generation = 0;
  io_way way = io_way::read;
  std::uint32_t seen = 0;
  bool joined = false;
  detail::wait_node node{};
};

/// Of a span of pollfd: each watched for what it is asked. They stay watched as long as this lives, so that each turn
/// of poll() asks the kernel for nothing but its answer.
class watches {
 public:
  explicit watches(std::span<const ::pollfd> fds) {
    all_.reserve(2 * fds.size());
    for (const ::pollfd& each : fds) {
      if (each.fd < 0) continue;
      const bool writes = (each.events & POLLOUT) != 0;
      if ((each.events & ~POLLOUT) != 0 || !writes) add(each.fd, io_way::read);
      if (writes) add(each.fd, io_way::write);
    }
  }
  ~watches() {
    for (watch& w : all_) w.on->unwatch(w.generation);
  }
  watches(const watches&) = delete;
  watches& operator=(const watches&) = delete;

  void look() noexcept {
    for (watch& w : all_) w.seen = w.on->edges(w.way);
  }

  /// Sleeps until something has happened since look(), or it is time. Throws `cancelled`.
  void sleep(deadline until) {
    detail::waiter& self = detail::this_waiter();
    detail::early_claim claim;
    claim.prepare(self);
    const joined all(*this);
    for (watch& w : all_) {
      w.node.who = &self;
      w.joined = w.on->join(w.generation, w.way, w.seen, w.node, claim);
      if (!w.joined) return;
    }
    if (!detail::begin_wait(self)) detail::throw_cancelled();
    if (claim.look(self.word())) return detail::abandon_wait(self);
    const detail::wake how = detail::park(
        self, [](void*) noexcept {}, nullptr, {"poll"}, until);
    if (how == detail::wake::cancelled) detail::throw_cancelled();
  }

 private:
  struct joined {
    explicit joined(watches& of) noexcept : of_(of) {}
    ~joined() {
      for (watch& w : of_.all_)
        if (std::exchange(w.joined, false)) w.on->leave(w.way, w.node);
    }
    joined(const joined&) = delete;
    joined& operator=(const joined&) = delete;
    watches& of_;
  };

  void add(int fd, io_way way) {
    watch& w = all_.emplace_back();
    try {
      w.on = &descriptor::watch(fd);
    } catch (...) {
      all_.pop_back();
      throw;
    }
    w.generation = w.on->current();
    w.way = way;
  }

  std::vector<watch> all_;
};

int ask(std::span<::pollfd> fds, int timeout) {
  for (;;) {
    const int n = ::poll(fds.data(), fds.size(), timeout);
    if (n >= 0) return n;
    if (errno != EINTR || timeout != 0) throw std::system_error(errno, std::system_category(), "coir: poll");
  }
}

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
  const deadline until = timeout.count() < 0 ? detail::no_deadline : detail::deadline_after(timeout);
  if (const int n = ask(fds, 0); n != 0 || timeout.count() == 0) return n;
  watches all(fds);
  for (;;) {
    all.look();
    if (const int n = ask(fds, 0); n != 0) return n;
    if (until != detail::no_deadline && until <= detail::now()) return 0;
    all.sleep(until);
  }
}

watched_fd::watched_fd(int fd) : fd_(fd) {
  struct ::stat is {};
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
  const bool both = (one.events & POLLOUT) != 0 && (one.events & POLLIN) != 0;
  std::optional<watches> all;
  if (both) all.emplace(fds);
  const io_way way = (one.events & POLLOUT) != 0 ? io_way::write : io_way::read;
  for (;;) {
    const std::uint32_t seen = descriptor_->edges(way);
    if (both) all->look();
    if (ask(fds, 0) != 0) return readiness_of(one.revents);
    if (until != detail::no_deadline && until <= detail::now()) return readiness::none;
    if (both)
      all->sleep(until);
    else if (descriptor_->wait(generation_, way, seen, "watched_fd", false, until) == detail::io_wake::closed)
      throw std::system_error(net::errc::closed, "coir: watched_fd");
  }
}

}  // namespace coir
