// How much work each row is, and on what: for coir and for the peers in C++. peers/go has the same figures.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace bench {

inline constexpr int spawned_fibers = 1'000'000;
inline constexpr int parked_fibers = 1'000'000;
inline constexpr int yields = 10'000'000;
inline constexpr int round_trips = 2'000'000;
inline constexpr int buffered_values = 10'000'000;
inline constexpr int unbuffered_values = 4'000'000;
inline constexpr int selected_values = 2'000'000;

inline constexpr int lockings = 8'000'000;            // of a mutex, a semaphore, a shared_mutex
inline constexpr int contended_lockings = 1'000'000;  // by eight fibers, of a semaphore or a shared_mutex
inline constexpr int permits = 3;                     // Boost.Fiber's buffered channel holds a power of two less one
inline constexpr int lockings_a_write = 16;           // of a shared_mutex; the others are reads

inline constexpr std::int64_t skynet_leaves = 1'000'000;
inline constexpr std::int64_t skynet_fan_out = 10;
inline constexpr int sieve_primes = 2'000;
inline constexpr int last_prime = 17'389;
inline constexpr std::size_t ring_fibers = 1'000;
inline constexpr int hops = 2'000'000;

inline constexpr int timers_in_turn = 1'000'000;
inline constexpr int timer_resets = 2'000'000;
inline constexpr int timers_at_once = 100'000;
inline constexpr int timer_batches = 5;  // of timers_at_once, one after the other
inline constexpr int generated_values = 4'000'000;

inline constexpr std::size_t parallel_bodies = 10'000'000;
inline constexpr std::uint64_t sum_of_scrambled = 18'301'005'220'854'878'917U;  // modulo 2^64
inline constexpr std::uint64_t sum_of_low_halves = 21'476'013'663'834'821;
inline constexpr std::size_t sorted_numbers = 10'000'000;
inline constexpr std::int64_t sum_of_numbers = 10'735'976'483'140'018;
inline constexpr std::size_t least_piece = 2;            // of merge_sort: sorted without more fibers
inline constexpr std::size_t sequential_piece = 10'000;  // of merge_sort_pieces

inline constexpr int echo_clients = 64;
inline constexpr int echoes_a_client = 1'500;
inline constexpr std::size_t echo_size = 64;  // bytes

inline constexpr int sleeping_fibers = 100'000;
inline constexpr int idle_fibers = 100;

/// 0 to 200 ms, evenly spread and in scattered order.
inline std::chrono::microseconds sleep_time(int fiber) {
  return std::chrono::microseconds(std::int64_t{fiber} * 7919 % sleeping_fibers * 2);
}

/// From an hour on, as scattered.
inline std::chrono::milliseconds timer_time(int timer) {
  return std::chrono::hours(1) + std::chrono::milliseconds(std::int64_t{timer} * 7919 % timers_at_once);
}

/// What generators yield: cheap, and no compiler foresees it.
constexpr std::uint64_t successor(std::uint64_t v) { return v * 5 + 1; }

inline std::uint64_t last_generated_value() {
  std::uint64_t v = 0;
  for (int i = 0; i < generated_values; ++i) v = successor(v);
  return v;
}

}  // namespace bench
