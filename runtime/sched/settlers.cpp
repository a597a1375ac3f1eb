#include "sched/settlers.hpp"

#include <coir/detail/abi.hpp>
#include <coir/detail/queued_wait.hpp>

namespace coir::inline COIR_ABI::detail {

void settlers::wait() {
  wait_node node;
  lock_.lock();
  const wake how = sleep_in({lock_, queue_}, node, {"settle"});
  if (how == wake::fired) return;
  lock_.unlock();
  throw_cancelled();
}

bool settlers::wake_all() noexcept {
  bool any = false;
  for (;;) {
    lock_.lock();
    wait_node* const node = queue_.claim_front();
    waiter* const who = node != nullptr ? node->who : nullptr;
    lock_.unlock();
    if (who == nullptr) return any;
    unpark(*who);
    any = true;
  }
}

}  // namespace coir::detail
