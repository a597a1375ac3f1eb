/* Who asks the kernel for events (runtime/sched/poller.hpp; idle.cpp: find_work(), ask_poller(), sleep(), sleep_in_poller(), deliver();
   wake.cpp: wake_searcher(), start_taken(); retake.cpp: hand_off(); monitor.cpp: watch_poller(); runtime.cpp: stop_threads()). One
   of the sleeping workers sleeps in epoll, and is woken by its bell; the others sleep on futexes.

   The first worker runs a fiber, which is the first of its runtime to wait for a descriptor; another sleeps, or is about to. One event
   comes at any time. A fiber ends, or computes for ever.
     (none)     one processor, one worker; a foreign thread makes a fiber runnable; the sleeper may also wake by itself (a deadline, a signal)
     BATCH      the same with two events, and nobody wakes by itself
     TWO        two processors, two workers
     HAND_OVER  one processor, two workers; a fiber waits in the injection queue. A fiber may also block its thread, for which its processor is
                handed to the other worker, and then park
   Fences are not the question here (idle.pml has them): steps are sequentially consistent, and what the idle set's lock guards is one
   step.

   Checked, when nothing moves any more: no event waits, and each has been delivered; no fiber waits beside an idle processor; if all processors are idle, somebody sleeps
   in epoll. No worker goes round and round with nothing to do. Then the runtime is stopped, if no fiber computes: all workers end.

   Weakened twins, which must fail:
     -DASK_TAKES_BELL         a worker that has run dry takes the bell, which is rung for a sleeper that has left, for an event
     -DBELL_WITHOUT_MEMORY    a ring that comes before the sleeper has entered epoll is lost
     -DRINGS_FUTEX            the sleeper in epoll is woken as the others are
     -DHELD_SEEN_EARLY        a sleeper looks whether it has been given a processor before it takes the lock to enter the poller
     -DKEEPS_POLLING          a sleeper that leaves with a processor still counts as the one in epoll
     -DNOBODY_POLLS           all sleep on futexes
     TWO -DWITHOUT_WATCH      the monitor does not look after the poller
     HAND_OVER -DDROPS_WITHOUT_PROCESSOR  what the sleeper in epoll has collected is not delivered if no processor is idle
     -DSTOPS_WITHOUT_RING     stop_threads() wakes futexes alone
   That the sleeper which leaves with a processor wakes the monitor is not needed here: a searcher that finds work does so. */
#if defined(TWO)
#define PROCESSORS 2
#define WORKERS 2
#define EVENTS 1
#elif defined(HAND_OVER)
#define PROCESSORS 1
#define WORKERS 2
#define EVENTS 1
#else
#define FOREIGN
#define PROCESSORS 1
#define WORKERS 1
#ifdef BATCH
#define EVENTS 2
#else
#define EVENTS 1
#endif
#endif
#define NOBODY 9

bool opened = false;  /* the runtime has an epoll */
byte pending = 0;     /* events that the kernel has for it */
bool bell = false;
byte to_come = EVENTS;

byte idle = 0;
bool held[2];
bool asleep[2]; /* in idle_set::sleepers_ */
bool counted[2];
bool awake[2]; /* the futex */
bool in_epoll[2];
bool computes[2];
byte polls = NOBODY; /* idle_set::poller_ */
byte searching = 0;
byte ready = 0;    /* what lies in the queues of processors: a searcher finds it */
byte injected = 0;
byte leaves = (WORKERS == 1 && EVENTS == 1 -> 1 : 0); /* so many wake by themselves */
bool monitor_asleep = false;
bool stopping = false;
byte ended = 0;
byte delivered = 0;

inline wake_monitor() { monitor_asleep = false }

/* idle_set::take_sleeper(): who sleeps in the poller comes last. */
inline take_sleeper(s) {
  if
  :: asleep[0] && polls != 0 -> s = 0
  :: asleep[1] && polls != 1 -> s = 1
  :: else ->
    if
    :: polls != NOBODY && asleep[polls] -> s = polls
    :: else -> s = NOBODY
    fi
  fi;
  if
  :: s != NOBODY -> asleep[s] = false; in_poller = (polls == s)
  :: else
  fi
}

