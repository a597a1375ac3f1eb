/* Waiting for a descriptor (runtime/include/coir/detail/descriptor.hpp, runtime/sched/descriptor.cpp): readiness between EAGAIN and
   the sleep, close() and the generation against numbers that are given out again, the move of a registration to another
   poller, watchers, deadlines that are moved.

   The kernel has files and numbers. A poller has at most one registration of the number (copies of a file are no matter here): the
   file, what is reported, the generation, and what has happened since it was last collected. It is edge-triggered, reports what is
   ready already when a registration is made or changed, and drops it when the file is closed.
   What the descriptor's lock guards is done step by step, since the state word, the edges and the kernel are used without it. Steps
   are sequentially consistent: the lock orders all others.

   Checked: a system call meets the file that its caller means; when nothing moves any more nobody sleeps although there is something
   for it, or although it was closed; a number whose owner has closed it is closed; nothing stays registered that nobody has;
   a poller's number of guests is that of the sleepers that its runtime does not count.

   Scenarios, and their weakened twins, which must fail:
     (none)   One reads, one comes with the generation of the first file when that may have been closed, and is refused; somebody
              closes; the number is given out again, with another file, to a new owner, who reads.
              -DSILENT_ADD (a kernel that does not report what is ready already), -DWITHOUT_OPEN_CHECK (wait() does not look, under
              the lock, whether it was closed), -DCLOSE_WAKES_NOBODY, -DCLOSE_AT_ONCE (the number is closed though sections are
              open), -DBEGIN_WITHOUT_GENERATION
     REGISTERED  One reads from what is registered already.
              -DWITHOUT_EDGES (wait() does not compare them), -DSAMPLE_LATE (they are read after the system call), -DEDGE_UNLOCKED
              (the deliverer counts an edge without the lock, after it has looked for sleepers)
     MOVE     A thread waits to write, in the poller of the threads; a fiber's wait to read moves the registration.
              -DMOVE_ONE_WAY (for reading alone), -DMOVE_FORGETS_GUESTS (the thread is not counted in the new one)
     WATCH    Two watch the number of a file that stays open, from two pollers, and end that.
              -DOPEN_KEEPS_REGISTRATION (who opens it again before the last watcher has retired it),
              -DRETIRE_WITHOUT_GENERATION (the last watcher then ends the registration of those who came after)
     CLOSING  Somebody comes to watch while the owner closes and a section is open.
              -DWATCH_REOPENS (instead of being refused)
     LIMIT    The deadline of a wait is set while it begins.
              -DLIMIT_READ_EARLY (before the lock is taken), -DLIMIT_WAKES_NOBODY */
#define READ 0
#define WRITE 1
#define NOWHERE 9
#define RUNTIME 0 /* pollers */
#define THREADS 1
#define SLEEPERS 3

/* ---- the kernel */
byte file_of_number = 1; /* 0: it is closed */
bool can[6];             /* whether file f can be read (2f) or written (2f + 1) */
bool closed_file[3];
byte registered[2]; /* in a poller: which file; 0: none */
byte mask[2];
byte marked[2]; /* the generation */
byte happened[2];

#define bit_of(way) (1 << (way))

inline becomes(f, way) {
  d_step {
    can[2 * f + way] = true;
    if
    :: registered[RUNTIME] == f -> happened[RUNTIME] = happened[RUNTIME] | (mask[RUNTIME] & bit_of(way))
    :: else
    fi;
    if
    :: registered[THREADS] == f -> happened[THREADS] = happened[THREADS] | (mask[THREADS] & bit_of(way))
    :: else
    fi
  }
}

/* EPOLL_CTL_ADD, or _MOD */
inline control(p, g, m) {
  d_step {
    assert(file_of_number != 0);
    registered[p] = file_of_number;
    marked[p] = g;
    mask[p] = m;
#ifndef SILENT_ADD
    if
    :: can[2 * file_of_number] -> happened[p] = happened[p] | (m & 1)
    :: else
    fi;
    if
    :: can[2 * file_of_number + 1] -> happened[p] = happened[p] | (m & 2)
    :: else
    fi
#endif
  }
}

