// COIR_DEBUG=stackuse=1: what <coir/stack_use.hpp> reports is measured here.
#pragma once

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

struct fiber;

/// At the end of a fiber, on its own stack, outside the bracket: notes how much of it was touched, and gives the rest
/// back.
void note_stack_use(fiber& f);

}  // namespace coir::detail
