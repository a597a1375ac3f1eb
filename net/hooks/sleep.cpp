// nanosleep() and its kin. A fiber that is cancelled wakes early. It gets ECANCELED, and the rest of the time where the
// call tells that.
#include <algorithm>
#include <ctime>

#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "fiber_call.hpp"
#include "original.hpp"

namespace coir::inline COIR_ABI::hooks {

namespace {

constinit original<int(const ::timespec*, ::timespec*)> libc_nanosleep{"nanosleep"};
constinit original<int(::clockid_t, int, const ::timespec*, ::timespec*)> libc_clock_nanosleep{"clock_nanosleep"};
constinit original<int(::useconds_t)> libc_usleep{"usleep"};
constinit original<unsigned(unsigned)> libc_sleep{"sleep"};

[[gnu::constructor]] void find_all() {
  libc_nanosleep.find();
  libc_clock_nanosleep.find();
  libc_usleep.find();
  libc_sleep.find();
}

constexpr std::int64_t second = 1'000'000'000;

/// Sleeps; returns 0, or -ECANCELED, with the rest.
result sleep_in_fiber(const hook_services& runtime, const ::timespec& time, ::timespec* rest) noexcept {
  const deadline until = after(runtime, time);
  if (runtime.sleep(until) != hook_wake::cancelled) return 0;
  const deadline left = std::max<deadline>(until - runtime.now(), 0);
  if (rest != nullptr) *rest = {left / second, left % second};
  return -ECANCELED;
}

/// The time until `then`. If it is not positive, `then` is past.
::timespec time_until(::clockid_t clock, const ::timespec& then) noexcept {
  ::timespec now{};
  ::clock_gettime(clock, &now);
  ::timespec left{then.tv_sec - now.tv_sec, then.tv_nsec - now.tv_nsec};
  if (left.tv_nsec < 0) left = {left.tv_sec - 1, left.tv_nsec + second};
  return left;
}

result sleep_until(const hook_services& runtime, ::clockid_t clock, const ::timespec& then) noexcept {
  for (;;) {
    const ::timespec left = time_until(clock, then);
    if (left.tv_sec < 0 || (left.tv_sec == 0 && left.tv_nsec == 0)) return 0;
    const result r = sleep_in_fiber(runtime, left, nullptr);
    // The other clocks may be set back meanwhile.
    if (r != 0 || clock == CLOCK_MONOTONIC) return r;
  }
}

constexpr bool is_wall_clock(::clockid_t clock) noexcept {
  return clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME || clock == CLOCK_TAI;
}

constexpr bool is_zero(const ::timespec& time) noexcept { return time.tv_sec == 0 && time.tv_nsec == 0; }

}  // namespace

}  // namespace coir::hooks

using namespace coir::hooks;

#pragma GCC visibility push(default)
extern "C" {

int nanosleep(const ::timespec* time, ::timespec* rest) {
  const auto* const runtime = fiber_runtime();
  if (runtime == nullptr || time == nullptr || !is_valid(time) || is_zero(*time)) return libc_nanosleep(time, rest);
  const int before = errno;
  return static_cast<int>(returned(sleep_in_fiber(*runtime, *time, rest), before));
}

// Returns the error, and leaves errno alone.
int clock_nanosleep(::clockid_t clock, int flags, const ::timespec* time, ::timespec* rest) {
  const auto* const runtime = is_wall_clock(clock) ? fiber_runtime() : nullptr;
  if (runtime == nullptr || time == nullptr || !is_valid(time) || (flags & ~TIMER_ABSTIME) != 0 || is_zero(*time))
    return libc_clock_nanosleep(clock, flags, time, rest);
  return static_cast<int>(
      -(flags == TIMER_ABSTIME ? sleep_until(*runtime, clock, *time) : sleep_in_fiber(*runtime, *time, rest)));
}

int usleep(::useconds_t time) {
  const auto* const runtime = time != 0 ? fiber_runtime() : nullptr;
  if (runtime == nullptr) return libc_usleep(time);
  const int before = errno;
  const ::timespec t{time / 1'000'000, time % 1'000'000 * 1000L};
  return static_cast<int>(returned(sleep_in_fiber(*runtime, t, nullptr), before));
}

// Returns the seconds that are left, rounded up.
unsigned sleep(unsigned seconds) {
  const auto* const runtime = seconds != 0 ? fiber_runtime() : nullptr;
  if (runtime == nullptr) return libc_sleep(seconds);
  const int before = errno;
  ::timespec rest{};
  const auto r = sleep_in_fiber(*runtime, {static_cast<::time_t>(seconds), 0}, &rest);
  returned(r, before);
  return r == 0 ? 0 : static_cast<unsigned>(rest.tv_sec + (rest.tv_nsec != 0 ? 1 : 0));
}

}  // extern "C"
#pragma GCC visibility pop
