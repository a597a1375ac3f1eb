#include <coir/detail/io_cases.hpp>

#include <coir/detail/abi.hpp>
#include <coir/detail/system_calls.hpp>

namespace coir::inline COIR_ABI::detail {

bool readiness_waiter::holds() const noexcept {
  const io_handle::use used(handle_);
  return !used || system_calls::is_ready(used.number(), way_);
}

// Queues first. select() calls come() after that, which sees a descriptor that was ready before.
void readiness_waiter::listen() {
  used_.emplace(handle_);
  io_handle::use& used = *used_;
  try {
    if (used && used->join(used.of(), way_, used->edges(way_), *node_, claim_)) return;
  } catch (...) {
    used_.reset();
    throw;
  }
  used_.reset();  // closed, or there was an edge just now
  claim_.set_come();
}

void readiness_waiter::disarm() noexcept {
  if (!used_) return;
  (*used_)->leave(way_, *node_);
  used_.reset();
}

}  // namespace coir::detail
