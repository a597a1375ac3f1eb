// One explore() or replay(): runs schedules on an engine until one fails, shrinks that, plays it once more to observe
// it, and writes the report.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/explore.hpp>

#include "choices.hpp"
#include "engine.hpp"
#include "progress.hpp"
#include "watchdog.hpp"

namespace coir::inline COIR_ABI::detail {

/// The values of the environment variables. Throws std::invalid_argument.
struct overrides {
  overrides();

  std::optional<schedule> replayed;
  std::optional<std::uint64_t> schedules;
  std::optional<std::uint64_t> seed;
};

class session {
 public:
  /// Throws std::logic_error inside a fiber.
  session(const explore_options& o, const std::function<void()>& f, source_location at);

  exploration explore();
  exploration replay(const schedule& s);

 private:
  const outcome& play(const std::vector<std::uint32_t>& taken);
  exploration fail(outcome failed);
  exploration nondeterministic(const outcome& first, const std::string& how);
  bool repeats(const outcome& first);
  exploration finish(const outcome& o, const std::string& note);

  const explore_options options_;
  const std::function<void()>& f_;
  const source_location at_;
  engine engine_;
  watchdog watchdog_;
  std::uint64_t run_ = 0;  // schedules
};

}  // namespace coir::detail
