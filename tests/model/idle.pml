/* The idle protocol: pushing, searching, going to sleep, waking; and the monitor (runtime/sched/idle_set.hpp, idle.cpp, steal.cpp, wake.cpp, monitor.hpp, inject() and
   make_ready() in scheduler.cpp). A fiber that has been picked may compute for ever: then nothing but these rules can get the
   other ones run.

   Checked, when nothing moves any more: if a fiber waits, no processor is idle.

   Four scenarios, two or three processors each:
     LIGHT    a worker pushes a fresh fiber behind a light fence, and computes on; another is about to go to sleep. Without
              the monitor: the fences and the recheck alone must do.
     FOREIGN  two foreign threads push into the injection queue; all workers are asleep or about to be. The monitor sleeps.
     MONITOR  a worker is woken while the monitor is about to sleep, leaves fibers in `next` and in its fresh ring, and
              computes on; the others search, take something, and compute or go to sleep.
     HAND_OVER  three workers on two processors. One runs a fiber that blocks its thread: its processor is handed to a
              sleeper, which is not counted as searching (retake.cpp). The fiber, lost, makes another ready; then it takes
              an idle processor and computes, or parks, and its worker is a spare. A foreign thread pushes meanwhile.
   With -DCPUS=n there are fewer CPUs than processors, so that may_wake() refuses while n are busy:
     FOREIGN -DCPUS=1 -DALL_END         no fiber computes for ever: whoever ends has to find what was pushed meanwhile
     FOREIGN -DCPUS=1 -DMONITOR_EXISTS  they may; then the monitor wakes somebody though there is no CPU for one more
   Searchers may overlook anything but the injection queue: the thrifty rules of stealing make them.

   Weakened twins, which must fail:
     LIGHT    -DWITHOUT_HEAVY_FENCE, -DWITHOUT_RECHECK
     FOREIGN  -DWITHOUT_RECHECK, -DWITHOUT_INJECT_FENCE, -DWITHOUT_CHAIN (who found work wakes no further searcher),
              -DWITHOUT_SEARCHING_AGAIN (who takes a processor back at the recheck does not count as searching),
              -DLATE_DECREMENT (wake_one() that finds nobody gives searching_ back after the lock)
     MONITOR  -DWITHOUT_WAKE_BY_IDLER (who goes idle beside a busy processor does not wake the monitor),
              -DWITHOUT_WAKE_BY_OFFER (a push that wakes no worker, since the last one was woken in vain, does not), -DWITHOUT_WAKE_BY_NEXT (nor does
              a fiber left in `next` for which no worker is woken), -DWITHOUT_WAKE_BY_FINDER (a push that wakes a worker
              leaves the monitor to that one, which finds something else and does not wake it)
     HAND_OVER  -DWITHOUT_RECHECK, -DWITHOUT_SPARE_RECHECK (a lost worker that becomes a spare does not look again),
              -DWITHOUT_INJECT_FENCE
     with few CPUs  -DREFUSES_EARLY (who goes to sleep asks may_wake() before it counts as idle), -DWITHOUT_STANDSTILL (the
              monitor wakes nobody while as many are busy as there are CPUs), and some of the above */
#define PUSHER 0
#if defined(FOREIGN)
#define THREADS 2
#define WORKERS 2
#define BUSY_FOREVER 0
#elif defined(HAND_OVER)
#define THREADS 2
#define WORKERS 3
#define LOST 2  /* whose processor is taken */
#define SPARE 1 /* for whom there is none at first */
#define PROCESSORS 2
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
#ifndef PROCESSORS
#define PROCESSORS (WORKERS + BUSY_FOREVER)
#endif
#ifndef CPUS
#define CPUS PROCESSORS
#endif
#define DEPTH 4

/* Written by the pusher, seen by others late. */
#define TAIL 0
#define NEXT 1
#define INJECTED 2 /* and 3: one cell for each foreign thread, so that pushes need no lock here */
#define CELLS 4
#include "store_buffer.pml"

byte head = 0;     /* of the pusher's fresh ring; written by thieves that hold its processor */
byte idle = 0;     /* idle_set::word_ */
byte searching = 0; /* idle_set::searching_ */
bool asleep[WORKERS]; /* in idle_set::sleepers_ */
bool held[WORKERS];
bool counted[WORKERS]; /* worker::searching */
bool computing[WORKERS];
bool monitor_asleep = false;
bool pusher_idle = false;

#define injected (memory[INJECTED] + memory[INJECTED + 1])
#define fresh (memory[TAIL] - head)
#define may_wake (idle != 0 && PROCESSORS - idle < CPUS)
/* Of workers that hold a processor; the pusher computes always. */
#define stand_still ((!held[0] || computing[0]) && (WORKERS == 1 || !held[1] || computing[1]))

#if WORKERS > 2
#define somebody_asleep (asleep[0] || asleep[1] || asleep[2])
#else
#define somebody_asleep (asleep[0] || asleep[WORKERS - 1])
#endif

/* Under the idle set's lock, which is atomic here. */
inline hand_over(s) {
  asleep[s] = false;
  held[s] = true;
  counted[s] = true;
  idle--
}

/* `woke`: a worker has been woken. */
inline wake_one() {
  woke = false;
  if
  :: atomic { searching == 0 -> searching = 1 };
    if
    :: atomic { idle > 0 && asleep[0] -> hand_over(0); woke = true }
#if WORKERS > 1
    :: atomic { idle > 0 && asleep[1] -> hand_over(1); woke = true }
#endif
#if WORKERS > 2
    :: atomic { idle > 0 && asleep[2] -> hand_over(2); woke = true }
#endif
#ifdef LATE_DECREMENT
    :: !(idle > 0 && somebody_asleep) -> skip; searching--
#else
    :: atomic { !(idle > 0 && somebody_asleep) -> searching-- }
#endif
    fi
  :: searching != 0
  fi
}

