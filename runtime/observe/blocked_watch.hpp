// COIR_DEBUG=blocked=MS: reports each fiber that has been blocked for so long, once for each time that it blocks. It
// has a thread of its own, since unwinding stacks and writing would keep the monitor from its work.
//
// A fiber that sleeps, or waits with a deadline, continues by itself, and is not reported. Coroutines and callbacks are
// not watched: the time at which they fell asleep is not noted.
//
// The time at which a fiber has blocked is a value of scheduler::coarse_time(). That may be old, but never older than
// the last look, since each look sets it. So a fiber whose time is before that of a look has been blocked since that
// look at least.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <thread>
#include <unordered_map>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

struct fiber;
class scheduler;

class blocked_watch {
 public:
  /// `limit` in ns. Throws std::system_error, std::bad_alloc.
  blocked_watch(scheduler& s, std::int64_t limit);
  ~blocked_watch();
  blocked_watch(const blocked_watch&) = delete;
  blocked_watch& operator=(const blocked_watch&) = delete;

 private:
  void watch() noexcept;
  void look(std::int64_t now);

  scheduler& scheduler_;
  const std::int64_t limit_;
  std::deque<std::int64_t> looks_;                           // when; the first is the last that was `limit_` ago
  std::unordered_map<const fiber*, std::uint64_t> overdue_;  // those known to be, and the claim words of their waits
  std::atomic<std::uint32_t> ending_{0};
  std::thread thread_;
};

}  // namespace coir::detail