inline remove(p) {
  d_step {
    if
    :: registered[p] != 0 && registered[p] == file_of_number -> registered[p] = 0; mask[p] = 0; happened[p] = 0
    :: else
    fi
  }
}

inline close_number() {
  d_step {
    if
    :: file_of_number != 0 && registered[0] == file_of_number -> registered[0] = 0; mask[0] = 0; happened[0] = 0
    :: else
    fi;
    if
    :: file_of_number != 0 && registered[1] == file_of_number -> registered[1] = 0; mask[1] = 0; happened[1] = 0
    :: else
    fi;
    closed_file[file_of_number] = true;
    file_of_number = 0
  }
}

/* ---- the descriptor */
bool locked = false;
byte generation = 1;
bool closed = false;
byte uses = 1;
bool owned = true;
byte watchers = 0;
byte edges[2];
byte interest = 0;
byte home = NOWHERE;
byte guests = 0; /* of the runtime's poller */
bool limited = false;

/* ---- those who sleep */
byte queued[SLEEPERS]; /* 0, or 1 + way */
bool waiting[SLEEPERS];
bool ok[SLEEPERS];
bool woken[SLEEPERS];
byte poller_of[SLEEPERS];
bool asleep[SLEEPERS];

#define is_guest(s) (home == RUNTIME && poller_of[s] != RUNTIME)
#define counted_guest(s) (queued[s] != 0 && is_guest(s))

inline lock() { atomic { !locked -> locked = true } }

inline unlock() {
  d_step {
    assert(guests == counted_guest(0) + counted_guest(1) + counted_guest(2));
    locked = false
  }
}

/* Sleepers' queues are touched under the lock alone, so taking them all is one step. A claim fails if the sleeper has timed out. */
inline take(s, way, good) {
  if
  :: queued[s] == 1 + way ->
    if
    :: is_guest(s) -> guests--
    :: else
    fi;
    queued[s] = 0;
    if
    :: waiting[s] -> waiting[s] = false; ok[s] = good; list = list | (1 << s)
    :: else
    fi
  :: else
  fi
}

inline take_all(way, good) {
  d_step {
    take(0, way, good);
    take(1, way, good);
    take(2, way, good)
  }
}

/* unpark() */
inline wake_all() {
  d_step {
    if
    :: list & 1 -> woken[0] = true
    :: else
    fi;
    if
    :: list & 2 -> woken[1] = true
    :: else
    fi;
    if
    :: list & 4 -> woken[2] = true
    :: else
    fi;
    list = 0
  }
}

inline deregister() {
  if
  :: home != NOWHERE -> remove(home)
  :: else
  fi;
  home = NOWHERE;
  interest = 0
}

inline open(is_owned) {
#ifdef OPEN_KEEPS_REGISTRATION
  home = NOWHERE;
  interest = 0;
#else
  deregister();
#endif
  owned = is_owned;
  watchers = 0;
  atomic { generation++; closed = false; uses = 1 }
}

inline end_section(g) {
  atomic {
    last = false;
    if
    :: generation == g -> uses--; last = (closed && uses == 0)
    :: else
    fi
  };
  if
  :: last -> /* retire() */
    lock();
    if
#ifdef RETIRE_WITHOUT_GENERATION
    :: true ->
#else
    :: generation == g ->
#endif
      deregister();
      last = owned;
      owned = false;
      unlock();
      if
      :: last -> close_number()
      :: else
      fi
    :: generation != g -> unlock()
    fi;
    last = false
  :: else
  fi
}

