// Shadow stacks of the CPU (Intel CET, AMD): a second stack of return addresses, which every `ret` is checked against.
// A switch of stacks returns to addresses that are not on the current shadow stack. Its first `ret` would end the
// process by SIGSEGV, and nothing would tell why. coir therefore refuses to run with them.
//
// glibc turns shadow stacks on only for a process whose program and libraries are all marked as ready for them. The
// sources that switch are compiled without that mark (runtime/CMakeLists.txt), so a program that is linked with coir is
// not marked either, whatever flags it was compiled with. The check here is for a process that was forced.
#pragma once

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// Throws std::system_error (not supported) if the calling thread has a shadow stack.
void refuse_shadow_stack();

}  // namespace coir::detail
