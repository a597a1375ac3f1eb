#include "fiber/fiber_stop.hpp"

#include <mutex>
#include <utility>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

std::stop_token fiber_stop::token() {
  if (!made()) {
    auto fresh = std::make_unique<std::stop_source>();
    const std::lock_guard locked(lock_);
    source_ = std::move(fresh);
  }
  return source_->get_token();
}

void fiber_stop::exchange(fiber_stop& other) noexcept {
  std::unique_ptr<std::stop_source> mine;
  {
    const std::lock_guard locked(lock_);
    mine = std::move(source_);
  }
  {
    const std::lock_guard locked(other.lock_);
    mine.swap(other.source_);
  }
  const std::lock_guard locked(lock_);
  source_ = std::move(mine);
}

std::optional<std::stop_source> fiber_stop::copy() {
  const std::lock_guard locked(lock_);
  if (!source_) return std::nullopt;
  return *source_;
}

void fiber_stop::drop_made() noexcept {
  std::unique_ptr<std::stop_source> gone;
  const std::lock_guard locked(lock_);
  gone = std::move(source_);
}

void signal_stop(std::stop_source&& source) {
  std::stop_source mine = std::move(source);  // given up here, where ThreadSanitizer sees it
  mine.request_stop();
}

}  // namespace coir::detail
