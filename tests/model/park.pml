/* The park protocol (runtime/include/coir/detail/park.hpp, park.cpp, waiter_access.hpp, after_switch() in switch.hpp): a fiber that
   waits twice at one primitive, a claimer under the primitive's lock, the timer of the first wait, a canceller.

   The sleeper's stores go through a store buffer (store_buffer.pml): it stores its word and then loads the cancel flag behind
   a light fence. Claimers act by atomic operations, or behind fences of their own.
   Checked: exactly one claimer ends a wait, and it alone makes the fiber runnable; the fiber is never resumed before its
   context is saved, nor while it runs; only the timer of this wait ends it as timed out; a grant is never lost (what a claimer
   popped was claimed, or its waiter was by another); at the end nobody sleeps who was granted, or cancelled, something.

   Weakened twins, which must fail: -DWITHOUT_GENERATION (the word is the state alone), -DUNLOCK_FIRST (the lock is released
   before the word says waiting), -DPUBLISH_FIRST (the word says waiting before the context is saved), -DWITHOUT_HEAVY_FENCE
   (the canceller's), -DWITHOUT_PARKING (claimers from outside take `parking` for the end of the wait). */
#define THREADS 1
#define DEPTH 4
#define WORD 0   /* generation * 8 + state */
#define LOCK 1
#define CELLS 2
#include "store_buffer.pml"

#define SLEEPER 0
#define idle 0
#define parking 1
#define waiting 2
#define fired 3
#define timed_out 4
#define cancelled 5
#define state_of(w) ((w) % 8)
#define generation_of(w) ((w) / 8)
#ifdef WITHOUT_GENERATION
#define next_generation(w) 0
#else
#define next_generation(w) (generation_of(w) + 1)
#endif

bool cancel_flag = false;
bool queued = false;       /* the node; under the lock */
byte grants = 0;           /* claims as fired */
byte runnable = 0;         /* in a run queue; at most once */
bool running = true;
bool saved = false;        /* the context, since the fiber was last switched away from */
byte waits_begun = 0, grants_taken = 0, stamp = 0;
bool timer_armed = false, ended = false, cancelled_seen = false;

inline lock() { atomic { memory[LOCK] == 0 -> memory[LOCK] = 1 } }

/* make_ready(): the claim winner's last step. From here on another worker may resume the fiber: its context must be saved. */
inline unpark() {
  d_step {
    assert(runnable == 0 && saved && !running);
    runnable++
  }
}

/* waiter::claim_from_outside() */
inline claim_from_outside(word, as, seen) {
  do
  :: d_step { seen = memory[WORD] };
    if
    :: generation_of(seen) != generation_of(word) -> break
    :: generation_of(seen) == generation_of(word) && state_of(seen) == parking ->
#ifdef WITHOUT_PARKING
      break
#else
      memory[WORD] != seen /* waits for it to move on */
#endif
    :: generation_of(seen) == generation_of(word) && state_of(seen) != parking && state_of(seen) != waiting -> break
    :: generation_of(seen) == generation_of(word) && state_of(seen) == waiting ->
      if
      :: atomic { memory[WORD] == seen -> memory[WORD] = seen - waiting + as };
        unpark();
        break
      :: memory[WORD] != seen
      fi
    fi
  od
}

proctype sleeper() {
  byte word, at;
  byte wait = 0;
  do
  :: wait < 2 ->
    wait++;
    lock();
    /* begin_wait() */
    load(SLEEPER, WORD, word, at);
    word = next_generation(word) * 8 + parking;
    store_release(SLEEPER, WORD, word);
    if
    :: cancel_flag ->
      store_release(SLEEPER, WORD, word - parking + idle);
      store_release(SLEEPER, LOCK, 0);
      cancelled_seen = true;
      break
    :: !cancel_flag
    fi;
    queued = true;
    waits_begun++;
    /* park_fiber(): the first wait has a timer, the second has none */
    if
    :: wait == 1 -> stamp = word; timer_armed = true
    :: else
    fi;
    running = false;
    /* after_switch(), by whoever runs next on this processor */
#ifdef UNLOCK_FIRST
    saved = true;
    store_release(SLEEPER, LOCK, 0);
    store_release(SLEEPER, WORD, word - parking + waiting);
#else
#ifdef PUBLISH_FIRST
    store_release(SLEEPER, WORD, word - parking + waiting);
    saved = true;
#else
    saved = true;
    store_release(SLEEPER, WORD, word - parking + waiting);
#endif
    store_release(SLEEPER, LOCK, 0);
#endif
end_asleep:
    atomic {
      runnable > 0 ->
      runnable--;
      assert(!running);
      running = true;
      saved = false
    };
    word = memory[WORD];
    assert(state_of(word) == fired || state_of(word) == timed_out || state_of(word) == cancelled);
    if
    :: state_of(word) == fired -> grants_taken++
    :: else ->
      assert(state_of(word) != timed_out || wait == 1);
      lock();
      queued = false;
      store_release(SLEEPER, LOCK, 0);
      if
      :: state_of(word) == cancelled -> cancelled_seen = true; break
      :: else
      fi
    fi
  :: wait == 2 -> break
  od;
  ended = true
}

/* Has two things to grant, keeps what it finds nobody to give to. */
proctype claimer() {
  byte seen;
  byte rounds = 0;
  do
  :: rounds < 2 ->
    rounds++;
    lock();
    if
    :: queued -> /* wait_queue::claim_front() */
      queued = false;
      seen = memory[WORD];
      if
      :: state_of(seen) == waiting ->
        if
        :: atomic { memory[WORD] == seen -> memory[WORD] = seen - waiting + fired };
          grants++;
          memory[LOCK] = 0;
          unpark()
        :: memory[WORD] != seen -> memory[LOCK] = 0
        fi
      :: else ->
        /* Under the lock it is over, never on its way. */
        assert(state_of(seen) != parking);
        memory[LOCK] = 0
      fi
    :: !queued -> memory[LOCK] = 0
    fi
  :: true -> break
  od
}

proctype timer() {
  byte seen;
  if
  :: timer_armed -> claim_from_outside(stamp, timed_out, seen)
  :: ended
  fi
}

proctype canceller() {
  byte seen, word;
  cancel_flag = true;
#ifndef WITHOUT_HEAVY_FENCE
  drained(SLEEPER);
#endif
  word = memory[WORD];
  if
  :: state_of(word) == parking || state_of(word) == waiting -> claim_from_outside(word, cancelled, seen)
  :: else
  fi
}

init {
  atomic {
    run sleeper();
    run claimer();
    run timer();
    if
    :: run canceller()
    :: true
    fi
  };
  timeout;
  assert(grants == grants_taken);
  assert(ended || !cancel_flag);
  assert(ended || state_of(memory[WORD]) == waiting);
  assert(ended || queued)
}
