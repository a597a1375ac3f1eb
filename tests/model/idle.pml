/* The idle protocol: pushing, searching, going to sleep, waking; and the monitor (runtime/idle.cpp, monitor.cpp, inject() and
   make_ready() in scheduler.cpp). A fiber that has been picked may compute for ever: then nothing but these rules can get the
   other ones run.

   Checked, when nothing moves any more: if a fiber waits, no processor is idle.

   Three scenarios, two or three processors each:
     LIGHT    a worker pushes a fresh fiber behind a light fence, and computes on; another is about to go to sleep. Without
              the monitor: the fences and the recheck alone must do.
     FOREIGN  two foreign threads push into the injection queue; all workers are asleep or about to be. The monitor sleeps.
     MONITOR  a worker is woken while the monitor is about to sleep, leaves fibers in `next` and in its fresh ring, and
              computes on; the others search, take something, and compute or go to sleep.
   Searchers may overlook anything but the injection queue: the thrifty rules of stealing make them.

   Weakened twins, which must fail:
     LIGHT    -DWITHOUT_HEAVY_FENCE, -DWITHOUT_RECHECK
     FOREIGN  -DWITHOUT_RECHECK, -DWITHOUT_INJECT_FENCE, -DWITHOUT_CHAIN (who found work wakes no further searcher),
              -DWITHOUT_SEARCHING_AGAIN (who takes a processor back at the recheck does not count as searching),
              -DLATE_DECREMENT (wake_one() that finds nobody gives searching_ back after idle_lock_)
     MONITOR  -DWITHOUT_WAKE_BY_IDLER (who goes idle beside a busy processor does not wake the monitor),
              -DWITHOUT_WAKE_BY_OFFER (a push that a searcher may have overlooked does not), -DWITHOUT_WAKE_BY_NEXT (nor does
              a fiber left in `next`) */
#define PUSHER 0
#if defined(FOREIGN)
#define THREADS 2
#define WORKERS 2
#define BUSY_FOREVER 0
#elif defined(LIGHT)
#define THREADS 1
#define WORKERS 1
#define BUSY_FOREVER 1
#else
#define MONITOR_EXISTS
#define THREADS 1
#define WORKERS 2
#define BUSY_FOREVER 1
#endif
#define PROCESSORS (WORKERS + BUSY_FOREVER)
#define DEPTH 4

/* Written by the pusher, seen by others late. */
#define TAIL 0
#define NEXT 1
#define INJECTED 2 /* and 3: one cell for each foreign thread, so that pushes need no lock here */
#define CELLS 4
#include "store_buffer.pml"

byte head = 0;     /* of the pusher's fresh ring; written by thieves that hold its processor */
byte idle = 0;     /* idle_ */
byte searching = 0; /* searching_ */
bool asleep[WORKERS]; /* in sleepers_ */
bool held[WORKERS];
bool counted[WORKERS]; /* worker::searching */
bool computing[WORKERS];
bool monitor_asleep = false;
bool pusher_idle = false;

#define injected (memory[INJECTED] + memory[INJECTED + 1])
#define fresh (memory[TAIL] - head)

/* Under idle_lock_, which is atomic here. */
inline hand_over(s) {
  asleep[s] = false;
  held[s] = true;
  counted[s] = true;
  idle--
}

inline wake_one() {
  if
  :: atomic { searching == 0 -> searching = 1 };
    if
    :: atomic { idle > 0 && asleep[0] -> hand_over(0) }
#if WORKERS > 1
    :: atomic { idle > 0 && asleep[1] -> hand_over(1) }
#endif
#ifdef LATE_DECREMENT
    :: !(idle > 0 && (asleep[0] || asleep[WORKERS - 1])) -> skip; searching--
#else
    :: atomic { !(idle > 0 && (asleep[0] || asleep[WORKERS - 1])) -> searching-- }
#endif
    fi
  :: searching != 0
  fi
}

inline wake_monitor() {
  if
  :: atomic { monitor_asleep -> monitor_asleep = false }
  :: !monitor_asleep
  fi
}

