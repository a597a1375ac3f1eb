// A fiber as it was at one moment, with a copy of its stack, taken while the program goes on.
//
// The copy is optimistic. What a blocked fiber consists of does not change before the fiber is claimed, and a claim
// changes its claim word. So: read the word, copy, read the word again. If it has the same generation and still says
// waiting, the copy is of one moment. A queued fiber has no such word while it yields again and again. Its stack is a
// guess (`certain` says so) that unwinding has to confirm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI::detail {

struct fiber;

/// The bytes of memory [address, address + bytes.size()), as they were. 8-byte aligned.
struct stack_copy {
  std::uintptr_t address = 0;
  std::vector<std::uint64_t> words;
  bool whole = false;  // up to the stack's top

  std::uintptr_t end() const noexcept { return address + words.size() * sizeof(std::uint64_t); }
};

struct fiber_snapshot {
  enum class state : std::uint8_t { running, queued, blocked };

  state is = state::running;
  bool certain = false;    // the stack, if there is one
  std::uint64_t word = 0;  // blocked: the claim word of the wait
  std::uint64_t id = 0;
  std::string name;
  const char* spawn_file = "?";
  std::uint32_t spawn_line = 0;
  wait_reason why{"nothing", nullptr};  // blocked
  std::int64_t since = 0;               // blocked: by scheduler::coarse_time()
  int thread = 0;                       // running: which, as the kernel names it
  stack_copy stack;                     // empty if it is running
};

/// False: there is no fiber on this control block. The caller keeps the runtime alive.
bool take_snapshot(fiber& f, fiber_snapshot& out);

/// A wait, without all that has to be copied.
struct wait_glimpse {
  std::uint64_t word;
  std::int64_t since;
  bool ends_by_itself;  // it has a deadline
};

/// Nothing if the fiber is not blocked.
std::optional<wait_glimpse> glimpse_wait(const fiber& f) noexcept;

}  // namespace coir::detail
