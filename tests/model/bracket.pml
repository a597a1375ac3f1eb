/* The runtime bracket and processor::try_lock (runtime/sched/worker.hpp, worker.cpp), around the run ring (run_ring.hpp).

   One owner pushes and pops inside its brackets; thieves lock the processor and take the oldest half. All of memory is seen
   through store buffers (store_buffer.pml), the ring's indices and slots too.
   Checked: owner and thief are never both inside; each fiber is taken exactly once, by whomever.

   Weakened twins, each of which must fail: -DWITHOUT_HEAVY_FENCE, -DWITHOUT_TICKET (stepped_aside says yes or no, not which
   question it answers), -DWITHOUT_STEP_ASIDE_CHECK (leaves step_aside() without a second look at `interrupt`),
   and with -DARM also -DRELAXED_LEAVE. */
#define OWNER 0
#ifndef THIEVES
#define THIEVES 1
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#define THREADS (1 + THIEVES)
#define DEPTH 6

#define IN_RUNTIME 0
#define STEPPED_ASIDE 1
#define INTERRUPT 2
#define LOCK 3
#define HEAD 4
#define TAIL 5
#define SLOT 6
#define CAPACITY 2
#define CELLS (SLOT + CAPACITY)

#include "store_buffer.pml"

#ifndef FIBERS
#define FIBERS 2
#endif
byte taken[FIBERS + 1];
bool owner_inside = false, thief_inside = false;
byte tickets = 0;
byte finished = 0;

inline take(f) {
  d_step {
    assert(f > 0);
    taken[f]++;
    assert(taken[f] == 1)
  }
}

proctype owner() {
  byte at, seen, answered, head, tail, fiber;
  byte pushed = 0, operation;

  do
  :: true ->
    /* enter() */
    store(OWNER, IN_RUNTIME, 1);
    load(OWNER, INTERRUPT, seen, at);
    if
    :: seen != 0 ->
      do
      :: store_release(OWNER, IN_RUNTIME, 0);
        do
        :: load(OWNER, INTERRUPT, seen, at);
          if
          :: seen == 0 -> break
          :: seen != 0 && answered != seen -> store_release(OWNER, STEPPED_ASIDE, seen); answered = seen
          :: else /* the same answer again */
          fi
        od;
#ifdef WITHOUT_TICKET
        answered = 0;
#endif
        store(OWNER, IN_RUNTIME, 1);
#ifdef WITHOUT_STEP_ASIDE_CHECK
        break
#else
        load(OWNER, INTERRUPT, seen, at);
        if
        :: seen == 0 -> break
        :: else
        fi
#endif
      od
    :: else
    fi;
    atomic { owner_inside = true; assert(!thief_inside) };

    load(OWNER, HEAD, head, at);
    load(OWNER, TAIL, tail, at);
    if
    :: pushed < FIBERS && tail - head < CAPACITY -> operation = 0
    :: head != tail -> operation = 1
    :: head != tail -> operation = 2
    :: pushed == FIBERS && head == tail -> operation = 3
    fi;
    if
    :: operation == 0 -> /* push_back */
      pushed++;
      store(OWNER, SLOT + tail % CAPACITY, pushed);
      store(OWNER, TAIL, tail + 1)
    :: operation == 1 -> /* pop_front */
      store(OWNER, HEAD, head + 1);
      load(OWNER, SLOT + head % CAPACITY, fiber, at);
      take(fiber)
    :: operation == 2 -> /* pop_back */
      store(OWNER, TAIL, tail - 1);
      load(OWNER, SLOT + (tail - 1) % CAPACITY, fiber, at);
      take(fiber)
    :: else
    fi;

    owner_inside = false;
    /* leave() */
#ifdef RELAXED_LEAVE
    store(OWNER, IN_RUNTIME, 0);
#else
    store_release(OWNER, IN_RUNTIME, 0);
#endif
    if
    :: operation == 3 -> break
    :: else
    fi
  od;
  /* Outside for good: nothing answers any more, but for the fence. */
  finished++
}

proctype thief(byte me) {
  byte at, seen, ticket, head, tail, n, i, fiber;
  byte attempts = 0;

  do
  :: attempts < ATTEMPTS ->
    attempts++;
    /* lock_.try_lock(): an atomic exchange, acquire */
    atomic { memory[LOCK] == 0 && drained(me) -> memory[LOCK] = 1 };
#ifdef WITHOUT_TICKET
    ticket = 1;
#else
    d_step { tickets++; ticket = tickets };
#endif
    store(me, INTERRUPT, ticket);
    do
    :: load(me, STEPPED_ASIDE, seen, at);
      if
      :: seen == ticket -> goto inside
      :: else
      fi
    :: break /* waited long enough */
    od;
#ifndef WITHOUT_HEAVY_FENCE
    drained(me);
    drained(OWNER);
#else
    drained(me); /* its own fence stays: it is membarrier that is gone */
#endif
    do
    :: load(me, IN_RUNTIME, seen, at);
      if
      :: seen == 0 -> goto inside
      :: else
      fi
    :: break /* gives up */
    od;
    goto unlock;
inside:
    atomic { thief_inside = true; assert(!owner_inside) };
    /* take_half() */
    load(me, HEAD, head, at);
    load(me, TAIL, tail, at);
    n = (tail - head + 1) / 2;
    i = 0;
    do
    :: i < n ->
      load(me, SLOT + (head + i) % CAPACITY, fiber, at);
      take(fiber);
      i++
    :: else -> break
    od;
    store(me, HEAD, head + n);
    thief_inside = false;
unlock:
    store_release(me, INTERRUPT, 0);
    store_release(me, LOCK, 0)
  :: true -> break
  od;
  finished++
}

init {
  atomic {
    run owner();
    byte t = 1;
    do
    :: t <= THIEVES -> run thief(t); t++
    :: else -> break
    od
  };
  finished == 1 + THIEVES;
  byte f = 1;
  do
  :: f <= FIBERS -> assert(taken[f] == 1); f++
  :: else -> break
  od
}
