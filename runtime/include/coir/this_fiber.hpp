// Functions that a fiber calls about itself. All but is_fiber() throw not_in_runtime when called outside a fiber.
#pragma once

#include <stop_token>
#include <string>

#include <coir/detail/abi.hpp>
#include <coir/fiber_id.hpp>

namespace coir::inline COIR_ABI {

/// Lets other fibers run. Returns when it is this fiber's turn again. Not a cancellation point. Throws not_in_runtime
/// outside a fiber.
void yield();

namespace this_fiber {

using id = fiber_id;  ///< the type of get_id()

/// The calling fiber's id.
id get_id();

/// Gives the calling fiber a name for reports and dumps.
void set_name(std::string name);
/// The name of the calling fiber. Empty if it has none.
std::string name();

/// A token that is signalled when this fiber is cancelled (by task::request_stop() or a cancelled runtime, for
/// example). It is made at the first call.
std::stop_token stop_token();

/// Whether the caller is a fiber. Never throws.
bool is_fiber() noexcept;

}  // namespace this_fiber

/// A guard. While it lives, the blocking calls of the calling fiber do not throw `cancelled`, so that clean-up code may
/// block. The first blocking call after that sees the cancellation. In a plain thread, the guard does the same for an
/// expired timeout(). Guards nest. The fiber or thread that made a guard must destroy it.
class [[nodiscard]] uncancellable {
 public:
  uncancellable() noexcept;
  ~uncancellable();
  uncancellable(const uncancellable&) = delete;
  uncancellable& operator=(const uncancellable&) = delete;
};

}  // namespace coir
