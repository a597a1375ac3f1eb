/* Who sees to the timers of idle processors (runtime/sched/idle_set.hpp; idle.cpp: sleep_until_assigned(); wake.cpp: wake_one(); hand_off() and retake()
   in retake.cpp; monitor.hpp). One sleeper at a time, the keeper, has the next deadline as its timeout; another's may be left over, and
   counts only if a timer is due still. The keeper may be woken for something else before; its successor in that is the monitor, which
   looks after all timers while any processor is busy, and sleeps when none is.

   Two processors, three workers (the third has no thread at first); a fiber that runs, another that a foreign thread injects. A fiber
   ends, or arms a timer and parks, or says that it is going to block, or blocks without a word. Deadlines come at any time. Fences and
   queues are not the question here (idle.pml has them): steps are sequentially consistent, and what the idle set's lock guards is one step,
   the monitor's last look before it sleeps among that (all_quiet()).
   Checked, when nothing moves any more: no idle processor has a timer left, and no fiber waits beside one; the keeper sleeps.

   Weakened twins, which must fail: -DWITHOUT_UNKEPT (hand_off() that leaves its processor idle wakes nobody for the timers of others),
   -DWITHOUT_WAKE_BY_PUSH (a foreign push does not wake the monitor), -DTWO_LOOKS (all_quiet() without the lock). That who takes the keeper, and who goes to sleep beside a busy
   processor, wake the monitor too is not needed here: a push has always done so before. */
#define PROCESSORS 2
#define WORKERS 3
#define NONE 9 /* no deadline; no worker; no processor */

byte timer[PROCESSORS]; /* its deadline: 1, 2 or NONE */
bool is_idle[PROCESSORS];
byte held[WORKERS];   /* a processor, or NONE */
bool asleep[WORKERS]; /* in idle_set::sleepers_ */
bool started[WORKERS];
bool stuck[WORKERS]; /* blocks in the kernel, its processor still its own */
byte keeper = NONE, keeper_deadline = NONE;
bool searching = false;
bool counted[WORKERS];
byte injected = 0;
bool monitor_asleep = false;
bool armed = false; /* one is enough */

#define idle (is_idle[0] + is_idle[1])
#define deadline_of(p) (is_idle[p] -> timer[p] : NONE)
#define earliest (deadline_of(0) < deadline_of(1) -> deadline_of(0) : deadline_of(1))

inline end_keeping(w) {
  if
  :: keeper == w -> keeper = NONE; keeper_deadline = NONE
  :: else
  fi
}

inline wake_monitor() { monitor_asleep = false }

/* take_sleeper(): the keeper last; one without a thread if nobody sleeps. NONE: there is none (the program would end). */
inline take_sleeper(s) {
  s = NONE;
  if
  :: asleep[0] && keeper != 0 -> s = 0
  :: asleep[1] && keeper != 1 -> s = 1
  :: asleep[2] && keeper != 2 -> s = 2
  :: else ->
    if
    :: asleep[0] -> s = 0
    :: asleep[1] -> s = 1
    :: asleep[2] -> s = 2
    :: else ->
      if
      :: !started[2] -> s = 2; started[2] = true
      :: else
      fi
    fi
  fi;
  if
  :: s != NONE -> asleep[s] = false
  :: else
  fi
}

inline take_idle_processor(w) {
  if
  :: is_idle[0] -> is_idle[0] = false; held[w] = 0
  :: is_idle[1] -> is_idle[1] = false; held[w] = 1
  :: else
  fi;
  if
  :: held[w] != NONE -> end_keeping(w)
  :: else
  fi
}

inline wake_one(s, was_keeper) {
  atomic {
    was_keeper = false;
    if
    :: !searching ->
      searching = true;
      if
      :: idle > 0 -> take_sleeper(s)
      :: else -> s = NONE
      fi;
      if
      :: s == NONE -> searching = false
      :: else ->
        was_keeper = (s == keeper);
        counted[s] = true;
        take_idle_processor(s)
      fi
    :: else
    fi
  };
  if
  :: was_keeper -> wake_monitor()
  :: !was_keeper
  fi;
  d_step { s = 0; was_keeper = false }
}

