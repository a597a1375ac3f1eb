// The mix of operations: mostly plain transfers, since they make the waiting peers that the rare ones need.
#include "generate.hpp"

namespace coir_fuzz {

namespace {

unsigned random_width(entropy& choices, const mix& of, spelling how) {
  if (how == spelling::direct) return 1;
  // Now and then a select without any case, which waits for nothing.
  const unsigned dice = choices.below(16);
  if (dice == 15) return 0;
  if (how == spelling::statement) return 1 + choices.below(2);
  // The core does some things otherwise for more than 16 cases, and for more than 64.
  if (of.mostly_selects && dice > 11) return 1 + choices.below(80);
  return 1 + choices.below(5);
}

}  // namespace

operation random_operation(entropy& choices, const mix& of, std::uint64_t& last_number) {
  operation op;
  if (choices.below(32) == 31) {
    op.what = operation::action::close;
    op.channel = choices.below(of.channels);
    return op;
  }
  op.how = static_cast<spelling>(choices.below(3));
  if (of.mostly_selects && op.how == spelling::direct && choices.chance(50)) op.how = spelling::set;
  op.narrow = choices.chance(20);
  const unsigned cases = random_width(choices, of, op.how);
  for (unsigned i = 0; i < cases; ++i) {
    transfer t{choices.chance(50), choices.below(of.channels), 0};
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
  op.decoys = op.how == spelling::set && choices.chance(25);
  return op;
}

}  // namespace coir_fuzz
