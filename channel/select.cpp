// The core of select, for the variadic select(), for select_set and for their forms for coroutines. See select_case.hpp
// for the invariants.
#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/select_case.hpp>
#include <coir/detail/selection.hpp>

#include <algorithm>
#include <functional>
#include <new>
#include <optional>
#include <utility>

namespace coir::inline COIR_ABI::detail {

namespace {

/// Uniform in [0, n), except for 2^-32 of it.
std::uint32_t below(std::uint64_t random, std::uint32_t n) noexcept {
  return static_cast<std::uint32_t>(((random >> 32) * n) >> 32);
}

/// The operation of a case on a channel, whose lock is held.
attempt attempt_locked(const select_case& c, waiter*& woken) noexcept {
  return c.what == select_case::kind::receive ? c.core->try_receive(c.core->element(), c.slot, woken)
                                              : c.core->try_send(c.core->element(), c.slot, woken);
}

/// Lets the case take effect if it can at once. Throws closed_channel.
bool try_case(const select_case& c) {
  if (!c.on_channel()) return true;  // an event that has come
  waiter* woken = nullptr;
  c.core->lock.lock();
  const attempt how = attempt_locked(c, woken);
  c.core->lock.unlock();
  if (woken != nullptr) unpark(*woken);
  if (how == attempt::closed && c.what == select_case::kind::send) throw_send_on_closed();
  return how != attempt::would_block;
}

wait_node& make_node(select_case& c, std::uint32_t index) noexcept {
  wait_node& node = *::new (&c.node) wait_node;
  node.slot = c.slot;
  node.index = index;
  return node;
}

}  // namespace

selection::selection(select_case* cases, std::uint32_t n, std::uint32_t* order) : cases_(cases), n_(n), order_(order) {
  sort();
}

void selection::note_timeout(std::uint32_t i) {
  const select_case& c = cases_[i];
  deadline until = 0;
  if (!c.relative) {
    until = c.when;
  } else if (c.when > 0) {
    if (now_ == 0) now_ = now();
    // It stays below no_deadline, so that a very long wait is still a timer.
    until = c.when >= no_deadline - 1 - now_ ? no_deadline - 1 : now_ + c.when;
  }
  if (timeout_ == none || until < until_) {
    timeout_ = i;
    until_ = until;
  }
}

/// Orders the cases on channels, so that the locks are taken in order, and each once.
void selection::sort() {
  for (std::uint32_t i = 0; i < n_; ++i) {
    switch (cases_[i].what) {
      case kind::receive:
      case kind::send:
        if (cases_[i].core != nullptr) order_[channels_++] = i;
        break;
      case kind::timeout:
        note_timeout(i);
        break;
      case kind::event:
        // Asked only once, because a token ceases to be possible when its last source is gone.
        if (cases_[i].event().possible()) order_[n_ - ++events_] = i;
        break;
      case kind::otherwise:
        if (otherwise_ == none) otherwise_ = i;
        break;
    }
  }
  const auto before = [this](std::uint32_t a, std::uint32_t b) {
    return std::less<>{}(cases_[a].core, cases_[b].core);
  };
  constexpr std::uint32_t few = 16;
  if (channels_ > few) {
    std::sort(order_, order_ + channels_, before);
  } else {
    for (std::uint32_t k = 1; k < channels_; ++k) {
      const std::uint32_t moving = order_[k];
      std::uint32_t to = k;
      for (; to > 0 && before(moving, order_[to - 1]); --to) order_[to] = order_[to - 1];
      order_[to] = moving;
    }
  }
}

void selection::lock_all() noexcept {
  for (std::uint32_t k = 0; k < channels_; ++k)
    if (first(k)) core(k)->lock.lock();
}

void selection::unlock_all() noexcept {
  for (std::uint32_t k = 0; k < channels_; ++k)
    if (first(k)) core(k)->lock.unlock();
}

/// For park(): runs after the switch, but on the next context. So neither this nor its callees are instrumented.
__attribute__((no_sanitize("thread"))) void selection::unlock_all_of(void* arg) noexcept {
  // As soon as a lock is free, a claimer may wake the sleeper. The sleeper cannot leave before the last lock is free,
  // but then its frame may be gone. So nothing of the frame is read after that.
  const auto* const self = static_cast<const selection*>(arg);
  const select_case* const cases = self->cases_;
  const std::uint32_t* const order = self->order_;
  const std::uint32_t n = self->channels_;
  for (std::uint32_t k = 0; k < n;) {
    chan_core* const here = cases[order[k]].core;
    do {
      ++k;
    } while (k < n && cases[order[k]].core == here);
    unlock_announced(here->lock);
  }
}

/// Under all locks: lets one of the ready cases take effect, chosen evenly, and releases the locks. `none`: nothing is
/// ready, and the locks are still held.
std::uint32_t selection::take_ready() {
  for (;;) {
    std::uint32_t ready = 0;
    const std::uint32_t all = channels_ + events_;
    for (std::uint32_t k = 0; k < all; ++k)
      if (cases_[waiting_case(k)].seems_ready()) ++ready;
    if (ready == 0) return none;
    std::uint32_t skip = 0;
    if (ready > 1) {
      // Rare, since a ready case is mostly taken without the locks. The source of random numbers belongs to the
      // runtime, which may have to wait for a processor. So it is not asked with locks held.
      if (exploring()) {
        skip = choose_one_of(operation::select, ready);
      } else if (!random_) {
        unlock_all();
        random_ = random_bits();
        lock_all();
        continue;
      } else {
        skip = below(*std::exchange(random_, std::nullopt), ready);
      }
    }
    std::uint32_t k = 0;
    for (; k < all; ++k) {
      if (!cases_[waiting_case(k)].seems_ready()) continue;
      if (skip == 0) break;
      --skip;
    }
    if (k == all) continue;  // cannot happen: a case that is ready under the locks stays ready
    const std::uint32_t i = waiting_case(k);
    const select_case& c = cases_[i];
    waiter* woken = nullptr;
    const attempt how = c.on_channel() ? attempt_locked(c, woken) : attempt::done;
    if (how == attempt::would_block) continue;  // only dead nodes waited there; they are unlinked now
    unlock_all();
    if (woken != nullptr) unpark(*woken);
    if (how == attempt::closed && c.what == kind::send) throw_send_on_closed();
    return i;
  }
}

void selection::link(waiter& self) noexcept {
  // In the order written, so that of two cases on one channel the first is served first.
  for (std::uint32_t i = 0; i < n_; ++i) {
    select_case& c = cases_[i];
    if (c.core == nullptr) continue;
    make_node(c, i).who = &self;
    (c.what == kind::receive ? c.core->receivers : c.core->senders).push_back(c.node);
  }
}

/// `fired`: the case whose node its claimer has unlinked, or `none`.
void selection::unlink(std::uint32_t fired) noexcept {
  for (std::uint32_t k = 0; k < channels_;) {
    chan_core* const here = core(k);
    const std::uint32_t begin = k;
    do {
      ++k;
    } while (k < channels_ && core(k) == here);
    if (k - begin == 1 && order_[begin] == fired) continue;
    here->lock.lock();
    for (std::uint32_t j = begin; j < k; ++j) {
      select_case& c = cases_[order_[j]];
      (c.what == kind::receive ? here->receivers : here->senders).remove(c.node);
    }
    here->lock.unlock();
  }
}

void selection::arm(waiter& self) {
  for (; armed_ < events_; ++armed_) {
    const std::uint32_t i = order_[n_ - 1 - armed_];
    cases_[i].event().arm(self, make_node(cases_[i], i));
  }
}

// An event whose arm() threw is not armed, nor are those after it.
void selection::disarm() noexcept {
  for (; armed_ > 0; --armed_) cases_[order_[n_ - armed_]].event().disarm();
}

/// Whether the deadline has passed.
bool selection::due() noexcept { return timeout_ != none && (until_ == 0 || until_ <= (now_ != 0 ? now_ : now())); }

/// Looks for a case that can take effect, with all locks taken. Returns the case that took effect, with no lock held;
/// or `none`, with all of them held.
std::uint32_t selection::look() {
  lock_all();
  const std::uint32_t taken = take_ready();
  if (taken != none) return taken;
  const std::uint32_t instead = due() ? timeout_ : otherwise_;
  if (instead != none) unlock_all();
  return instead;
}

/// Begins the wait, under all locks, before the nodes are linked. An event or the deadline may have come meanwhile:
/// then it returns as look() does. Throws `cancelled`, with no lock held.
std::uint32_t selection::begin(waiter& self, deadline_waiter* timer) {
  if (!begin_wait(self)) {
    unlock_all();
    throw_cancelled();
  }
  if (events_ == 0 && timer == nullptr) return none;
  const std::uint64_t word = self.word();
  bool come = false;
  for (std::uint32_t k = n_ - events_; k < n_; ++k)
    if (cases_[order_[k]].event().look(word)) come = true;
  const bool due_now = timer != nullptr && timer->look(word);
  if (!come && !due_now) return none;
  abandon_wait(self);
  if (come) return take_ready();  // the event's case, at least
  unlock_all();
  return timeout_;
}

/// Called before the locks are released by another context. Without channels no lock keeps this frame alive until then,
/// so nothing of it may be read.
lock_release selection::announce_all() noexcept {
  for (std::uint32_t k = 0; k < channels_; ++k)
    if (first(k)) announce_release(core(k)->lock);
  return {channels_ != 0 ? &selection::unlock_all_of : +[](void*) noexcept {}, this};
}

/// After the sleep.
std::uint32_t selection::end(waiter& self, wake how) {
  const wait_node* const node = how == wake::fired ? self.fired_node() : nullptr;
  const std::uint32_t fired = node != nullptr ? node->index : none;
  unlink(fired);
  if (how == wake::cancelled) throw_cancelled();
  if (node == nullptr) return timeout_;
  if (cases_[fired].what == kind::send && !node->ok) throw_send_on_closed();
  return fired;
}

std::uint32_t selection::run() {
  if (!can_end()) park_forever({"select (no cases)"});
  struct armed {
    selection* s = nullptr;
    ~armed() {
      if (s != nullptr) s->disarm();
    }
  } until_return;
  if (events_ != 0) {
    until_return.s = this;
    arm(this_waiter());
  }
  std::uint32_t taken = look();
  if (taken != none) return taken;
  waiter& self = this_waiter();
  taken = begin(self, nullptr);
  if (taken != none) return taken;
  link(self);
  const lock_release locks = announce_all();
  return end(self, park(self, locks.release, locks.arg, {"select"}, until_));
}

// ---- for coroutines ------------------------------------------------------------------------------------------------

async_selection::async_selection(select_case* cases, std::uint32_t n, std::uint32_t* order)
    : selection_(cases, n, order) {}

bool async_selection::suspend(std::coroutine_handle<> where) noexcept {
  stackless& self = this_async();
  try {
    arm(self);
    if (sleep(self, where)) return true;
  } catch (...) {
    error_ = std::current_exception();
  }
  disarm();
  return false;
}

void async_selection::arm(stackless& self) {
  if (selection_.events_ != 0) {
    events_armed_ = true;
    selection_.arm(self);
  }
  if (selection_.timeout_ != selection::none && selection_.otherwise_ == selection::none && !selection_.due()) {
    timer_.arm(self, selection_.until_);
    timer_armed_ = true;
  }
}

void async_selection::disarm() noexcept {
  if (timer_armed_) timer_.settle();
  if (events_armed_) selection_.disarm();
}

bool async_selection::sleep(stackless& self, std::coroutine_handle<> where) {
  taken_ = selection_.look();
  if (taken_ != selection::none) return false;
  taken_ = selection_.begin(self, timer_armed_ ? &timer_ : nullptr);
  if (taken_ != selection::none) return false;
  selection_.link(self);
  sleeper_ = &self;
  park(self, where, selection_.announce_all(), {selection_.can_end() ? "select" : "select (no cases)"});
  return true;
}

std::uint32_t async_selection::resume() {
  if (sleeper_ == nullptr) {
    if (error_) std::rethrow_exception(std::move(error_));
    return taken_;
  }
  const wake how = woken(*sleeper_);
  if (how == wake::timed_out) timer_armed_ = false;  // its claim was its last touch
  struct disarmed {
    async_selection& s;
    ~disarmed() { s.disarm(); }
  } at_return{*this};
  return selection_.end(*sleeper_, how);
}

// Flattened, since it is hot, and its parts would not be inlined otherwise: a coroutine's select calls them, too.
[[gnu::flatten]] std::size_t select_one(select_case* cases, std::size_t n, std::uint32_t* order) {
  return selection(cases, static_cast<std::uint32_t>(n), order).run();
}

std::size_t select_seeming_ready(select_case* cases, std::size_t n) {
  std::uint64_t ready = 0;
  if (n <= 64)
    for (std::size_t i = 0; i < n; ++i) ready |= std::uint64_t{cases[i].seems_ready()} << i;
  while (ready != 0) {
    const unsigned i = random_bit(ready);
    if (try_case(cases[i])) return i;
    ready &= ~(std::uint64_t{1} << i);
  }
  return n;
}

unsigned random_bit_slowly(std::uint64_t set) noexcept {
  const auto n = static_cast<std::uint32_t>(__builtin_popcountll(set));
  std::uint32_t skip = exploring() ? choose_one_of(operation::select, n) : below(random_bits(), n);
  for (; skip != 0; --skip) set &= set - 1;
  return static_cast<unsigned>(__builtin_ctzll(set));
}

}  // namespace coir::detail
