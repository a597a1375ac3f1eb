// The episodes that random programs are made of: each is a small program with books that must balance, played by a
// crew, which may play further ones meanwhile. Every one of them ends by itself: a lost wake-up is a hang.
#pragma once

#include "crew.hpp"

namespace stress {

/// Draws one and plays it. Throws `cancelled` in a cancelled fiber, unless the place is whole.
void play(place& p);

// channel_episodes.cpp
void pipeline(place& p);
void crossed_selects(place& p);
void coroutine_pipeline(place& p);
void ticks(place& p);

// lock_episodes.cpp
void counters_under_locks(place& p);
void bounded_queue(place& p);
void permits(place& p);

// phase_episodes.cpp
void phases(place& p);
void only_once(place& p);
void wait_groups(place& p);
void one_flight(place& p);

// ending_episodes.cpp
void failing_group(place& p);
void nested_timeouts(place& p);
void contexts(place& p);
void stopped_tasks(place& p);

// solo_episodes.cpp
void generators(place& p);
void locals(place& p);
void hostage(place& p);

}  // namespace stress
