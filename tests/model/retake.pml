/* Retaking a processor (runtime/sched/retake.cpp, processor::move_to, worker::enter): the monitor takes it from the worker that holds
   it and gives it to the other one, back and forth. A worker enters and leaves as it likes; once it finds that the processor is
   gone it sleeps until it is handed one.
   Checked: nobody is ever inside together with anybody else, and who comes in sees all that was done inside before.

   Weakened twins, each of which must fail: -DWITHOUT_HEAVY_FENCE, -DFORGETS_RETAKEN (the loser's interrupt goes back to 0),
   -DWAKES_FIRST (the successor is woken before it has been told what it holds), -DCLEARS_LATE (the successor's own `retaken`, of
   the last time, goes only after it was woken), and with -DARM also -DRELAXED_LEAVE and -DRELAXED_WAKE. */
#define THREADS 3
#define MONITOR 2
#define DEPTH 6

/* of each worker */
#define IN_RUNTIME(w) (w)
#define STEPPED_ASIDE(w) (2 + w)
#define INTERRUPT(w) (4 + w)
#define HELD(w) (6 + w)
#define AWAKE(w) (8 + w)
/* what belongs to the processor */
#define DATA 10
#define CELLS 11

#define RETAKEN 9

#ifndef RETAKES
#define RETAKES 2
#endif
#ifndef ENTRIES
#define ENTRIES 2
#endif

#include "store_buffer.pml"

bool asleep[2]; /* idle_set::sleepers_, under its lock: only from there comes a successor */
byte owner = 0;
byte inside = 0;
byte done_inside = 0;

inline touch(me) {
  atomic { inside++; assert(inside == 1) };
  load(me, DATA, data, at);
  assert(data == done_inside);
  d_step { done_inside++; data++ };
  store(me, DATA, data);
  inside--
}

proctype worker(byte me) {
  byte at, seen, data, handed = 0, entries = 0;
sleep:
  asleep[me] = true;
end_asleep:
  atomic { memory[AWAKE(me)] > handed /* the futex */ -> handed = memory[AWAKE(me)] };
  do
  :: entries < ENTRIES ->
    entries++;
    /* enter() */
    store(me, IN_RUNTIME(me), 1);
    load(me, INTERRUPT(me), seen, at);
    do
    :: seen == 0 -> break
    :: seen == RETAKEN -> store_release(me, IN_RUNTIME(me), 0); goto lost
    :: else ->
      store_release(me, IN_RUNTIME(me), 0);
      do
      :: load(me, INTERRUPT(me), seen, at);
        if
        :: seen == 0 || seen == RETAKEN -> break
        :: else -> store_release(me, STEPPED_ASIDE(me), seen)
        fi
      od;
      if
      :: seen == RETAKEN -> goto lost
      :: else
      fi;
      store(me, IN_RUNTIME(me), 1);
      load(me, INTERRUPT(me), seen, at)
    od;
    load(me, HELD(me), seen, at);
    assert(seen == 1);
    touch(me);
    /* leave() */
#ifdef RELAXED_LEAVE
    store(me, IN_RUNTIME(me), 0)
#else
    store_release(me, IN_RUNTIME(me), 0)
#endif
  :: true -> goto computes /* or blocks its thread, for good */
  od;
lost:
  assert(owner != me);
  goto sleep;
computes:
  skip
}

inline hand_to(w) {
#ifndef CLEARS_LATE
  store(MONITOR, INTERRUPT(w), 0);
#endif
#ifdef WAKES_FIRST
  store_release(MONITOR, AWAKE(w), round + 1);
  store(MONITOR, HELD(w), 1)
#else
  store(MONITOR, HELD(w), 1);
#ifdef RELAXED_WAKE
  store(MONITOR, AWAKE(w), round + 1)
#else
  store_release(MONITOR, AWAKE(w), round + 1)
#endif
#endif
#ifdef CLEARS_LATE
  ;
  store(MONITOR, INTERRUPT(w), 0)
#endif
}

proctype monitor() {
  byte at, seen, data, round = 0, loser, ticket = 0;
  atomic { asleep[0] -> asleep[0] = false };
  hand_to(0);
  do
  :: round < RETAKES && asleep[1 - owner] ->
    round++;
    ticket++;
    /* try_lock() */
    store(MONITOR, INTERRUPT(owner), ticket);
    do
    :: load(MONITOR, STEPPED_ASIDE(owner), seen, at);
      if
      :: seen == ticket -> goto locked
      :: else
      fi
    :: break
    od;
    drained(MONITOR);
#ifndef WITHOUT_HEAVY_FENCE
    drained(owner);
#endif
    do
    :: load(MONITOR, IN_RUNTIME(owner), seen, at);
      if
      :: seen == 0 -> goto locked
      :: else
      fi
    :: break
    od;
    store_release(MONITOR, INTERRUPT(owner), 0);
    goto next;
locked:
    touch(MONITOR);
    /* move_to() */
    loser = owner;
    d_step { owner = 1 - loser; asleep[owner] = false };
    store(MONITOR, HELD(loser), 0);
#ifdef FORGETS_RETAKEN
    store_release(MONITOR, INTERRUPT(loser), 0);
#else
    store_release(MONITOR, INTERRUPT(loser), RETAKEN);
#endif
    hand_to(owner);
next:
    skip
  :: true -> break
  od
}

init {
  atomic {
    run worker(0);
    run worker(1);
    run monitor()
  }
}
