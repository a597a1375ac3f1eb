// The identity of a fiber. It is unique in the process, never reused, totally ordered and printable. A
// default-constructed fiber_id belongs to no fiber.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

/// Identifies a fiber. A value that can be compared, hashed and printed.
class fiber_id {
 public:
  constexpr fiber_id() noexcept = default;
  /// The id with that number.
  constexpr explicit fiber_id(std::uint64_t number) noexcept : number_(number) {}

  /// As reports and dumps show it. 0: no fiber.
  constexpr std::uint64_t number() const noexcept { return number_; }
  // NOLINTNEXTLINE(modernize-use-nullptr): of what the compiler makes of it
  friend constexpr auto operator<=>(fiber_id, fiber_id) noexcept = default;
  friend std::ostream& operator<<(std::ostream& out, fiber_id id) { return out << id.number_; }

 private:
  std::uint64_t number_ = 0;
};

}  // namespace coir

template <>
struct std::hash<coir::fiber_id> {
  std::size_t operator()(coir::fiber_id id) const noexcept { return std::hash<std::uint64_t>{}(id.number()); }
};
