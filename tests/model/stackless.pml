/* How a coroutine goes to sleep and is cancelled (runtime/include/coir/detail/stackless.hpp, runtime/async/stackless.cpp): it sleeps, and
   then waits at a primitive, or ends; carried by a new carrier each time; a claimer under the primitive's lock, the alarm of the
   sleep, which has no lock, a canceller that finds it in its runtime's list.

   All stores that matter are made under a lock or by atomic operations, so there are no store buffers here.
   Checked: exactly one claimer ends a wait, and it alone makes the coroutine runnable; it is never resumed while somebody is
   still in its frame; nothing is touched after it was freed; at the end it does not sleep if it was granted something, or
   cancelled.

   Weakened twins, which must fail: -DPUBLISH_IN_FRAME (in await_suspend()), -DUNLOCK_FIRST (the primitive's lock is released
   before the word says waiting), -DPUBLISH_LATE (after transit_ is released), -DWITHOUT_LOOK (the carrier does not look for a
   request), -DWITHOUT_TRANSIT (the next carrier does not take transit_), -DLEAVE_LATE (it is freed before it has left the list). */
#define idle 0
#define parking 1
#define waiting 2
#define fired 3
#define timed_out 4
#define cancelled 5

byte state = idle, generation = 0;
bool lock = false, transit = false, list = false;
bool carried = true, requested = false, request_made = false, queued = false, listed = true;
byte in_frame = 1, runnable = 0, grants = 0, granted = 0;
bool ended = false, freed = false;

inline take(l) { atomic { !l -> l = true } }

inline unpark() { d_step { assert(!freed && runnable == 0 && in_frame == 0); runnable++ } }

/* stackless::sleep(), by a carrier that has come back from resume() */
proctype carrier(bool locked) {
  bool refused = false;
#ifndef PUBLISH_IN_FRAME
  in_frame--;
#endif
#ifdef UNLOCK_FIRST
  if
  :: locked -> lock = false
  :: else
  fi;
#endif
  take(transit);
  carried = false;
#ifndef WITHOUT_LOOK
  refused = requested;
#endif
#ifdef PUBLISH_LATE
  transit = false;
#endif
  assert(!freed);
#ifdef PUBLISH_IN_FRAME
  refused = false;
  state = waiting;
  in_frame--;
#else
  if
  :: refused -> state = cancelled
  :: else -> state = waiting
  fi;
#endif
#ifndef PUBLISH_LATE
  assert(!freed);
  transit = false;
#endif
#ifndef UNLOCK_FIRST
  if
  :: locked -> lock = false
  :: else
  fi;
#endif
  if
  :: refused -> unpark()
  :: else
  fi
}

proctype coroutine() {
  byte wait = 0;
  do
  :: wait < 2 ->
    wait++;
    if
    :: wait == 2 -> take(lock)
    :: else
    fi;
    d_step { state = parking; generation++ };
    if
    :: requested -> /* begin_wait() refuses */
      state = idle;
      if
      :: wait == 2 -> lock = false
      :: else
      fi;
      break
    :: true /* it is a hint: the request may have come just after */
    fi;
    if
    :: wait == 2 -> queued = true
    :: else
    fi;
    run carrier(wait == 2);
end_asleep:
    atomic { runnable == 1 -> runnable = 0; in_frame++; assert(in_frame == 1) };
#ifndef WITHOUT_TRANSIT
    take(transit);
    carried = true;
    transit = false;
#else
    carried = true;
#endif
    if
    :: state == fired -> granted++
    :: state == timed_out
    :: state == cancelled ->
      if
      :: wait == 2 -> take(lock); queued = false; lock = false
      :: else
      fi;
      break
    fi
  :: wait > 0 -> break
  od;
  ended = true;
#ifndef LEAVE_LATE
  take(list);
  listed = false;
  list = false;
#endif
  freed = true
#ifdef LEAVE_LATE
  ;
  take(list);
  listed = false;
  list = false
#endif
}

proctype claimer() {
  byte round = 0;
  bool won;
  do
  :: round < 2 ->
    round++;
    won = false;
    take(lock);
    if
    :: queued ->
      queued = false;
      atomic {
        if
        :: state == waiting -> state = fired; won = true; grants++
        :: else -> assert(state != parking) /* it would be skipped, and forgotten */
        fi
      }
    :: else
    fi;
    lock = false;
    if
    :: won -> unpark()
    :: else
    fi
  :: round == 2 -> break
  od
}

/* claim_from_outside(): waits out `parking` */
proctype alarm() {
  if
  :: atomic { generation == 1 && state == waiting -> state = timed_out };
    unpark()
  :: generation > 1 || ended || (generation == 1 && state > waiting)
  fi
}

proctype canceller() {
  bool won = false;
  take(list);
  if
  :: listed ->
    assert(!freed);
    take(transit);
    requested = true;
    if
    :: carried /* cancels the carrier, if that blocks */
    :: else ->
      atomic {
        if
        :: state == waiting -> state = cancelled; won = true
        :: else
        fi
      }
    fi;
    assert(!freed);
    transit = false;
    if
    :: won -> unpark()
    :: else
    fi
  :: else
  fi;
  request_made = requested;
  list = false
}

active proctype observer() {
  atomic {
    run coroutine();
    run claimer();
    run alarm();
    run canceller()
  };
  timeout;
  assert(ended || (!request_made && runnable == 0 && state == waiting && grants == granted))
}
