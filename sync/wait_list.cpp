#include <coir/wait_list.hpp>

namespace coir::detail {

wake wait_list::wait(wait_node& node, wait_reason why, deadline until) noexcept {
  waiter& self = this_waiter();
  node.who = &self;
  // First, since a call that does not block does not look whether it is cancelled.
  if (until != no_deadline && until <= now()) {
    queue_.remove(node);
    return wake::timed_out;
  }
  if (!begin_wait(self)) {
    queue_.remove(node);
    return wake::cancelled;
  }
  if (!node.queued) queue_.push_back(node);
  const wake how = park(self, lock_, why, until);
  if (how != wake::fired) {
    lock_.lock();
    queue_.remove(node);
  }
  return how;
}

}  // namespace coir::detail
