// The fibers of a runtime that are in settle(): they wait until every other fiber is blocked. The scheduler then wakes
// them, before it moves virtual time.
#pragma once

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI::detail {

class settlers {
 public:
  /// By a fiber of the runtime. Throws `cancelled`.
  void wait();

  /// When nothing else can run. Returns whether there was anybody.
  bool wake_all() noexcept;

 private:
  spin_lock lock_;
  wait_queue queue_;
};

}  // namespace coir::detail
