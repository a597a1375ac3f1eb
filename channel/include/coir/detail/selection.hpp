// One select, from its look at the channels to its end, for a fiber or thread, and for a coroutine. This is the untyped
// core of select(), async_select() and select_set. See select_case.hpp for the invariants. Not for users.
//
//   step               a fiber or thread: run()     a coroutine: suspend(), then resume()
//   arm the events     no lock held                 the same, and the deadline
//   look               all locks held               the same; if something is ready: not suspended
//   link, publish      park() after the switch      its carrier, after resume() of the frame has returned
//   unlock all         in park()                    the carrier; of the frame, which may be resumed as soon as one lock
//                                                   is free, only what a held lock keeps is read
//   deadline           park()                       deadline_waiter
//   unlink, disarm     after park()                 resume()
#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <optional>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/select_case.hpp>
#include <coir/detail/stackless.hpp>

namespace coir::inline COIR_ABI::detail {

class selection {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;

  /// `order` is room for n indices. Both arrays stay where they are.
  selection(select_case* cases, std::uint32_t n, std::uint32_t* order);
  selection(const selection&) = delete;
  selection& operator=(const selection&) = delete;

  /// Waits until one of the cases takes effect; returns its index. Throws closed_channel if the chosen case sends to a
  /// closed channel, `cancelled`.
  std::uint32_t run();

 private:
  friend class async_selection;
  using kind = select_case::kind;

  void sort();
  void note_timeout(std::uint32_t i);
  bool can_end() const noexcept { return channels_ + events_ != 0 || otherwise_ != none || timeout_ != none; }
  /// The k-th of the cases on channels and, after them, on events.
  std::uint32_t waiting_case(std::uint32_t k) const noexcept {
    return order_[k < channels_ ? k : n_ - 1 - (k - channels_)];
  }
  chan_core* core(std::uint32_t k) const noexcept { return cases_[order_[k]].core; }
  /// Whether the k-th of the ordered cases is the first of its channel.
  bool first(std::uint32_t k) const noexcept { return k == 0 || core(k) != core(k - 1); }

  void lock_all() noexcept;
  void unlock_all() noexcept;
  static void unlock_all_of(void* self) noexcept;
  lock_release announce_all() noexcept;

  std::uint32_t take_ready();
  bool due() noexcept;
  std::uint32_t look();
  std::uint32_t begin(waiter& self, deadline_waiter* timer);
  void link(waiter& self) noexcept;
  void unlink(std::uint32_t fired) noexcept;
  std::uint32_t end(waiter& self, wake how);
  void arm(waiter& self);
  void disarm() noexcept;

  select_case* cases_;
  std::uint32_t n_;
  std::uint32_t* order_;  // n_ places: first the cases on channels, by address; last those on events
  std::uint32_t channels_ = 0;
  std::uint32_t events_ = 0;
  std::uint32_t armed_ = 0;  // of the events, from the last place of order_ on
  std::uint32_t otherwise_ = none;
  std::uint32_t timeout_ = none;
  deadline now_ = 0;
  deadline until_ = no_deadline;
  std::optional<std::uint64_t> random_;  // drawn, and not used yet
};

/// What an awaiter holds, once its fast path has found nothing ready.
class async_selection {
 public:
  async_selection(select_case* cases, std::uint32_t n, std::uint32_t* order);

  /// In await_suspend(). False: it need not sleep.
  bool suspend(std::coroutine_handle<> where) noexcept;

  /// In await_resume(): the index of the case that took effect. Throws as run() does, and what arming the deadline
  /// threw.
  std::uint32_t resume();

 private:
  void arm(stackless& self);
  bool sleep(stackless& self, std::coroutine_handle<> where);
  void disarm() noexcept;

  selection selection_;
  stackless* sleeper_ = nullptr;  // if it slept
  std::uint32_t taken_ = selection::none;
  bool events_armed_ = false;
  bool timer_armed_ = false;
  deadline_waiter timer_;
  std::exception_ptr error_;  // of suspend()
};

}  // namespace coir::detail
