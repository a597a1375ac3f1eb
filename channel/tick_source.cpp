// The alarm of a channel of ticks lies behind the channel's buffer, and the channel's lock guards everything here. A
// tick is delivered under that lock. A stop or a reset takes back, under the same lock, a tick that is on its way or
// unread. So no stale tick is ever received (Go since 1.23).
//
// The alarm holds no reference to the channel: when the last handle is dropped the channel goes, even if its timer is
// far away. But a call of fire() may then be on its way. `expected` counts the calls that will still come: each arm()
// adds one; each call, and each disarm() that prevented one, takes one off. The stamp says which call counts. The core
// is freed once no call is expected: by the dropper, or by the last call, to which the dropper has given a reference.
#include <coir/detail/tick_source.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>

#include <coir/detail/abi.hpp>
#include <coir/detail/alarm.hpp>

namespace coir::inline COIR_ABI::detail {

namespace {

using tick = std::chrono::steady_clock::time_point;

struct tick_source {
  alarm wake;
  deadline due = 0;
  std::int64_t period = 0;
  std::uint64_t stamp = 0;     // of the call that counts
  std::uint32_t expected = 0;  // calls of fire()
  bool active = false;         // a tick is to come
  bool abandoned = false;      // no handle is left; the last expected call drops the core
};

// On a cache line of its own: the channel's other fields are the receivers'.
constexpr std::size_t source_offset =
    (typed_element<tick>::offset + sizeof(tick) + alignof(chan_core) - 1) / alignof(chan_core) * alignof(chan_core);

tick_source& source_of(chan_core& core) noexcept {
  return *std::launder(reinterpret_cast<tick_source*>(reinterpret_cast<std::byte*>(&core) + source_offset));
}

class locked {
 public:
  explicit locked(chan_core& core) noexcept : core_(core) { core_.lock.lock(); }
  ~locked() { core_.lock.unlock(); }
  locked(const locked&) = delete;
  locked& operator=(const locked&) = delete;

 private:
  chan_core& core_;
};

// A tick is dropped if no receiver waits for it and another one lies unread.
waiter* deliver(chan_core& core, deadline time) noexcept {
  waiter* woken = nullptr;
  tick value{std::chrono::nanoseconds(time)};
  core.try_send(typed_element<tick>{}, &value, woken);
  return woken;
}

deadline saturating_sum(deadline t, std::int64_t ns) noexcept {
  return ns >= no_deadline - 1 - t ? no_deadline - 1 : t + ns;
}

void fire(void* arg, std::uint64_t stamp) noexcept;

void arm(chan_core& core, tick_source& s) {
  s.wake.arm(s.due, &fire, &core, s.stamp);
  ++s.expected;
  s.active = true;
}

// A tick is due now. The next one follows the schedule: it is the next that lies ahead, and those missed are skipped.
waiter* tick_now(chan_core& core, tick_source& s) {
  const deadline time = now();
  s.active = false;
  if (s.period != 0) {
    s.due = saturating_sum(s.due, (time - s.due) / s.period * s.period);
    s.due = saturating_sum(s.due, s.period);
    arm(core, s);
  }
  return deliver(core, time);
}

// On a thread of the library.
void fire(void* arg, std::uint64_t stamp) noexcept {
  chan_core& core = *static_cast<chan_core*>(arg);
  tick_source& s = source_of(core);
  waiter* woken = nullptr;
  bool last = false;
  {
    const locked held(core);
    --s.expected;
    try {
      if (s.active && stamp == s.stamp) woken = tick_now(core, s);
    } catch (const std::exception&) {  // no memory, or no thread that keeps time
      no_memory_for("the next tick of a ticker");
    }
    last = s.abandoned && s.expected == 0;
  }
  if (woken != nullptr) unpark(*woken);
  if (last) core.release();
}

// Under the lock: drops the unread tick, if there is one. It needs no destructor, and there are no senders to wake.
void take_back(chan_core& core) noexcept {
  if (core.count() != 0) core.removed();
}

// Under the lock.
bool silence(chan_core& core, tick_source& s) noexcept {
  const bool was = s.active;
  s.active = false;
  ++s.stamp;
  if (s.wake.disarm()) --s.expected;
  take_back(core);
  return was;
}

// The last handle is gone. False: a call of fire() is under way, and gets the core.
bool dropped(void* memory) noexcept {
  chan_core& core = *static_cast<chan_core*>(memory);
  tick_source& s = source_of(core);
  {
    const locked held(core);
    silence(core, s);
    if (s.expected != 0) {
      s.abandoned = true;
      core.add_reference();
      return false;
    }
  }
  std::destroy_at(&s);
  return true;
}

constexpr element_operations tick_operations{typed_element<tick>::operations.size,
                                             typed_element<tick>::operations.alignment,
                                             typed_element<tick>::operations.offset,
                                             typed_element<tick>::operations.construct,
                                             typed_element<tick>::operations.emplace,
                                             typed_element<tick>::operations.destroy,
                                             source_offset + sizeof(tick_source) - typed_element<tick>::offset,
                                             &dropped};

}  // namespace

core_reference make_ticks(deadline due, std::int64_t period) {
  chan_core* core = chan_core::make(1, tick_operations);
  ::new (reinterpret_cast<std::byte*>(core) + source_offset) tick_source;
  core_reference ticks(core);
  restart_ticks(*core, due, period);
  return ticks;
}

bool stop_ticks(chan_core& core) noexcept {
  const locked held(core);
  return silence(core, source_of(core));
}

bool restart_ticks(chan_core& core, deadline due, std::int64_t period) {
  tick_source& s = source_of(core);
  waiter* woken = nullptr;
  bool was = false;
  {
    const locked held(core);
    was = s.active;
    const bool moved = was && due != 0 && s.wake.move(due, s.stamp + 1);
    if (moved) {
      ++s.stamp;
      take_back(core);
    } else {
      silence(core, s);
    }
    s.due = due;
    s.period = period;
    if (due == 0)
      woken = tick_now(core, s);
    else if (!moved)
      arm(core, s);
  }
  if (woken != nullptr) unpark(*woken);
  return was;
}

}  // namespace coir::detail
