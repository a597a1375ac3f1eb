// Functions that a fiber calls about itself. All but is_fiber() throw not_in_runtime when called outside a fiber.
#pragma once

#include <stop_token>
#include <string>

#include <coir/detail/abi.hpp>
#include <coir/fiber_id.hpp>

namespace coir::inline COIR_ABI {

/// Lets others run; returns when it is this fiber's turn again. Does not look at cancellation. Needs a fiber.
void yield();

namespace this_fiber {

using id = fiber_id;

id get_id();

/// Shows in reports and dumps.
void set_name(std::string name);
std::string name();

/// Signalled when this fiber is cancelled (task::request_stop, cancelled runtimes). Made at the first call.
std::stop_token stop_token();

/// Whether the caller is a fiber. Never throws.
bool is_fiber() noexcept;

}  // namespace this_fiber

/// While one lives, blocking calls of its fiber (or plain thread, which knows expired timeouts) do not throw
/// `cancelled`, so that clean-up code may block; the cancellation is seen by the first blocking call after it. Guards
/// nest. Must be destroyed by the fiber or thread that made it.
class [[nodiscard]] uncancellable {
 public:
  uncancellable() noexcept;
  ~uncancellable();
  uncancellable(const uncancellable&) = delete;
  uncancellable& operator=(const uncancellable&) = delete;
};

}  // namespace coir
