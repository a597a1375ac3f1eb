#include <coir/simulate.hpp>

#include <stdexcept>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/error.hpp>

#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI {

void settle() {
  detail::fiber* const self = detail::current_fiber();
  if (self == nullptr) throw not_in_runtime("coir::settle called outside a fiber");
  detail::scheduler& home = *self->home;
  if (!home.clock().is_virtual()) throw std::logic_error("coir: settle called where time is not virtual");
  detail::decide(detail::operation::settle);
  home.settling().wait();
}

}  // namespace coir