/* offer(), offer_next(), inject(): the worker that is woken sees to the monitor. */
inline wake_one_or_monitor() {
  wake_one();
  if
  :: !woke -> wake_monitor()
  :: else
  fi
}

inline wake_monitor() {
  if
  :: atomic { monitor_asleep -> monitor_asleep = false }
  :: !monitor_asleep
  fi
}

/* inject(), by the store buffer and the cell of a thread that holds no processor */
inline inject(by) {
  store(by, INJECTED + by, 1);
#ifndef WITHOUT_INJECT_FENCE
  drained(by);
#endif
  if
  :: may_wake -> wake_one_or_monitor()
  :: !may_wake -> wake_monitor()
  fi
}

proctype worker(byte me) {
  bool last, woke, all_idle;
#ifdef REFUSES_EARLY
  bool early = true;
#endif
#ifdef HAND_OVER
  if
  :: me == LOST ->
end_not_lost:
    atomic { /* retake() */
      if
      :: asleep[0] -> asleep[0] = false; held[0] = true
      :: asleep[1] -> asleep[1] = false; held[1] = true
      fi;
      held[me] = false
    };
    inject(1);
    if
    :: atomic { idle > 0 -> idle--; held[me] = true; computing[me] = true }; /* take_idle_for() */
      goto computes
    :: asleep[me] = true; /* sleep_as_spare() */
#ifdef WITHOUT_SPARE_RECHECK
      goto end_asleep
#else
      goto sleep
#endif
    fi
  :: me == SPARE -> goto end_asleep
  :: else
  fi;
#endif
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
#ifdef REFUSES_EARLY
    early = may_wake;
#endif
    /* release_and_sleep() */
    atomic { held[me] = false; asleep[me] = true; idle++; all_idle = (idle == PROCESSORS); last = counted[me]; counted[me] = false };
    if
    :: last -> searching--
    :: else
    fi;
sleep:
#ifndef WITHOUT_HEAVY_FENCE
    if
    :: all_idle -> all_idle = false /* nobody holds a processor */
    :: else -> drained(PUSHER)
    fi;
#endif
#ifndef WITHOUT_RECHECK
#ifdef REFUSES_EARLY
    if
    :: early -> skip
    :: else -> goto no_work
    fi;
#else
    if
    :: may_wake -> skip
    :: else -> goto no_work
    fi;
#endif
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
no_work:
    skip;
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
#ifndef WITHOUT_WAKE_BY_FINDER
      wake_monitor();
#endif
#ifndef WITHOUT_CHAIN
      if
      :: last && may_wake ->
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
#ifndef ALL_END
    :: true -> computing[me] = true; break
#endif
    :: true /* it ends, or parks */
    fi;
again:
    last = false
  od;
computes:
  skip
}

/* A worker that runs one fiber for ever, which starts others or wakes them. */
proctype pusher() {
  byte seen, at;
  bool woke;
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
        :: searching != 0 -> skip /* the searcher sees to the monitor, whether it finds something or not */
        :: searching == 0 && may_wake -> wake_one_or_monitor()
        :: searching == 0 && idle == 0
#ifdef MONITOR_EXISTS
        :: searching == 0 -> /* woke somebody not long ago, in vain; or there is no CPU for one more */
#ifndef WITHOUT_WAKE_BY_OFFER
          wake_monitor()
#else
          skip
#endif
#endif
        fi
      :: idle == 0
      fi
#ifdef MONITOR_EXISTS
    :: next_pushed == 0 -> /* make_ready(): into `next` */
      next_pushed = 1;
      store(PUSHER, NEXT, 1);
      if
      :: may_wake && searching == 0 -> wake_one_or_monitor() /* offer_next() */
#ifdef WITHOUT_WAKE_BY_NEXT
      :: idle != 0
#else
      :: idle != 0 -> wake_monitor() /* its waker is known to park soon, or somebody searches */
#endif
      :: idle == 0
      fi
#endif
    fi
  :: true -> break
  od
}

proctype foreign(byte me) {
  bool woke;
  inject(me)
}

#ifdef MONITOR_EXISTS
proctype monitor() {
  bool woke;
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
  /* monitor::look(); what it would see sooner or later */
  :: idle != 0 && idle != PROCESSORS && fresh + memory[NEXT] > 0 -> wake_one() /* behind the pusher, which stands still */
#ifdef WITHOUT_STANDSTILL
  :: idle != PROCESSORS && injected > 0 && may_wake -> wake_one()
#else
  :: idle != 0 && idle != PROCESSORS && injected > 0 && (may_wake || stand_still) -> wake_one()
#endif
  od
}
#endif

init {
  atomic {
    byte w = 0;
    /* Each other worker is asleep, or has just run out of work, searching or not. */
    do
#ifdef HAND_OVER
    :: w == SPARE -> asleep[w] = true; w++
    :: w == LOST -> held[w] = true; w++
    :: w < WORKERS && w != SPARE && w != LOST ->
#else
    :: w < WORKERS ->
#endif
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
#if BUSY_FOREVER
    if
    :: pusher_idle = true; idle++
    :: true
    fi;
#endif
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
#if defined(FOREIGN)
    run foreign(0);
    run foreign(1)
#elif defined(HAND_OVER)
    run foreign(0)
#else
    run pusher()
#endif
  };
  timeout; /* nothing moves any more */
  assert(fresh + memory[NEXT] + injected == 0 || idle == 0)
}
