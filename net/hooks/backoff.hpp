// How long to sleep before the next attempt, where no descriptor tells when that is worth while.
#pragma once

#include <algorithm>
#include <ctime>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::hooks {

class backoff {
 public:
  /// From one millisecond to sixteen.
  ::timespec next() noexcept {
    const ::timespec now{0, nanoseconds_};
    nanoseconds_ = std::min(2 * nanoseconds_, most);
    return now;
  }

 private:
  static constexpr long least = 1'000'000;
  static constexpr long most = 16 * least;

  long nanoseconds_ = least;
};

}  // namespace coir::hooks
