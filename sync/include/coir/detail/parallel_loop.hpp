// The untyped core of parallel_for, parallel_reduce and parallel_invoke: numbers from 0 to `count`, shared out among
// the calling fiber and helpers. Not for users.
//
// Each member has a *share*, a range of numbers, and works through it from its first number on, a chunk at a time. A
// chunk takes some 20 us, but is at most an eighth of the share, and one number at first. A member without a share
// takes the upper half of the largest one. Nothing is divided beforehand. A helper is started only when a processor has
// nothing to do, which the members look for between two chunks. There are never more members than processors. With one
// processor that leaves a loop over chunks.
//
// A loop that ends as a plain loop ends in parallel too. The lowest number whose body has not ended is either being
// run, or at the front of the share of a member that is between two chunks. So a body that waits for what the bodies
// before it do is served. A failure leaves numbers out, so it cancels the bodies that wait (crew.hpp).
//
// Rejected: to cut the range into chunks at the start. Their size is a guess, and 14 us are paid for each wake-up even
// if the loop takes 5.
// Rejected: to hand a half to a new fiber whenever a processor is idle. The rest of the range of a body that blocks
// would wait for it.
//
// Lock order: members_lock_ before a share's; both are innermost otherwise.
#pragma once

#include <atomic>
#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/detail/crew.hpp>
#include <coir/detail/spin_lock.hpp>
#include <coir/source_location.hpp>

namespace coir::inline COIR_ABI::detail {

class parallel_loop {
 public:
  /// Runs the bodies of the numbers from `first` to before `last`, in this order.
  using chunk_body = void (*)(void* context, std::uint64_t first, std::uint64_t last);

  /// `grain`: how many numbers a chunk has; 0: as many as are worth it. `what` is the public function.
  parallel_loop(const char* what, std::uint64_t count, std::uint64_t grain, chunk_body body, void* context,
                source_location at);

  /// Blocks until every body has ended, or one has failed and those that began have ended; then rethrows the failure.
  void run();

 private:
  struct share;
  class pace;
  class membership;

  void take_part();
  void work_through(share& mine, pace& chunks, std::int64_t& turn_began);
  bool steal(share& mine) noexcept;
  void call_helpers();

  // In steps: a number, or a chunk if the grain was given.
  const std::uint64_t steps_;
  const std::uint64_t count_;
  const std::uint64_t grain_;
  const chunk_body body_;
  void* const context_;
  const source_location at_;
  crew crew_;
  const std::uint32_t processors_;

  spin_lock members_lock_;  // guards the next
  share* members_ = nullptr;
  std::atomic<std::uint32_t> helpers_{0};  // started, and not ended
  std::atomic<std::uint32_t> to_come_{0};  // of those, started and not begun
};

}  // namespace coir::detail