inline enlist(way, mine) {
  if
  :: home == THREADS && mine != THREADS ->
#ifdef MOVE_ONE_WAY
    control(mine, generation, bit_of(way));
    interest = 0;
#else
    control(mine, generation, interest | bit_of(way));
#endif
    remove(home);
    d_step {
      home = mine;
      interest = interest | bit_of(way);
#ifndef MOVE_FORGETS_GUESTS
      guests = guests + counted_guest(0) + counted_guest(1) + counted_guest(2)
#endif
    }
  :: !(home == THREADS && mine != THREADS) && (interest & bit_of(way)) == 0 ->
    if
    :: home == NOWHERE -> control(mine, generation, bit_of(way)); home = mine
    :: home != NOWHERE -> control(home, generation, interest | bit_of(way))
    fi;
    interest = interest | bit_of(way)
  :: else
  fi
}

/* begin(), the system call and wait() until there is something; end(). Of file f, whose generation is g. */
inline operate(me, way, g, f) {
  atomic {
    seen = 0;
    if
#ifdef BEGIN_WITHOUT_GENERATION
    :: !closed -> uses++
#else
    :: generation == g && !closed -> uses++
#endif
    :: else -> goto refused
    fi
  };
  do
  ::
#ifndef SAMPLE_LATE
    seen = edges[way];
#endif
    atomic {
      assert(file_of_number == f);
      if
      :: can[2 * f + way] -> can[2 * f + way] = false; break
      :: else
      fi
    };
#ifdef SAMPLE_LATE
    seen = edges[way];
#endif
#ifdef LIMIT_READ_EARLY
    until = limited;
#endif
    lock();
    if
#ifndef WITHOUT_OPEN_CHECK
    :: generation != g || closed -> unlock(); break
#endif
#ifndef WITHOUT_EDGES
    :: generation == g && !closed && edges[way] != seen -> unlock()
    :: generation == g && !closed && edges[way] == seen ->
#else
    :: generation == g && !closed ->
#endif
#ifndef LIMIT_READ_EARLY
      until = limited;
#endif
      enlist(way, poller_of[me]);
      d_step {
        ok[me] = false;
        waiting[me] = true;
        queued[me] = 1 + way;
        asleep[me] = true;
        if
        :: is_guest(me) -> guests++
        :: else
        fi
      };
      unlock();
      if
      :: woken[me] -> d_step { woken[me] = false; asleep[me] = false };
        if
        :: ok[me]
        :: !ok[me] -> break
        fi
      :: atomic { until && waiting[me] -> waiting[me] = false; asleep[me] = false }; /* the timer claims it */
        lock();
        d_step {
          if
          :: counted_guest(me) -> guests--
          :: else
          fi;
          queued[me] = 0
        };
        unlock();
        timed_out = true;
        break
      fi
#ifdef WITHOUT_OPEN_CHECK
    :: else ->
      d_step { waiting[me] = true; queued[me] = 1 + way; asleep[me] = true };
      unlock();
      woken[me];
      break
#endif
    fi
  od;
  end_section(g);
refused:
  skip
}

proctype operation(byte me, way, g, f) {
  byte seen;
  bool last, until, timed_out;
  operate(me, way, g, f)
}

proctype closer(byte g) {
  byte list;
  bool last;
  lock();
  if
  :: atomic { generation == g && !closed -> closed = true };
#ifndef CLOSE_WAKES_NOBODY
    take_all(WRITE, false);
    take_all(READ, false);
#endif
    unlock();
    wake_all();
#ifdef CLOSE_AT_ONCE
    close_number();
#endif
    end_section(g)
  :: else -> unlock()
  fi
}

