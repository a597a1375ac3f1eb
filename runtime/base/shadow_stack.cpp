#include "base/shadow_stack.hpp"

#include <cstdint>
#include <system_error>

#include <sys/syscall.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

#if defined(__x86_64__)
namespace {

// Linux 6.6 and later; <asm/prctl.h> of Debian 12 does not have them.
constexpr int arch_shstk_status = 0x5005;
constexpr std::uint64_t shadow_stack_is_on = 1;

}  // namespace

void refuse_shadow_stack() {
  std::uint64_t features = 0;
  if (::syscall(SYS_arch_prctl, arch_shstk_status, &features) != 0) return;  // the kernel has none
  if ((features & shadow_stack_is_on) != 0)
    throw std::system_error(std::make_error_code(std::errc::not_supported),
                            "coir: shadow stacks are on in this process, and fibers cannot run with them; leave "
                            "x86_shstk out of GLIBC_TUNABLES");
}
#else
void refuse_shadow_stack() {}
#endif

}  // namespace coir::detail
