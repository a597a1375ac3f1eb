// For debuggers: a table of the layout of the library's structures, so that they need no debug information; and gdb's
// script, runtime/observe/gdb/coir-gdb.py, which reads it. Both are constant, and cost a running program nothing.
//
// The order of the table is that of FIELDS in the script. A change of the order or of the meaning changes both
// versions.
#include <cstddef>
#include <cstdint>

#include <coir/detail/abi.hpp>

#include "fiber/fiber.hpp"
#include "fiber/waiter_access.hpp"
#include "sched/registry.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

constinit const void* runtimes_for_debuggers = nullptr;

struct debug_table {
  std::uint64_t version;
  const void* const* runtimes;
  std::uint64_t offsets[16];
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
struct debug_layout {
  static constexpr debug_table make() noexcept {
    return {3,
            &runtimes_for_debuggers,
            {
                offsetof(scheduler, serial_),
                offsetof(scheduler, stacks_) + offsetof(fiber_stacks, common_) + offsetof(stack_pool, fibers_),
                offsetof(scheduler, stacks_) + offsetof(fiber_stacks, sized_) + offsetof(sized_stacks, fibers_),
                offsetof(scheduler, idle_) + offsetof(idle_set, coarse_time_),
                offsetof(fiber, state),
                offsetof(fiber, wait) + waiter_access::offset_of_word(),
                offsetof(fiber, suspended),
                offsetof(fiber, why) + offsetof(wait_reason, what),
                offsetof(fiber, why) + offsetof(wait_reason, on),
                offsetof(fiber, since),
                offsetof(fiber, spawn_file),
                offsetof(fiber, line),
                offsetof(fiber, id),
                offsetof(fiber, name) + offsetof(fiber_name, text_),
                offsetof(fiber, on),
                offsetof(worker, thread_id),
            }};
  }
};
#pragma GCC diagnostic pop

}  // namespace coir::detail

extern "C" {
extern const coir::detail::debug_table coir_debug_table;
[[gnu::used]] constinit const coir::detail::debug_table coir_debug_table = coir::detail::debug_layout::make();
}

#if defined(COIR_GDB_SCRIPT)  // but for tests that compile the sources once more
// A script as text: 4, its name, a line feed, the text, zero.
asm(R"(
    .pushsection ".debug_gdb_scripts", "MS", %progbits, 1
    .byte 4
    .ascii "coir-gdb.py\n"
    .incbin ")" COIR_GDB_SCRIPT R"("
    .byte 0
    .popsection
)");
#endif
