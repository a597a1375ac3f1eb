#include <coir/detail/quicksort.hpp>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI::detail {

sort_crew::progress::progress() noexcept : turn_began_(now()) {}

bool sort_crew::look_up_now(progress& own) {
  own.sorted_ = 0;
  check_cancelled();
  end_turn(own.turn_began_, now());
  return processors_without_work() != 0;
}

}  // namespace coir::detail
