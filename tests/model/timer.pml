/* Who frees the timer of a wait (runtime/timer/timer_heap.hpp, pop_due() and clean() in timer_heap.cpp, disarm() in park.cpp).

   A fiber arms a timer on the processor where it parks. Whoever holds that processor pops what is due and drops what is dead. The
   fiber is woken by the timer or by somebody else, here or on another processor, and disarms.
   Checked: the node is freed exactly once, and neither side touches it after; the timer's claim is tried at most once, and by the
   end the node is gone, unless it is dead in the heap, which frees it later.

   Weakened twins, which must fail: -DREAD_AFTER_FIRED (pop_due() reads what to call after it has moved the word), -DSTORE_DEAD
   (disarm() stores `dead` instead of trying to move the word), -DERASE_FROM_AFAR (disarm() takes the node out of a heap that it does not
   hold). */
#define armed 0
#define fired 1
#define dead 2

byte word = armed;
bool in_heap = true;
bool freed = false;
bool processor_held = false; /* by its owner's bracket, or by try_lock() */
bool woken = false;          /* the fiber's wait is over */
byte claims = 0;
bool timer_claimed = false;

inline touch() { assert(!freed) }
inline release_node() {
  d_step {
    assert(!freed);
    freed = true
  }
}
inline hold() { atomic { !processor_held -> processor_held = true } }
inline let_go() { processor_held = false }

/* A worker that holds the timer's processor: the owner, a searcher, the keeper. */
proctype heap_holder() {
  bool due = false;
  do
  :: hold();
    if
    :: in_heap -> /* pop_due() */
      touch();
      in_heap = false;
#ifndef READ_AFTER_FIRED
      touch(); /* reads fire, arg, stamp */
#endif
      if
      :: atomic { word == armed -> word = fired };
        due = true;
#ifdef READ_AFTER_FIRED
        touch();
#endif
      :: word != armed -> release_node()
      fi
    :: in_heap -> /* clean() */
      touch();
      if
      :: word == dead -> in_heap = false; release_node()
      :: word != dead
      fi
    :: true
    fi;
    let_go();
    if
    :: due -> /* fire_timeout(): the claim, with nothing held */
      due = false;
      claims++;
      if
      :: atomic { !woken -> woken = true; timer_claimed = true }
      :: woken
      fi
    :: !due
    fi
  :: freed || word == dead -> break
  od
}

proctype somebody_else() {
  if
  :: atomic { !woken -> woken = true }
  :: woken
  fi
}

proctype sleeper() {
  bool at_home;
  woken;
  /* disarm(), inside the bracket of the processor where it runs now: the timer's, or another */
  if
  :: hold(); at_home = true
  :: at_home = false
  fi;
#ifdef ERASE_FROM_AFAR
  if
  :: word == armed -> touch(); in_heap = false; release_node(); goto out
  :: else
  fi;
#else
  if
  :: at_home && word == armed -> touch(); in_heap = false; release_node(); goto out
  :: else
  fi;
#endif
  touch(); /* reads home */
  if
#ifdef STORE_DEAD
  :: word = dead
#else
  :: atomic { word == armed -> word = dead } /* from here on it is the heap's */
  :: word != armed -> release_node()
#endif
  fi;
out:
  if
  :: at_home -> let_go()
  :: else
  fi
}

init {
  atomic {
    run heap_holder();
    run heap_holder();
    run somebody_else();
    run sleeper()
  };
  timeout;
  assert(claims <= 1);
  assert(freed || (word == dead && in_heap))
}
