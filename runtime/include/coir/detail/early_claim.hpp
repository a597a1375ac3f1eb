// Ends a sleeper's wait from outside: for an *ender* (a stop callback, an alarm, a task that ends) that does not hold
// the locks of the sleeper's nodes, and that may come before the wait has begun. Not for users.
//
// The ender stores come_ and then loads word_. The sleeper stores word_ and then loads come_. All four are seq_cst, so
// at least one side sees the other's store. If the sleeper sees it, it takes its wait back. If the ender sees the word,
// it claims that very wait, if it is not over. If both see, the claim fails, since the word's generation has moved on.
#pragma once

#include <atomic>
#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI::detail {

class early_claim {
 public:
  void prepare(waiter& self) noexcept {
    come_.store(false, std::memory_order_relaxed);
    word_.store(0, std::memory_order_relaxed);
    self_ = &self;
  }

  /// Publishes the word of the wait that has begun. True: the ender has come before; do not sleep.
  bool look(std::uint64_t word) noexcept {
    word_.store(word, std::memory_order_seq_cst);
    return come_.load(std::memory_order_seq_cst);
  }

  /// By the sleeper, on the ender's behalf.
  void set_come() noexcept { come_.store(true, std::memory_order_seq_cst); }

  /// Whether the ender has come.
  bool has_come() const noexcept { return come_.load(std::memory_order_seq_cst); }

  /// By the ender. True: it has ended the wait and must unpark the sleeper; this object lives until then.
  [[nodiscard]] bool claim(waiter::state as, wait_node* node = nullptr) noexcept {
    come_.store(true, std::memory_order_seq_cst);
    const std::uint64_t word = word_.load(std::memory_order_seq_cst);
    return word != 0 && self_->claim_from_outside(word, as, node);
  }

  /// The same, and wakes the sleeper. True: this may be gone.
  bool end_wait(waiter::state as, wait_node* node = nullptr) noexcept {
    waiter& sleeper = *self_;
    if (!claim(as, node)) return false;
    unpark(sleeper);
    return true;
  }

 private:
  std::atomic<bool> come_{false};
  std::atomic<std::uint64_t> word_{0};  // 0: no wait has begun (a word that waits is never 0)
  waiter* self_ = nullptr;
};

}  // namespace coir::detail
