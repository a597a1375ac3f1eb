// Channel operations for callers that cannot block: a coroutine awaits one, a callback is left at the channel. To the
// channel both are waiters like any other: it serves them in the order they came, and one claim ends their wait. Not
// for users: they call async_recv() and async_send() of the handles in <coir/chan.hpp>.
//
// The node of an awaiter lives in its coroutine's frame, as the awaiter does; that of a callback in its record, which
// also holds a reference to the channel until the callback runs. The record is its own: it frees itself when the
// callback has run, or when the wait was cancelled.
#pragma once

#include <concepts>
#include <coroutine>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/chan_core.hpp>
#include <coir/detail/chan_operations.hpp>
#include <coir/detail/is_async.hpp>
#include <coir/detail/stackless.hpp>
#include <coir/detail/start_record.hpp>
#include <coir/source_location.hpp>

namespace coir::inline COIR_ABI::detail {

/// The best alignment of an object in a coroutine's frame: compilers do not ask for more.
template <class T>
constexpr void check_awaited() {
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__,
                "coir: a coroutine's frame has no room for over-aligned values; send a pointer, or use a callback");
}

// ---- co_await ------------------------------------------------------------------------------------------------------

/// What the awaiters of a send and of a receive have in common. To keep the frame small, the channel (null for the nil
/// one) is kept in the node's slot until the awaiter sleeps. After that it is found in what its waiter waits on. That
/// is one reason why an awaiter serves once.
class chan_awaiter : async_awaiter_mark {
 public:
  explicit chan_awaiter(chan_core* on) noexcept { node_.slot = on; }
  chan_awaiter(const chan_awaiter&) = delete;
  chan_awaiter& operator=(const chan_awaiter&) = delete;

 protected:
  void begin() const { begin_await(node_); }

  /// Before it sleeps.
  chan_core* core() const noexcept { return static_cast<chan_core*>(node_.slot); }

  /// The lock of the channel, if it is not nil, is held at the call. False: refused, and the lock is free.
  bool sleep(stackless& self, wait_queue* queue, void* slot, std::coroutine_handle<> where, const char* what) noexcept;

  /// After it has been resumed, or never slept. Throws `cancelled`, nothing being linked.
  void end(wait_queue chan_core::* queue);

  bool slept() const noexcept { return node_.who != nullptr; }
  const wait_node& node() const noexcept { return node_; }

 private:
  wait_node node_;
};

/// Result: std::optional<T>, or bool for a chan<void>.
template <class T, class Result>
class [[nodiscard]] recv_awaiter : chan_awaiter {
 public:
  explicit recv_awaiter(chan_core* on) noexcept : chan_awaiter(on) { check_awaited<T>(); }

  bool await_ready() {
    begin();
    decide(operation::receive, core());
    return receive_at_once(core(), value_) != attempt::would_block;
  }

  template <async_coroutine Promise>
  bool await_suspend(std::coroutine_handle<Promise> where) noexcept {
    chan_core* const on = core();
    stackless& self = this_async();
    if (on == nullptr) return sleep(self, nullptr, nullptr, where, "chan receive (nil chan)");
    lock(*on);
    waiter* woken = nullptr;
    if (on->try_receive(typed_element<T>{}, &value_, woken) != attempt::would_block) {
      unlock_and_wake(*on, woken);
      return false;
    }
    return sleep(self, &on->receivers, &value_, where, "chan receive");
  }

  Result await_resume() {
    end(&chan_core::receivers);
    if constexpr (std::is_same_v<Result, bool>)
      return value_.has_value();
    else
      return std::move(value_);
  }

 private:
  std::optional<T> value_;  // closed: stays empty
};

template <class T>
class [[nodiscard]] send_awaiter : chan_awaiter {
 public:
  send_awaiter(chan_core* on, T&& value) noexcept : chan_awaiter(on), value_(std::move(value)) { check_awaited<T>(); }

  bool await_ready() {
    begin();
    decide(operation::send, core());
    how_ = send_at_once(core(), value_);
    return how_ != attempt::would_block;
  }

  template <async_coroutine Promise>
  bool await_suspend(std::coroutine_handle<Promise> where) noexcept {
    chan_core* const on = core();
    stackless& self = this_async();
    if (on == nullptr) return sleep(self, nullptr, nullptr, where, "chan send (nil chan)");
    lock(*on);
    waiter* woken = nullptr;
    how_ = on->try_send(typed_element<T>{}, std::addressof(value_), woken);
    if (how_ != attempt::would_block) {
      unlock_and_wake(*on, woken);
      return false;
    }
    return sleep(self, &on->senders, std::addressof(value_), where, "chan send");
  }

  void await_resume() {
    end(&chan_core::senders);
    if (slept() ? !node().ok : how_ == attempt::closed) throw_send_on_closed();
  }

 private:
  T value_;  // moved from exactly if it was sent
  attempt how_ = attempt::would_block;
};

// ---- callbacks -----------------------------------------------------------------------------------------------------

