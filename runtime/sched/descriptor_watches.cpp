#include <coir/detail/descriptor_watches.hpp>

#include <coir/detail/abi.hpp>

#include <utility>

namespace coir::inline COIR_ABI::detail {

/// Takes all out of the queues at the end of a sleep.
class descriptor_watches::joined {
 public:
  explicit joined(descriptor_watches& of) noexcept : of_(of) {}
  ~joined() {
    for (watch& w : of_.all_)
      if (std::exchange(w.joined, false)) w.on->leave(w.way, w.node);
  }
  joined(const joined&) = delete;
  joined& operator=(const joined&) = delete;

 private:
  descriptor_watches& of_;
};

descriptor_watches::descriptor_watches(std::span<const ::pollfd> fds) {
  all_.reserve(2 * fds.size());
  try {
    for (std::size_t i = 0; i < fds.size(); ++i) {
      const ::pollfd& each = fds[i];
      if (each.fd < 0) continue;
      const bool writes = (each.events & POLLOUT) != 0;
      if ((each.events & ~POLLOUT) != 0 || !writes) add(i, each.fd, io_way::read);
      if (writes) add(i, each.fd, io_way::write);
    }
  } catch (...) {
    unwatch();
    throw;
  }
}

descriptor_watches::~descriptor_watches() { unwatch(); }

void descriptor_watches::add(std::size_t at, int fd, io_way way) {
  descriptor& on = descriptor::watch(fd);
  watch& w = all_.emplace_back();  // there is room
  w.at = at;
  w.on = &on;
  w.generation = on.current();
  w.used = on.begin(w.generation);
  w.way = way;
}

void descriptor_watches::unwatch() noexcept {
  for (watch& w : all_) {
    if (w.used) w.on->end(w.generation);
    w.on->unwatch(w.generation);
  }
}

void descriptor_watches::look() noexcept {
  for (watch& w : all_) w.seen = w.on->edges(w.way);
}

int descriptor_watches::mark_closed(std::span<::pollfd> fds) const noexcept {
  int closed = 0;
  for (const watch& w : all_) {
    ::pollfd& of = fds[w.at];
    if (w.on->is_open(w.generation) || of.revents != 0) continue;
    of.revents = POLLNVAL;
    ++closed;
  }
  return closed;
}

bool descriptor_watches::sleep(const char* what, deadline until) {
  waiter& self = this_waiter();
  early_claim claim;
  claim.prepare(self);
  const joined leaves(*this);
  for (watch& w : all_) {
    w.node.who = &self;
    w.joined = w.on->join(w.generation, w.way, w.seen, w.node, claim);
    if (!w.joined) return true;
  }
  if (!begin_wait(self)) throw_cancelled();
  if (claim.look(self.word())) {
    abandon_wait(self);
    return true;
  }
  const wake how = park(self, [](void*) noexcept {}, nullptr, {what}, until);
  if (how == wake::cancelled) throw_cancelled();
  return how != wake::timed_out;
}

}  // namespace coir::detail