/* start_taken() */
inline wake_taken(s) {
#ifdef RINGS_FUTEX
  d_step { awake[s] = true; s = NOBODY; in_poller = false }
#else
  if
#ifdef BELL_WITHOUT_MEMORY
  :: d_step { in_poller -> bell = in_epoll[s]; s = NOBODY; in_poller = false }
#else
  :: d_step { in_poller -> bell = true; s = NOBODY; in_poller = false }
#endif
  :: d_step { !in_poller -> awake[s] = true; s = NOBODY }
  fi
#endif
}

inline wake_one() {
  atomic {
    s = NOBODY;
    if
    :: searching == 0 && idle > 0 ->
      take_sleeper(s);
      if
      :: s != NOBODY -> held[s] = true; counted[s] = true; idle--; searching++
      :: else
      fi
    :: else
    fi
  };
  if
  :: s != NOBODY -> wake_taken(s)
  :: s == NOBODY
  fi
}

inline inject() {
  injected++;
  if
  :: idle > 0 -> wake_one()
  :: idle == 0
  fi;
  wake_monitor()
}

inline take_idle_processor(me) {
  atomic {
    if
    :: !held[me] && idle > 0 -> asleep[me] = false; held[me] = true; idle--; searching++; counted[me] = true
    :: else
    fi
  }
}

/* poller::collect(). A batch may be full (scheduler::room_for_events()): the rest stays in the kernel, and the bell may not be seen. */
inline collect() {
  atomic {
    if
    :: n = pending
    :: pending > 1 -> n = 1
    fi;
    pending = pending - n;
    if
    :: rung = bell
    :: n > 1 || pending > 0 -> rung = false
    fi
  }
}

inline deliver_from_outside() {
  do
  :: d_step { n > 0 -> n--; delivered++ }; inject()
  :: n == 0 -> break
  od
}

inline deliver(me) {
  d_step {
    if
    :: !counted[me] -> counted[me] = true; searching++
    :: else
    fi;
    ready = ready + n;
    delivered = delivered + n;
    n = 0
  }
}

proctype worker(byte me) {
  byte s = NOBODY;
  byte n, rounds;
  bool rung, in_poller, all_idle, last, first;
  first = (me == 0);
  if
  :: first -> goto run_fiber
  :: else
  fi;
  if
  :: held[me] -> goto find_work
  :: else -> goto sleep
  fi;
find_work:
  assert(rounds < 3);
  if
  :: atomic { ready > 0 -> ready-- } -> goto found
  :: atomic { injected > 0 -> injected-- } -> goto found
  :: ready + injected == 0
  fi;
  if
  :: opened && polls == NOBODY -> /* ask_poller() */
    collect();
    if
    :: n > 0 -> deliver(me); goto find_work
#ifdef ASK_TAKES_BELL
    :: n == 0 && rung -> rung = false; rounds++; goto find_work
#endif
    :: else -> rung = false
    fi
  :: opened && polls == NOBODY && idle + 1 == PROCESSORS /* sleeps_for_next_event() */
  :: else
  fi;
  rounds = 0;
  atomic { /* release_and_sleep() */
    held[me] = false;
    asleep[me] = true;
    idle++;
    searching = searching - counted[me];
    counted[me] = false
  };
sleep:
  if
  :: stopping -> goto ends
  :: else
  fi;
  if
  :: injected > 0 && idle > 0 -> take_idle_processor(me)
  :: else
  fi;
#ifdef HELD_SEEN_EARLY
  if
  :: held[me] -> goto find_work
  :: else
  fi;
#endif
  atomic {
#ifndef HELD_SEEN_EARLY
    if
    :: held[me] -> goto find_work
    :: else
    fi;
#endif
    if
    :: !stopping -> awake[me] = false
    :: else
    fi;
    all_idle = (idle == PROCESSORS);
#ifndef NOBODY_POLLS
    if
    :: opened && !stopping && polls == NOBODY -> polls = me
    :: else
    fi
#endif
  };
  if
  :: !all_idle -> wake_monitor()
  :: all_idle -> all_idle = false
  fi;
  if
  :: polls == me ->
#ifdef BELL_WITHOUT_MEMORY
    in_epoll[me] = true;
#endif
end_in_epoll:
    if
    :: pending > 0 || bell
    :: atomic { leaves > 0 -> leaves-- }
    fi;
    collect();
#ifdef BELL_WITHOUT_MEMORY
    in_epoll[me] = false;
#endif
    if /* answer() */
    :: rung -> bell = false; rung = false
    :: else
    fi;
    atomic {
#ifdef KEEPS_POLLING
      if
      :: !held[me] -> polls = NOBODY
      :: else
      fi
#else
      polls = NOBODY
#endif
    };
    if
    :: n > 0 -> take_idle_processor(me)
    :: else
    fi;
    if
    :: held[me] ->
      deliver(me);
      wake_monitor();
      goto find_work
    :: else -> /* a processor that it is given now is seen when it goes to sleep */
#ifdef DROPS_WITHOUT_PROCESSOR
      n = 0;
#else
      deliver_from_outside();
#endif
      goto sleep
    fi
  :: polls != me ->
end_on_futex:
    awake[me];
    goto sleep
  fi;
found:
  rounds = 0;
  if
  :: counted[me] -> /* stop_searching() */
    counted[me] = false;
    atomic { last = (searching == 1); searching-- };
    wake_monitor();
    if
    :: last && injected + ready > 0 -> wake_one()
    :: else
    fi;
    last = false
  :: else
  fi;
run_fiber:
  if
  :: first -> first = false; opened = true; wake_monitor()
  :: else
  fi;
  if
  :: goto find_work
  :: computes[me] = true; goto out
#ifdef HAND_OVER
  :: true /* hand_off() */
#endif
  fi;
#ifdef HAND_OVER
  atomic {
    held[me] = false;
    s = NOBODY;
    if
    :: injected + ready > 0 -> take_sleeper(s)
    :: else
    fi;
    if
    :: s != NOBODY -> held[s] = true
    :: else -> injected = injected + ready; ready = 0; idle++ /* no memory for another worker: inject_all_of() */
    fi
  };
  if
  :: s != NOBODY -> wake_taken(s)
  :: s == NOBODY ->
    if
    :: injected > 0 -> wake_one()
    :: else
    fi
  fi;
  asleep[me] = true; /* sleep_as_spare() */
  goto sleep;
#endif
ends:
  ended++;
out:
  skip
}

