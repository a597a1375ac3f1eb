// COIR_DEBUG=slowslice=MS: the monitor reports each fiber that keeps its processor for so long without parking or
// yielding. The fiber either computes, for at least half of that time, or blocks its thread. A fiber whose processor is
// retaken before that is reported, too. The report has a backtrace taken on the fiber's thread.
#pragma once

#include <cstdint>
#include <vector>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

class processor;
class worker;

class slow_slices {
 public:
  /// `limit` in ns; 0 watches nothing.
  slow_slices(std::int64_t limit, std::size_t processors);

  explicit operator bool() const noexcept { return limit_ != 0; }

  /// One look at a processor with an owner, at `time`; `cpu` is the owner's CPU time.
  void look(processor& p, worker& owner, std::int64_t time, std::int64_t cpu) noexcept;

  /// The owner's fiber has been at the same tick for `time` ns and is about to lose the processor.
  void about_to_retake(processor& p, worker& owner, std::int64_t time) noexcept {
    report(p, owner, time, "; others wait");
  }

 private:
  struct slice {
    const worker* who = nullptr;
    std::uint64_t tick = 0;
    std::int64_t since = 0;
    std::int64_t cpu = 0;
    bool reported = false;
  };

  static void report(processor& p, worker& owner, std::int64_t time, const char* more) noexcept;

  const std::int64_t limit_;
  std::vector<slice> seen_;
};

}  // namespace coir::detail
