#include <coir/detail/queued_wait.hpp>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

void deadline_to_await::arm() {
  if (until_ <= now()) {
    due_ = true;
    return;
  }
  alarm_.arm(this_async(), until_);
  armed_ = true;
}

void deadline_to_await::settle() noexcept {
  if (std::exchange(armed_, false)) alarm_.settle();
}

}  // namespace coir::detail
