#include <coir/detail/io_cases.hpp>

#include <poll.h>

namespace coir::detail {

bool is_ready_now(int fd, io_way way) noexcept {
  const short wanted = way == io_way::read ? POLLIN | POLLRDHUP : POLLOUT;
  ::pollfd one{fd, wanted, 0};
  return ::poll(&one, 1, 0) > 0;
}

bool readiness_waiter::come() const noexcept {
  if (claim_.has_come()) return true;
  const io_handle::use used(handle_);
  return !used || is_ready_now(used.number(), way_);
}

// It queues first: what is ready already is seen by come(), which is asked after that.
void readiness_waiter::listen() {
  used_.emplace(handle_);
  io_handle::use& used = *used_;
  if (used && used->join(used.of(), way_, used->edges(way_), *node_, claim_)) return;
  used_.reset();  // closed, or there was an edge just now: come() tells
  claim_.set_come();
}

void readiness_waiter::disarm() noexcept {
  if (!used_) return;
  (*used_)->leave(way_, *node_);
  used_.reset();
}

}  // namespace coir::detail
