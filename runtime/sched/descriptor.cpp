#include <coir/detail/descriptor.hpp>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <system_error>

#include <sys/epoll.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>

#include "base/prefetch.hpp"
#include "base/sanitizer.hpp"
#include "fiber/waiter_access.hpp"
#include "sched/outside_poller.hpp"
#include "sched/poller.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

// ---- the table: a chunk of descriptors is made when one of its numbers is first used, and is never given back
constexpr std::size_t chunk_size = 256;
constexpr std::size_t most_chunks = std::size_t{1} << 16;

struct descriptor_chunk {
  descriptor all[chunk_size];
};

std::atomic<descriptor_chunk*> table[most_chunks];

descriptor* find(int fd) noexcept {
  const auto at = static_cast<std::size_t>(fd);
  if (at >= chunk_size * most_chunks) return nullptr;
  descriptor_chunk* c = table[at / chunk_size].load(std::memory_order_acquire);
  return c != nullptr ? &c->all[at % chunk_size] : nullptr;
}

descriptor& find_or_make(int fd) {
  const auto at = static_cast<std::size_t>(fd);  // a negative number becomes one that is too large
  if (at >= chunk_size * most_chunks)
    throw std::system_error(fd < 0 ? EBADF : EMFILE, std::system_category(), "coir: file descriptor");
  std::atomic<descriptor_chunk*>& place = table[at / chunk_size];
  if (place.load(std::memory_order_acquire) == nullptr) {
    auto made = std::make_unique<descriptor_chunk>();
    descriptor_chunk* none = nullptr;
    if (place.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel)) {
      tsan_release(made.get());
      static_cast<void>(made.release());
    }
  }
  descriptor_chunk* c = place.load(std::memory_order_acquire);
  tsan_acquire(c);
  return c->all[at % chunk_size];
}

/// The poller that serves the caller. Throws std::system_error.
poller& poller_here() {
  const worker* w = current_worker();
  if (w == nullptr || w->current == nullptr) return outside_poller();
  poller& mine = w->home->io();
  if (!exploring()) mine.start();
  return mine;
}

/// While an object lives, a fiber of this runtime waits for a descriptor, so the runtime is in no deadlock.
class counted_wait {
 public:
  counted_wait() noexcept { begin(); }
  ~counted_wait() { end(); }
  counted_wait(const counted_wait&) = delete;
  counted_wait& operator=(const counted_wait&) = delete;

  static void begin() noexcept {
    if (scheduler* home = here()) home->begin_io_wait();
  }
  static void end() noexcept {
    if (scheduler* home = here()) home->end_io_wait();
  }

 private:
  static scheduler* here() noexcept {
    const worker* w = current_worker();
    return w != nullptr && w->current != nullptr ? w->home : nullptr;
  }
};

constexpr unsigned bit(io_way way) noexcept { return 1U << static_cast<unsigned>(way); }

void close_number(int fd) noexcept {
  if (!is_simulated(fd))
    ::close(fd);
  else if (exploring())
    current_worker()->home->explored_by()->close_socket(fd);
}

}  // namespace

// ---- opening and closing

descriptor& descriptor::own(int fd) {
  if (!is_simulated(fd)) refuse_in_exploration("an operation on a descriptor");
  descriptor& d = find_or_make(fd);
  d.lock_.lock();
  d.set_number(fd);
  // If it is open, its owner has closed the number behind coir's back, or it was watched.
  wait_node* stale = d.take_all(io_way::read, false, d.take_all(io_way::write, false, nullptr));
  d.open(true);
  d.lock_.unlock();
  wake_all(stale);
  return d;
}

descriptor& descriptor::watch(int fd) {
  refuse_in_exploration("an operation on a descriptor");
  descriptor& d = find_or_make(fd);
  const std::lock_guard locked(d.lock_);
  d.set_number(fd);
  if ((d.state_.load(std::memory_order_relaxed) & closed_bit) != 0) {
    // The owner has closed it, but a section is still open: opening it again would leave the number open for ever.
    if (d.owned_) throw std::system_error(EBADF, std::system_category(), "coir: file descriptor");
    d.open(false);
  }
  ++d.watchers_;
  return d;
}

// Under the lock. Written once: others read it without the lock.
void descriptor::set_number(int fd) noexcept {
  if (number_ != fd) number_ = fd;
}

// Under the lock: ends the registration. If a copy of the descriptor is open elsewhere, the epoll instance would
// otherwise go on to report its events, although nobody here waits for them.
void descriptor::deregister() noexcept {
  if (home_ != nullptr) home_->remove(number_);
  home_ = nullptr;
  interest_ = 0;
}

// Under the lock.
descriptor::generation descriptor::open(bool owned) noexcept {
  deregister();  // former watchers may not have called retire() yet
  owned_.store(owned, std::memory_order_relaxed);
  watchers_ = 0;
  special_.store(is_simulated(number_), std::memory_order_relaxed);
  for (std::atomic<deadline>& limit : limits_) limit.store(no_deadline, std::memory_order_relaxed);
  const generation g = current() + 1;
  state_.store(std::uint64_t{g} << generation_shift | 1, std::memory_order_release);
  return g;
}