class chan_callback : public stackless, public start_record {
 public:
  chan_callback(entry f, scheduler& home, core_reference core, source_location where) noexcept
      : stackless(home, nullptr), start_record(f, where), core_(std::move(core)) {
    belongs_to(*this);
  }

 protected:
  /// Leaves it in the queue. The lock is held at the call and not at the return; it may have run, and be gone, by then.
  void sleep(wait_queue& queue, void* slot, const char* doing) noexcept;

  /// For the nil channel.
  void sleep_forever(const char* doing) noexcept;

  /// Called when the callback runs. False: it runs because it was cancelled; nothing is linked. Drops the reference to
  /// the channel.
  bool end(wait_queue chan_core::* queue) noexcept;

  chan_core* core() const noexcept { return core_.get(); }
  bool slept() const noexcept { return node_.who != nullptr; }
  bool served() const noexcept { return node_.ok; }

 private:
  core_reference core_;
  wait_node node_;
};

/// Destroys a record when its fiber's function has returned or thrown.
template <class Record>
struct record_owner {
  Record* record;
  ~record_owner() { destroy_record(record); }
};

template <class T, class F>
class recv_callback final : public chan_callback {
 public:
  static_assert(std::is_same_v<T, unit> ? std::is_invocable_v<F, bool> : std::is_invocable_v<F, std::optional<T>>,
                "coir: the callback of async_recv takes a std::optional<T>, that of a chan<void> a bool");

  template <class G>
  static void leave(core_reference core, G&& function, source_location where) {
    scheduler& home = current_scheduler("async_recv");
    auto* self = make_record<recv_callback>(home, std::move(core), std::forward<G>(function), where);
    self->enroll();
    self->count();
    chan_core* const on = self->core();
    if (on == nullptr) return self->sleep_forever("chan receive (nil chan)");
    lock(*on);
    waiter* woken = nullptr;
    if (on->try_receive(typed_element<T>{}, &self->value_, woken) == attempt::would_block)
      return self->sleep(on->receivers, &self->value_, "chan receive");
    unlock_and_wake(*on, woken);
    self->make_ready();
  }

  template <class G>
  recv_callback(scheduler& home, core_reference core, G&& function, source_location where)
      : chan_callback(&recv_callback::enter, home, std::move(core), where), function_(std::forward<G>(function)) {}

 private:
  static void enter(start_record* r) {
    const record_owner<recv_callback> self{static_cast<recv_callback*>(r)};
    self.record->become_carrier();
    if (!self.record->end(&chan_core::receivers)) return;
    using argument = std::conditional_t<std::is_same_v<T, unit>, bool, std::optional<T>>;
    check_has_run<std::invoke_result_t<F, argument>>();
    if constexpr (std::is_same_v<T, unit>)
      std::invoke(std::move(self.record->function_), self.record->value_.has_value());
    else
      std::invoke(std::move(self.record->function_), std::move(self.record->value_));
  }

  std::optional<T> value_;
  F function_;
};

/// Status: send_status.
template <class T, class F, class Status>
class send_callback final : public chan_callback {
 public:
  static constexpr bool takes_status = std::is_invocable_v<F, Status>;
  static_assert(takes_status || std::is_invocable_v<F>,
                "coir: the callback of async_send takes a send_status, or nothing");

  template <class G>
  static void leave(core_reference core, T&& value, G&& function, source_location where) {
    scheduler& home = current_scheduler("async_send");
    auto* self = make_record<send_callback>(home, std::move(core), std::move(value), std::forward<G>(function), where);
    self->enroll();
    self->count();
    chan_core* const on = self->core();
    if (on == nullptr) return self->sleep_forever("chan send (nil chan)");
    lock(*on);
    waiter* woken = nullptr;
    self->how_ = on->try_send(typed_element<T>{}, std::addressof(self->value_), woken);
    if (self->how_ == attempt::would_block) return self->sleep(on->senders, std::addressof(self->value_), "chan send");
    unlock_and_wake(*on, woken);
    self->make_ready();
  }

  template <class G>
  send_callback(scheduler& home, core_reference core, T&& value, G&& function, source_location where)
      : chan_callback(&send_callback::enter, home, std::move(core), where),
        value_(std::move(value)),
        function_(std::forward<G>(function)) {}

 private:
  static void enter(start_record* r) {
    const record_owner<send_callback> self{static_cast<send_callback*>(r)};
    self.record->become_carrier();
    if (!self.record->end(&chan_core::senders)) return;
    const bool sent = self.record->slept() ? self.record->served() : self.record->how_ == attempt::done;
    if constexpr (takes_status) {
      check_has_run<std::invoke_result_t<F, Status>>();
      std::invoke(std::move(self.record->function_), sent ? Status::done : Status::closed);
    } else {
      check_has_run<std::invoke_result_t<F>>();
      if (!sent) throw_send_on_closed();  // which ends the process, as it does in a fiber of go()
      std::invoke(std::move(self.record->function_));
    }
  }

  T value_;
  attempt how_ = attempt::would_block;
  F function_;
};

}  // namespace coir::detail