proctype worker(byte me) {
  bool last;
end_at_first:
  held[me];
  do
  :: /* find_work(), holding a processor; own queues are empty, pick() looks at the injection queue */
    if
    :: d_step { memory[INJECTED] > 0 -> memory[INJECTED]-- } -> goto found
    :: d_step { memory[INJECTED + 1] > 0 -> memory[INJECTED + 1]-- } -> goto found
    :: injected == 0
    fi;
    if
    :: !counted[me] -> /* search() */
      if
      :: atomic { searching * 2 < PROCESSORS - idle -> searching++; counted[me] = true }
      :: searching * 2 >= PROCESSORS - idle -> goto release
      fi
    :: else
    fi;
    if
    /* steal_from(): who holds the processor of another sees all that was pushed there */
    :: d_step { drained(PUSHER) && fresh > 0 -> head++ } -> goto found
    :: d_step { drained(PUSHER) && memory[NEXT] > 0 -> memory[NEXT] = 0 } -> goto found
    :: true
    fi;
release:
    /* release_and_sleep() */
    atomic { held[me] = false; asleep[me] = true; idle++; last = counted[me]; counted[me] = false };
    if
    :: last -> searching--
    :: else
    fi;
#ifndef WITHOUT_HEAVY_FENCE
    drained(PUSHER);
#endif
#ifndef WITHOUT_RECHECK
    if
    :: injected + fresh > 0 -> /* take_idle_processor() */
      atomic {
        if
        :: !held[me] && idle > 0 ->
          asleep[me] = false;
          held[me] = true;
          idle--;
#ifndef WITHOUT_SEARCHING_AGAIN
          searching++;
          counted[me] = true
#endif
        :: else
        fi
      };
    :: else
    fi;
#endif
#ifdef MONITOR_EXISTS
#ifndef WITHOUT_WAKE_BY_IDLER
    if
    :: !held[me] && idle != PROCESSORS -> wake_monitor()
    :: else
    fi;
#endif
#endif
end_asleep:
    held[me];
    goto again;
found:
    if
    :: counted[me] -> /* stop_searching(found) */
      counted[me] = false;
      atomic { last = (searching == 1); searching-- };
#ifndef WITHOUT_CHAIN
      if
      :: last && idle != 0 ->
        if
        :: injected + fresh > 0 -> wake_one()
        :: else
        fi
      :: else
      fi
#endif
    :: else
    fi;
    if
    :: true -> computing[me] = true; break
    :: true /* it ends, or parks */
    fi;
again:
    last = false
  od
}

/* A worker that runs one fiber for ever, which starts others or wakes them. */
proctype pusher() {
  byte seen, at;
  byte pushed = 0;
  byte next_pushed = 0;
#ifdef MONITOR_EXISTS
  if
  :: pusher_idle -> idle-- /* a timer or a foreign thread wakes it */
  :: !pusher_idle
  fi;
#endif
  do
  :: pushed < 2 ->
#ifdef LIGHT
    pushed = 2;
#else
    pushed++;
#endif
    if
    :: true -> /* start(): a fresh fiber */
      load(PUSHER, TAIL, seen, at);
      store(PUSHER, TAIL, seen + 1);
      if
      :: idle != 0 -> /* offer() */
        if
        :: searching != 0 ->
#ifndef WITHOUT_WAKE_BY_OFFER
          wake_monitor()
#else
          skip
#endif
        :: searching == 0 -> wake_one()
#ifdef MONITOR_EXISTS
        :: searching == 0 -> wake_monitor() /* woke somebody not long ago, in vain */
#endif
        fi
      :: idle == 0
      fi
#ifdef MONITOR_EXISTS
    :: next_pushed == 0 -> /* make_ready(): into `next` */
      next_pushed = 1;
      store(PUSHER, NEXT, 1);
#ifndef WITHOUT_WAKE_BY_NEXT
      if
      :: idle != 0 -> wake_monitor()
      :: idle == 0
      fi
#endif
#endif
    fi
  :: true -> break
  od
}

proctype foreign(byte me) {
  store(me, INJECTED + me, 1);
#ifndef WITHOUT_INJECT_FENCE
  drained(me);
#endif
  if
  :: idle != 0 -> wake_one()
  :: idle == 0
  fi
}

#ifdef MONITOR_EXISTS
proctype monitor() {
  if
  :: monitor_asleep -> goto end_asleep
  :: !monitor_asleep
  fi;
end:
  do
  :: idle == PROCESSORS -> /* nothing to poll for */
    monitor_asleep = true;
    drained(PUSHER);
    if
    :: idle == PROCESSORS ->
end_asleep:
      !monitor_asleep
    :: idle != PROCESSORS -> monitor_asleep = false
    fi
  /* look_after(); what it would see sooner or later */
  :: idle != 0 && idle != PROCESSORS && fresh + memory[NEXT] + injected > 0 -> wake_one()
  od
}
#endif

init {
  atomic {
    byte w = 0;
    /* Each other worker is asleep, or has just run out of work, searching or not. */
    do
    :: w < WORKERS ->
      if
      :: asleep[w] = true; idle++
      :: held[w] = true
      :: held[w] = true; counted[w] = true; searching++
      fi;
      w++
    :: else -> break
    od;
#ifdef MONITOR_EXISTS
    /* The monitor may have gone to sleep while all were idle, and nobody needed to wake it since. */
    if
    :: pusher_idle = true; idle++
    :: true
    fi;
    if
    :: monitor_asleep = true
    :: true
    fi;
    run monitor();
#endif
    w = 0;
    do
    :: w < WORKERS -> run worker(w); w++
    :: else -> break
    od;
#ifdef FOREIGN
    run foreign(0);
    run foreign(1)
#else
    run pusher()
#endif
  };
  timeout; /* nothing moves any more */
  assert(fresh + memory[NEXT] + injected == 0 || idle == 0)
}
