// The mix of operations: mostly plain transfers, since they make the waiting peers that the rare ones need.
#include "generate.hpp"

namespace coir_fuzz {

operation random_operation(entropy& choices, unsigned channels, std::uint64_t& last_number) {
  operation op;
  if (choices.below(32) == 31) {
    op.what = operation::action::close;
    op.channel = choices.below(channels);
    return op;
  }
  op.how = static_cast<spelling>(choices.below(3));
  op.narrow = choices.chance(20);
  // Now and then a select without any case, which waits for nothing.
  unsigned cases = 1;
  if (op.how != spelling::direct && choices.below(16) == 15)
    cases = 0;
  else if (op.how != spelling::direct)
    cases += choices.below(op.how == spelling::statement ? 2 : 5);
  for (unsigned i = 0; i < cases; ++i) {
    transfer t{choices.chance(50), choices.below(channels), 0};
    if (t.is_send) t.number = ++last_number;
    op.cases.push_back(t);
  }
  // What happens when no case is ready. Not otherwise and a limit: the limit would never matter.
  const unsigned way_out = choices.below(12);
  op.otherwise = way_out < 2;
  if (way_out == 2) op.limit = time_limit::past;
  if (way_out == 3) op.limit = time_limit::soon;
  if (way_out == 4) op.limit = time_limit::far;
  const bool taken = op.otherwise || op.limit != time_limit::none;
  if (op.how != spelling::direct && !(op.how == spelling::statement && taken) && choices.chance(20))
    op.stop = static_cast<int>(choices.below(stop_sources));
  return op;
}

}  // namespace coir_fuzz