// Under the lock: no section begins any more. False: that generation was closed already.
bool descriptor::shut(generation g, wait_node*& woken) noexcept {
  std::uint64_t seen = state_.load(std::memory_order_relaxed);
  do {
    if (static_cast<generation>(seen >> generation_shift) != g || (seen & closed_bit) != 0) return false;
  } while (!state_.compare_exchange_weak(seen, seen | closed_bit, std::memory_order_acq_rel));
  woken = take_all(io_way::read, false, take_all(io_way::write, false, nullptr));
  return true;
}

bool descriptor::close(generation g) noexcept {
  if (exploring() && is_open(g)) decide(operation::hang_up, this);
  wait_node* woken = nullptr;
  lock_.lock();
  const bool closes = shut(g, woken);
  lock_.unlock();
  wake_all(woken);
  if (closes) end(g);
  return closes;
}

void descriptor::unwatch(generation g) noexcept {
  wait_node* woken = nullptr;
  lock_.lock();
  const bool closes = current() == g && --watchers_ == 0 && !owned_.load(std::memory_order_relaxed) && shut(g, woken);
  lock_.unlock();
  wake_all(woken);
  if (closes) end(g);
}

// A caller that read the edges before this, and has not begun to wait, tries again instead of waiting, because another
// file may have the number by then. That holds for a number that is not watched, too.
void descriptor::abandon(int fd) noexcept {
  descriptor* const d = find(fd);
  if (d == nullptr) return;
  wait_node* woken = nullptr;
  d->lock_.lock();
  const generation g = d->current();
  const bool owned = d->owned_.load(std::memory_order_relaxed);
  const bool closes = !owned && d->shut(g, woken);
  if (!owned)
    for (const io_way way : {io_way::read, io_way::write}) woken = d->arrive(way, woken);
  d->lock_.unlock();
  wake_all(woken);
  if (closes) d->end(g);
}

std::uint32_t descriptor::edges_of(int fd, io_way way) noexcept {
  try {
    poller_here();  // opens what it needs before the caller's attempt, not between that and its wait
    return find_or_make(fd).edges(way);
  } catch (const std::exception&) {
    return 0;  // watch() will throw it
  }
}

bool descriptor::is_owned(int fd) noexcept {
  const descriptor* const d = find(fd);
  return d != nullptr && (d->state_.load(std::memory_order_relaxed) & closed_bit) == 0 &&
         d->owned_.load(std::memory_order_relaxed);
}

// The last section of a closed descriptor has ended.
void descriptor::retire(generation g) noexcept {
  lock_.lock();
  tsan_acquire(&state_);  // the ends of the others' sections
  if (current() != g) {   // it has another owner already
    lock_.unlock();
    return;
  }
  const bool owned = owned_.load(std::memory_order_relaxed);
  deregister();  // an event that has been collected already bears an old generation
  owned_.store(false, std::memory_order_relaxed);
  const int fd = number_;
  lock_.unlock();
  if (owned) close_number(fd);
}

// ---- waiting

// Under the lock: makes sure that `way` is reported. `mine` has been started.
void descriptor::enlist(io_way way, poller& mine) {
  if (is_simulated(number_)) return;
  // A descriptor moves from the outside poller to a runtime's, because the runtime's workers are faster than the
  // outside poller's thread. The new registration is made first, and also for the other direction if others wait for
  // that, so that no edge is missed.
  const bool moves = home_ != nullptr && home_ != &mine && home_->where() == poller::kind::outside;
  if (!moves && (interest_ & bit(way)) != 0) return;
  const auto wanted = static_cast<std::uint8_t>(interest_ | bit(way));
  poller& where = home_ != nullptr && !moves ? *home_ : mine;
  const auto g = current();
  const int error = &where == home_ ? where.change(number_, g, wanted) : where.add(number_, g, wanted);
  if (error != 0) {
    lock_.unlock();
    throw std::system_error(error, std::system_category(), "coir: to wait for a file descriptor");
  }
  if (moves) home_->remove(number_);
  home_ = &where;
  interest_ = wanted;
  if (!moves) return;
  for (const wait_queue& queue : queues_)
    for (const wait_node* n = queue.front(); n != nullptr; n = n->next)
      if (is_guest(*n)) where.add_guest();
}

// Under the lock: whether the descriptor is registered with a runtime, and the sleeper is not a fiber of it. That
// runtime does not count the wait (scheduler::io_waits()).
bool descriptor::is_guest(const wait_node& n) const noexcept {
  if (home_ == nullptr || home_->where() != poller::kind::of_runtime) return false;
  return !waiter_access::is_fiber(*n.who) || &fiber_of(*n.who).home->io() != home_;
}

// Under the lock, enlisted.
void descriptor::link(io_way way, wait_node& n) noexcept {
  queues_[index(way)].push_back(n);
  if (is_guest(n)) home_->add_guest();
}

