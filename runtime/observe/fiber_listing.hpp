// Fibers as a list to be read: those that look alike (the same state, wait reason, spawn site and stack) are one entry.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/detail/stackless.hpp>
#include <coir/source_location.hpp>

#include "observe/fiber_snapshot.hpp"
#include "observe/stack_walk.hpp"

namespace coir::inline COIR_ABI::detail {

/// Used by one thread. Its members throw std::bad_alloc.
class fiber_listing {
 public:
  void add_runtime() noexcept { ++runtimes_; }

  /// Unwinds its stack. `now`: by the clock of its runtime.
  void add(fiber_snapshot& f, std::int64_t now);

  /// A coroutine or callback. Asleep they have no stack, and for how long is not known.
  void add(const stackless::view& s);

  void add_unstarted(const source_location& at) { ++unstarted_[{at.file_name(), at.line()}]; }
  void add_more_unstarted(std::size_t n) noexcept { more_unstarted_ += n; }

  /// How many there are, in which state, and the entries.
  void write(std::ostream& out);

  /// Writes the entries of started fibers, with an empty line before each.
  void write_entries(std::ostream& out);

 private:
  using state = fiber_snapshot::state;
  enum class sort : std::uint8_t { fiber, async, callback };

  /// What fibers of one entry have in common.
  struct likeness {
    state is;
    sort of;
    bool stack_is_whole;
    std::uint32_t spawn_line;
    std::string what;  // they wait on
    std::string spawn_file;
    std::vector<std::uintptr_t> stack;

    bool operator<(const likeness& other) const;
  };

  struct member {
    std::uint64_t id;
    int thread;
    std::string name;
  };

  struct group {
    std::vector<member> members;
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
    std::int64_t longest = 0;
    const void* on = nullptr;  // null: not the same for all
  };

  struct spawn_site {
    std::string file;
    std::uint32_t line;
    // NOLINTNEXTLINE(modernize-use-nullptr): the zero is in what the compiler makes of it
    friend auto operator<=>(const spawn_site&, const spawn_site&) = default;
  };

  static void write_ids(std::ostream& out, std::vector<member>& members);
  void write_group(std::ostream& out, const likeness& alike, group& g);

  unwinder calls_;
  std::size_t runtimes_ = 0;
  std::map<likeness, group> started_;
  std::map<spawn_site, std::size_t> unstarted_;
  std::size_t more_unstarted_ = 0;
};

/// "under 1 ms", "52 ms", "1.5 s", "3 min 7 s"
std::string duration_text(std::int64_t nanoseconds);

/// "1 fiber", "2 fibers"
std::string count_of(std::size_t n, const char* what);

}  // namespace coir::detail
