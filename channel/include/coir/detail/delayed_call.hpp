// The object behind after_func(): a closure, an alarm that starts it in a fiber, and a count of the parties that may
// still need the two. Not for users.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/alarm.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/spin_lock.hpp>
#include <coir/detail/start_record.hpp>
#include <coir/source_location.hpp>

namespace coir::inline COIR_ABI::detail {

/// The timer, and each fiber that runs the closure, hold a reference. The alarm holds none: the timer's destructor
/// waits for its call.
class delayed_call {
 public:
  delayed_call(const delayed_call&) = delete;
  delayed_call& operator=(const delayed_call&) = delete;

  /// As a timer's members. restart() throws what alarm::arm() does.
  bool stop() noexcept;
  bool restart(deadline due);

  /// Stops it and gives the timer's reference up.
  void drop() noexcept;

 protected:
  delayed_call();  // throws not_in_runtime
  virtual ~delayed_call() = default;

  /// The record of a fiber that calls the closure and holds a reference; and how to get rid of one.
  virtual start_record* make_call() = 0;
  virtual void destroy_call(start_record* call) noexcept = 0;

  void add_reference() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    // acq_rel: release for the dropper of the last reference, which acquires the others' last uses.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  static void fire(void* arg, std::uint64_t stamp) noexcept;
  bool silence() noexcept;
  void start();

  spin_lock lock_;  // guards the next three
  alarm wake_;
  std::uint64_t stamp_ = 0;  // of the call of fire() that counts
  bool active_ = false;
  std::atomic<std::uint32_t> expected_{0};  // calls of fire() that have not returned, or will still come
  std::atomic<std::uint32_t> references_{1};
  const runtime_name where_;
};

template <class F>
class delayed_closure final : public delayed_call {
 public:
  template <class G>
  delayed_closure(G&& g, source_location at) : closure_(std::forward<G>(g)), at_(at) {}

 private:
  struct body {
    explicit body(delayed_closure& c) noexcept : owner(&c) { owner->add_reference(); }
    body(body&& other) noexcept : owner(std::exchange(other.owner, nullptr)) {}
    ~body() {
      if (owner != nullptr) owner->release();
    }
    void operator()() const { owner->closure_(); }

    delayed_closure* owner;
  };
  using record = go_record<body>;

  start_record* make_call() override { return make_record<record>(body(*this), at_); }
  void destroy_call(start_record* call) noexcept override { destroy_record(static_cast<record*>(call)); }

  F closure_;
  source_location at_;
};

}  // namespace coir::detail
