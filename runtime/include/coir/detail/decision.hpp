// Where an exploration (<coir/explore.hpp>) decides which fiber goes on: decide() stands before every operation that
// others could see, with no lock of the library held. In the ordinary library it is nothing. Not for users.
//
// The second flavour of the library, which coir::explore is, has COIR_EXPLORE defined in all its sources and in those
// that use it.
#pragma once

#include <cstdint>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// What is about to be done. The order is a part of the schedules' check sums: append.
enum class operation : std::uint8_t {
  spawn,
  join,
  look_at_task,
  stop_task,
  yield,
  send,
  receive,
  close,
  look_at_channel,
  select,
  lock,
  unlock,
  wait,
  notify,
  acquire,
  release,
  count_down,
  once,
  sleep,
  timer,
  cancel,
  look_at_context,
  settle,
  choose,
  fire_timer,
  input,
  output,
  bind,
  listen,
  connect,
  shut_down,
  hang_up,
  set_limit,
  arrive,
  split,
  delay,
  reset,
  cut_off,
  lose,
};

#if defined(COIR_EXPLORE)

inline constexpr bool explorable = true;

/// Throws std::logic_error on a plain thread while an exploration is under way.
void decide(operation what, const void* on = nullptr);

/// The calling fiber has looked for something and not found it, and may be about to look again: others go first.
void decide_after_poll(operation what, const void* on = nullptr);

/// Whether the caller runs in an exploration.
bool exploring() noexcept;

/// One of n > 0, in an exploration; may be called with locks held.
std::uint32_t choose_one_of(operation what, std::uint32_t n) noexcept;

/// In an exploration throws std::logic_error, which says that `what` cannot be had there.
void refuse_in_exploration(const char* what);

#else

inline constexpr bool explorable = false;

[[gnu::always_inline]] inline void decide(operation, const void* = nullptr) noexcept {}
[[gnu::always_inline]] inline void decide_after_poll(operation, const void* = nullptr) noexcept {}
[[gnu::always_inline]] inline bool exploring() noexcept { return false; }
[[gnu::always_inline]] inline std::uint32_t choose_one_of(operation, std::uint32_t) noexcept { return 0; }
[[gnu::always_inline]] inline void refuse_in_exploration(const char*) noexcept {}

#endif

}  // namespace coir::detail