proctype worker(byte me; bool has_fiber) {
  byte s, until;
  bool flag, all_idle;
  if
  :: has_fiber -> goto run_fiber
  :: else
  fi;
end_before:
  held[me] != NONE || asleep[me];
  if
  :: held[me] != NONE
  :: else -> goto sleep
  fi;
find_work:
  skip;
  atomic {
    s = NONE;
    flag = false;
    all_idle = false;
    until = NONE;
    if /* run_due_timers(): its own, and those of idle processors; what has come by now */
    :: true
    :: timer[held[me]] != NONE -> timer[held[me]] = NONE
    :: is_idle[0] && timer[0] != NONE -> timer[0] = NONE
    :: is_idle[1] && timer[1] != NONE -> timer[1] = NONE
    fi;
    if
    :: injected > 0 ->
      injected--;
      if
      :: counted[me] -> counted[me] = false; searching = false
      :: else
      fi;
      goto run_fiber
    :: else
    fi
  };
  atomic { /* release_and_sleep() */
    is_idle[held[me]] = true;
    held[me] = NONE;
    asleep[me] = true;
    if
    :: counted[me] -> counted[me] = false; searching = false
    :: else
    fi
  };
sleep:
  skip;
  atomic {
    if
    :: injected > 0 && held[me] == NONE && idle > 0 -> asleep[me] = false; take_idle_processor(me)
    :: else
    fi
  };
  atomic {
    if
    :: held[me] != NONE -> goto find_work
    :: else
    fi;
    all_idle = (idle == PROCESSORS);
    until = NONE;
    if
    :: earliest < keeper_deadline ->
      keeper = me;
      keeper_deadline = earliest;
      until = earliest
    :: else
    fi
  };
  if
  :: !all_idle -> wake_monitor()
  :: all_idle
  fi;
end_asleep:
  if
  :: held[me] != NONE ->
    atomic { end_keeping(me) };
    goto find_work
  :: until != NONE && held[me] == NONE -> /* the time has come */
    atomic {
      end_keeping(me);
      flag = (timer[0] <= until || timer[1] <= until); /* else others have fired it */
      if
      :: held[me] != NONE -> goto find_work /* somebody has woken it as well */
      :: else
      fi
    };
    if
    :: flag ->
      atomic {
        if
        :: held[me] == NONE && idle > 0 -> asleep[me] = false; take_idle_processor(me)
        :: else
        fi
      }
    :: else
    fi;
    if
    :: held[me] != NONE
    :: else -> goto sleep
    fi;
    /* run_due_timers(): one processor after the other */
    if
    :: timer[held[me]] <= until -> timer[held[me]] = NONE
    :: else
    fi;
    atomic {
      if
      :: deadline_of(0) <= until -> timer[0] = NONE
      :: else
      fi
    };
    atomic {
      if
      :: deadline_of(1) <= until -> timer[1] = NONE
      :: else
      fi
    };
    goto find_work
  fi;
run_fiber:
  skip;
  atomic {
    if
    :: true
    :: timer[held[me]] == NONE && !armed -> timer[held[me]] = 1; armed = true
    :: timer[held[me]] == NONE && !armed -> timer[held[me]] = 2; armed = true
    fi;
    if
    :: goto find_work
    :: stuck[me] = true; goto out /* without a word */
    :: true /* hand_off() */
    fi;
    if
    :: timer[held[me]] != NONE || injected > 0 -> take_sleeper(s)
    :: else -> s = NONE
    fi;
    if
    :: s != NONE ->
      flag = (s == keeper);
      held[s] = held[me];
      held[me] = NONE;
      end_keeping(s)
    :: else ->
      is_idle[held[me]] = true;
      held[me] = NONE;
      flag = (earliest < keeper_deadline) /* unkept */
    fi
  };
  if
  :: s != NONE ->
    if
    :: flag -> wake_monitor()
    :: !flag
    fi
  :: s == NONE ->
#ifdef WITHOUT_UNKEPT
    flag = false;
#endif
    if
    :: flag || injected > 0 -> wake_one(s, flag)
    :: else
    fi
  fi;
  /* and it blocks for ever */
out:
  skip
}

proctype foreign() {
  byte s;
  bool flag, sleeps;
  injected++;
  sleeps = monitor_asleep;
  if
  :: idle > 0 -> wake_one(s, flag)
  :: else
  fi;
#ifndef WITHOUT_WAKE_BY_PUSH
  if
  :: sleeps -> wake_monitor()
  :: !sleeps
  fi;
#endif
  sleeps = false
}

proctype monitor() {
  byte s, w;
  bool flag;
end:
  do
  :: idle == PROCESSORS && injected == 0 ->
    monitor_asleep = true;
#ifdef TWO_LOOKS
    flag = (idle == PROCESSORS);
    flag = flag && injected == 0;
#else
    flag = (idle == PROCESSORS && injected == 0);
#endif
    if
    :: flag ->
end_asleep:
      !monitor_asleep
    :: else -> monitor_asleep = false
    fi;
    flag = false
  :: atomic { idle != PROCESSORS && idle != 0 && (earliest != NONE || injected > 0) -> wake_one(s, flag) }
  :: idle != PROCESSORS && (stuck[0] || stuck[1] || stuck[2]) -> /* retake() */
    atomic {
      w = 0;
      do
      :: w < WORKERS && !(stuck[w] && held[w] != NONE && (timer[held[w]] != NONE || injected > 0)) -> w++
      :: else -> break
      od;
      if
      :: w < WORKERS ->
        take_sleeper(s);
        if
        :: s != NONE ->
          held[s] = held[w];
          held[w] = NONE;
          stuck[w] = false;
          end_keeping(s)
        :: else
        fi
      :: else
      fi
    };
    s = 0;
    w = 0
  od
}

init {
  atomic {
    timer[0] = NONE;
    timer[1] = NONE;
    held[0] = 0;
    held[1] = NONE;
    held[2] = NONE;
    started[0] = true;
    started[1] = true;
    asleep[1] = true;
    is_idle[1] = true;
    if /* the second sleeps, or is about to; its processor may have a timer */
    :: timer[1] = 1
    :: timer[1] = 2
      :: true
    fi;
    run worker(0, true);
    run worker(1, false);
    run worker(2, false);
    run monitor();
    run foreign()
  };
  timeout;
  assert(!is_idle[0] || timer[0] == NONE);
  assert(!is_idle[1] || timer[1] == NONE);
  assert(injected == 0 || idle == 0);
  assert(keeper == NONE || asleep[keeper])
}