/* Whoever asks the kernel. Another who does so at once finds other events. */
proctype deliverer(byte p) {
  byte events, g, list;
end:
  do
  :: d_step { happened[p] != 0 -> events = happened[p]; g = marked[p]; happened[p] = 0 };
#ifdef EDGE_UNLOCKED
    lock();
    if
    :: generation == g && !closed -> take_all(READ, true)
    :: else
    fi;
    unlock();
    edges[READ]++;
#else
    lock();
    if
    :: generation == g && !closed ->
      if
      :: events & 1 -> edges[READ]++; take_all(READ, true)
      :: else
      fi;
      if
      :: events & 2 -> edges[WRITE]++; take_all(WRITE, true)
      :: else
      fi
    :: else
    fi;
    unlock();
#endif
    wake_all();
    events = 0;
    g = 0
  od
}

proctype peer(byte f, way) { becomes(f, way) }

/* The kernel gives the number out again. */
proctype next_owner(byte me) {
  byte seen, list;
  bool last, until, timed_out;
end:
  d_step { file_of_number == 0 -> file_of_number = 2 };
  run peer(2, READ);
  lock();
  take_all(WRITE, false);
  take_all(READ, false);
  open(true);
  unlock();
  wake_all();
  operate(me, READ, generation, 2);
  lock();
  closed = true;
  take_all(READ, false);
  unlock();
  wake_all();
  end_section(generation)
}

proctype watcher(byte me, way) {
  byte seen, g, list;
  bool last, until, timed_out;
  lock();
  if
#ifndef WATCH_REOPENS
  :: closed && owned -> unlock(); goto out /* EBADF */
  :: closed && !owned -> open(false)
#else
  :: closed -> open(false)
#endif
  :: else
  fi;
  watchers++;
  unlock();
  g = generation;
#ifdef WATCH
  run peer(1, way);
  operate(me, way, g, 1);
#endif
  /* unwatch() */
  lock();
  if
  :: generation == g ->
    watchers--;
    if
    :: watchers == 0 && !owned && !closed ->
      closed = true;
      take_all(WRITE, false);
      take_all(READ, false);
      last = true
    :: else
    fi
  :: else
  fi;
  unlock();
  wake_all();
  if
  :: last -> end_section(g)
  :: else
  fi;
out:
  skip
}

proctype setter() {
  byte list;
  lock();
  limited = true;
#ifndef LIMIT_WAKES_NOBODY
  take_all(READ, true);
#endif
  unlock();
  wake_all()
}

init {
  atomic {
    run deliverer(RUNTIME);
#if defined(REGISTERED)
    registered[RUNTIME] = 1;
    mask[RUNTIME] = bit_of(READ);
    marked[RUNTIME] = 1;
    home = RUNTIME;
    interest = bit_of(READ);
    run operation(0, READ, 1, 1);
    run peer(1, READ)
#elif defined(MOVE)
    poller_of[2] = THREADS;
    run deliverer(THREADS);
    run operation(0, READ, 1, 1);
    run operation(2, WRITE, 1, 1);
    run peer(1, READ);
    run peer(1, WRITE)
#elif defined(WATCH)
    closed = true;
    uses = 0;
    owned = false;
    poller_of[2] = THREADS;
    run deliverer(THREADS);
    run watcher(0, READ);
    run watcher(2, WRITE)
#elif defined(CLOSING)
    run operation(0, READ, 1, 1);
    run closer(1);
    run watcher(2, READ)
#elif defined(LIMIT)
    run operation(0, READ, 1, 1);
    run setter()
#else
    run operation(0, READ, 1, 1);
    run operation(1, READ, 1, 1);
    run peer(1, READ);
    run closer(1);
    run next_owner(2)
#endif
  };
  timeout; /* nothing moves any more */
  assert(!locked && !asleep[0] && !asleep[1] && !asleep[2]);
#if defined(WATCH)
  assert(closed && uses == 0 && registered[RUNTIME] == 0 && registered[THREADS] == 0)
#elif defined(CLOSING)
  assert(closed_file[1])
#elif !defined(MOVE) && !defined(LIMIT) && !defined(REGISTERED)
  assert(closed_file[1] && closed_file[2] && closed && uses == 0 && !owned)
#endif
}
