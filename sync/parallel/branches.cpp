#include <coir/detail/branches.hpp>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include <coir/detail/abi.hpp>
#include <coir/error.hpp>
#include <coir/task.hpp>

namespace coir::inline COIR_ABI::detail {

void race_track::join(task_group& racers) {
  try {
    racers.wait();
  } catch (const won&) {
  }
}

// The racers may have been unwound before their caller, by a deadlock or with their runtime.
void race_track::throw_failed() {
  throw_if_being_cancelled();
  throw race_failed(std::move(failures_));
}

namespace {

std::int64_t checked(std::size_t limit) {
  if (limit == 0) throw std::invalid_argument("coir: map_concurrently's limit is 0, which lets nothing run");
  return static_cast<std::int64_t>(std::min<std::size_t>(limit, INT64_MAX));
}

}  // namespace

map_crew::map_crew(std::size_t limit, source_location at)
    : room_(checked(limit)), at_(at), crew_("coir::map_concurrently") {}

}  // namespace coir::detail