proctype kernel() {
  do
  :: atomic { opened && to_come > 0 -> pending++; to_come-- }
  :: to_come == 0 -> break
  od
}

#ifdef FOREIGN
proctype foreign() {
  byte s = NOBODY;
  bool in_poller;
  inject()
}
#endif

proctype monitor() {
  byte s = NOBODY;
  byte n;
  bool in_poller, rung;
end:
  do
  :: idle == PROCESSORS ->
    monitor_asleep = true;
    if
    :: idle == PROCESSORS && injected == 0 ->
end_asleep:
      !monitor_asleep
    :: else -> monitor_asleep = false
    fi
  /* look() */
  :: idle != PROCESSORS && idle > 0 && ready + injected > 0 -> wake_one()
#ifndef WITHOUT_WATCH
  :: idle != PROCESSORS && opened && polls == NOBODY && pending > 0 ->
    if
    :: idle > 0 -> wake_one() /* who asks, and then sleeps there */
    :: true -> collect(); rung = false; deliver_from_outside() /* ask_poller_from_outside() */
    fi
#endif
  od
}

init {
  atomic {
    held[0] = true;
#if defined(TWO)
    if /* the other sleeps, or has run dry */
    :: asleep[1] = true; idle = 1
    :: held[1] = true
    fi;
    run worker(1);
#elif defined(HAND_OVER)
    asleep[1] = true;
    injected = 1;
    run worker(1);
#else
    run foreign();
#endif
    run worker(0);
    run monitor();
    run kernel()
  };
  timeout; /* nothing moves any more */
  assert(pending == 0 && delivered == EVENTS);
  assert(ready + injected == 0 || idle == 0);
  assert(idle != PROCESSORS || polls != NOBODY);
  if
  :: computes[0] || computes[1]
  :: else -> /* stop_threads() */
    stopping = true;
#ifndef STOPS_WITHOUT_RING
    bell = true;
#endif
    awake[0] = true;
    awake[1] = true;
    timeout;
    assert(ended == WORKERS)
  fi
}
