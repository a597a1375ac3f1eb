// The untyped half of select: what a case is to the core in select.cpp, and the core's one function. Not for users.
//
// Invariants:
//  1. Exactly one case takes effect. A node of a losing case is unlinked before the select returns, throws, or runs a
//     handler; handlers and stop callbacks' destructors run with no lock held.
//  2. The locks of all channels of the select, taken in the order of their addresses, are held from before the last
//     look at readiness until the sleeper's word says `waiting`, or `otherwise` is decided. So nothing becomes ready
//     between the look and the sleep.
//  3. A sleeper that was woken locks every channel of its cases, except the one whose case fired, before it leaves.
//     The context that still releases the locks reads its frame until the last one is free.
//  4. A stop request, and the end of a task, is seen: see early_claim.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/chan_core.hpp>
#include <coir/detail/deadline_waiter.hpp>
#include <coir/detail/early_claim.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/stop_hook.hpp>
#include <coir/task.hpp>

namespace coir::inline COIR_ABI::detail {

/// An event that ends a select, beside channels and time: a stop request, the end of a task. Sleeper: arm() with no
/// lock held; begin_wait(); look(), if true the case is ready; park; disarm() with no lock held (it waits for an ender
/// that is just coming). If arm() throws, nothing is armed.
class event_waiter {
 public:
  event_waiter() = default;
  event_waiter(const event_waiter&) = delete;
  event_waiter& operator=(const event_waiter&) = delete;

  virtual bool possible() const noexcept = 0;  ///< whether it can ever come; asked once
  virtual bool come() const noexcept = 0;      ///< once true, always

  void arm(waiter& self, wait_node& node) {
    claim_.prepare(self);
    node.who = &self;
    node_ = &node;
    listen();
  }
  bool look(std::uint64_t word) noexcept { return claim_.look(word); }
  virtual void disarm() noexcept = 0;

 protected:
  ~event_waiter() = default;
  virtual void listen() = 0;

  early_claim claim_;
  wait_node* node_ = nullptr;
};

class stop_waiter final : public event_waiter {
 public:
  explicit stop_waiter(std::stop_token token) noexcept : token_(std::move(token)) {}

  bool possible() const noexcept override { return token_.stop_possible(); }
  bool come() const noexcept override { return token_.stop_requested(); }
  void disarm() noexcept override { hook_.reset(); }

 private:
  struct callback {
    stop_waiter* owner;
    void operator()() const noexcept { owner->claim_.end_wait(waiter::fired, owner->node_); }
  };

  void listen() override { hook_.set(token_, callback{this}); }

  std::stop_token token_;
  stop_hook<callback> hook_;
};

/// The end of a task. The task exists, and is not joined, as long as this is armed.
class end_waiter final : public event_waiter {
 public:
  explicit end_waiter(task_state& of) noexcept : task_(&of) {}

  bool possible() const noexcept override { return true; }
  bool come() const noexcept override { return task_->finished(); }
  void disarm() noexcept override { task_->forget(*node_); }

 private:
  void listen() override { task_->notify(*node_, claim_); }

  task_state* task_;
};

/// One case, on the selecting fiber's stack (or in its select_set).
struct select_case {
  enum class kind : std::uint8_t { receive, send, timeout, event, otherwise };

  // NOLINTNEXTLINE(modernize-use-equals-default): that would clear the node where it is value-initialized
  select_case() noexcept {}  // leaves the node alone: most selects never need it

  kind what{};
  bool relative = false;      ///< timeout: `when` counts from the beginning of the wait
  chan_core* core = nullptr;  ///< receive, send; null: the nil channel
  void* slot =
      nullptr;  ///< receive: an empty std::optional<T> to fill; send: the T to move from; event: its event_waiter
  std::int64_t when = 0;  ///< timeout: nanoseconds
  union {
    wait_node node;  ///< made when the wait begins
  };

  bool on_channel() const noexcept { return core != nullptr; }
  event_waiter& event() const noexcept { return *static_cast<event_waiter*>(slot); }

  /// Hint, without locks.
  bool seems_ready() const noexcept {
    if (core != nullptr) return what == kind::receive ? core->may_receive() : core->may_send();
    return what == kind::event && event().come();
  }
};

/// Waits until one of the cases takes effect; returns its index. `order` is room for n indices. Throws closed_channel
/// if the chosen case sends to a closed channel, `cancelled`.
std::size_t select_one(select_case* cases, std::size_t n, std::uint32_t* order);

/// Lets one of the cases that seem ready take effect, one lock at a time. Returns its index, or n. Throws
/// closed_channel.
std::size_t select_seeming_ready(select_case* cases, std::size_t n);

/// One of the set bits, uniformly. At least one is set.
unsigned random_bit_slowly(std::uint64_t set) noexcept;
inline unsigned random_bit(std::uint64_t set) noexcept {
  if ((set & (set - 1)) == 0) return static_cast<unsigned>(__builtin_ctzll(set));
  return random_bit_slowly(set);
}

}  // namespace coir::detail