// Under the lock. Does nothing if the node has been taken out already.
void descriptor::unlink(io_way way, wait_node& n) noexcept {
  if (n.queued && is_guest(n)) home_->remove_guest();
  queues_[index(way)].remove(n);
}

io_wake descriptor::wait(generation g, io_way way, std::uint32_t seen, const char* what, bool limited, deadline until,
                         bool tried) {
  poller& mine = poller_here();
  waiter& self = this_waiter();
  lock_.lock();
  if (!is_open(g)) {
    lock_.unlock();
    return io_wake::closed;
  }
  if (edges(way) != seen) {
    lock_.unlock();
    return io_wake::ready;
  }
  const deadline ends = limited ? std::min(until, limit(way)) : until;
  if (ends != no_deadline && ends <= now()) {
    lock_.unlock();
    return io_wake::timed_out;
  }
  enlist(way, mine);
  if (!begin_wait(self)) {
    lock_.unlock();
    if (!tried) return io_wake::ready;
    throw_cancelled();
  }
  wait_node node;
  node.who = &self;
  link(way, node);
  wake how;
  {
    const counted_wait counted;
    how = park(self, lock_, {what, this}, ends);
  }
  if (how == wake::fired) return node.ok ? io_wake::ready : io_wake::closed;
  lock_.lock();
  unlink(way, node);
  lock_.unlock();
  if (how == wake::cancelled) throw_cancelled();
  const bool moved = limited && std::min(until, limit(way)) > ends;  // the limit has just moved to a later time
  return moved ? io_wake::ready : io_wake::timed_out;
}

void descriptor::set_limit(generation g, io_way way, deadline until) noexcept {
  if (exploring()) decide(operation::set_limit, this);
  lock_.lock();
  wait_node* woken = nullptr;
  if (is_open(g)) {
    limits_[index(way)].store(until, std::memory_order_relaxed);
    woken = take_all(way, true, nullptr);  // they begin their wait again
  }
  lock_.unlock();
  wake_all(woken);
}

bool descriptor::join(generation g, io_way way, std::uint32_t seen, wait_node& node, early_claim& claim) {
  poller& mine = poller_here();
  lock_.lock();
  const bool joined = is_open(g) && edges(way) == seen;
  if (joined) {
    enlist(way, mine);
    node.slot = &claim;
    link(way, node);
    counted_wait::begin();
  }
  lock_.unlock();
  return joined;
}

void descriptor::leave(io_way way, wait_node& node) noexcept {
  lock_.lock();
  unlink(way, node);
  lock_.unlock();
  counted_wait::end();
}

// ---- waking

// Under the lock: claims all sleepers of that direction. Returns them, followed by `rest`, linked by `next`.
wait_node* descriptor::take_all(io_way way, bool ok, wait_node* rest) noexcept {
  while (wait_node* n = queues_[index(way)].front()) {
    unlink(way, *n);
    if (n->slot != nullptr ? !static_cast<early_claim*>(n->slot)->claim(waiter::fired, n) : !n->who->claim(*n))
      continue;
    n->ok = ok;
    n->next = rest;
    rest = n;
  }
  return rest;
}

void descriptor::wake_all(wait_node* list) noexcept {
  while (list != nullptr) {
    wait_node* n = list;
    list = n->next;
    unpark(*n->who);  // the node is gone
  }
}

// The table has a chunk for the number, because it was registered.
void descriptor::deliver(int fd, generation g, std::uint32_t events) noexcept {
  constexpr std::uint32_t special = EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLPRI;
  descriptor& d = *find(fd);
  d.lock_.lock();
  wait_node* woken = nullptr;
  if (d.is_open(g)) {
    if ((events & special) != 0) d.special_.store(true, std::memory_order_relaxed);
    if ((events & (EPOLLIN | special)) != 0) woken = d.arrive(io_way::read, woken);
    if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) woken = d.arrive(io_way::write, woken);
  }
  d.lock_.unlock();
  wake_all(woken);
}

void descriptor::report(int fd, std::uint32_t events) noexcept {
  if (const descriptor* d = find(fd)) deliver(fd, d->current(), events);
}

void descriptor::prefetch(int fd) noexcept {
  if (const descriptor* d = find(fd)) prefetch_lines<sizeof(descriptor) / cache_line>(d);
}

// Under the lock.
wait_node* descriptor::arrive(io_way way, wait_node* rest) noexcept {
  std::atomic<std::uint32_t>& edges = edges_[index(way)];
  edges.store(edges.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  return take_all(way, true, rest);
}

void descriptor::forget(poller& gone) noexcept {
  for (std::atomic<descriptor_chunk*>& place : table) {
    descriptor_chunk* c = place.load(std::memory_order_acquire);
    if (c == nullptr) continue;
    for (descriptor& d : c->all) {
      d.lock_.lock();
      wait_node* woken = nullptr;
      if (d.home_ == &gone) {
        d.home_ = nullptr;
        d.interest_ = 0;
        woken = d.arrive(io_way::read, d.arrive(io_way::write, woken));
      }
      d.lock_.unlock();
      wake_all(woken);
    }
  }
}

}  // namespace coir::detail
