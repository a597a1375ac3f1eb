/* An alarm that is disarmed by somebody who may be anywhere, while its timer comes to be due, is cleaned away, or the runtime ends
   (runtime/alarm.cpp, disarm(); timer_heap.cpp: pop_due(), clean(), abandon(), settled()). timer.pml has the timers of waits, whose
   owner outlives neither.

   Checked: the node is freed exactly once, and nobody touches it after; the owner touches the heap only while it is there; the function
   is called exactly if disarm() has not promised that it never will be, or the runtime has ended first.

   Weakened twins, which must fail: -DDEAD_AT_ONCE (the owner moves the word straight to `dead`, and notes that in the heap then),
   -DWITHOUT_SETTLED (the heap does not wait for an owner who is cancelling), -DWITHOUT_ORPHANED (the heap that goes frees what is armed),
   -DCLEAN_CANCELLING (clean() takes `cancelling` for `dead`). */
#define armed 0
#define fired 1
#define dead 2
#define cancelling 3
#define orphaned 4

byte word = armed;
bool in_heap = true;
bool freed = false;
bool processor_held = false;
bool heap_gone = false;
byte calls = 0;
bool prevented = false;
bool disarmed = false;

inline touch() { assert(!freed) }
inline touch_heap() { assert(!heap_gone) }
inline release_node() {
  d_step {
    assert(!freed);
    freed = true
  }
}

inline settled() {
#ifndef WITHOUT_SETTLED
  word != cancelling;
#endif
  touch()
}

inline clean() {
  touch_heap();
  if
  :: in_heap ->
    touch();
    if
#ifdef CLEAN_CANCELLING
    :: word == dead || word == cancelling -> in_heap = false; release_node()
#else
    :: word == dead -> in_heap = false; release_node()
#endif
    :: else
    fi
  :: else
  fi
}

/* Whoever holds the processor, until the runtime ends; then its heap goes. */
proctype heap_holder() {
  bool due;
  do
  :: atomic { !processor_held -> processor_held = true };
    if
    :: in_heap -> /* pop_due() */
      touch();
      in_heap = false;
      if
      :: atomic { word == armed -> word = fired }; due = true
      :: word != armed -> settled(); release_node()
      fi
    :: clean()
    :: true
    fi;
    processor_held = false;
    if
    :: due -> due = false; calls++
    :: !due
    fi
  :: true -> break
  od;
  atomic { !processor_held -> processor_held = true };
  if
  :: in_heap -> /* abandon() */
    touch();
#ifdef WITHOUT_ORPHANED
    if
    :: word == armed -> release_node()
    :: word != armed -> settled(); release_node()
    fi;
#else
    if
    :: atomic { word == armed -> word = orphaned }
    :: word != armed -> settled(); release_node()
    fi;
#endif
    in_heap = false
  :: !in_heap
  fi;
  heap_gone = true
}

proctype owner() {
  byte seen;
  /* A fiber where the timer lies; that keeps its runtime from ending. */
  if
  :: atomic { !heap_gone && !processor_held -> processor_held = true };
    if
    :: word == armed -> touch(); in_heap = false; release_node(); prevented = true; processor_held = false; goto out
    :: else -> processor_held = false
    fi
  :: true
  fi;
  touch();
  if
#ifdef DEAD_AT_ONCE
  :: atomic { word == armed -> word = dead };
#else
  :: atomic { word == armed -> word = cancelling };
#endif
    touch_heap(); /* note_dead() */
    if
    :: atomic { !processor_held -> processor_held = true };
      clean();
      touch_heap();
      processor_held = false
    :: true
    fi;
    touch_heap();
#ifndef DEAD_AT_ONCE
    touch();
    word = dead;
#endif
    prevented = true
  :: word != armed ->
    seen = word;
    release_node();
    prevented = (seen == orphaned)
  fi;
out:
  disarmed = true
}

init {
  atomic {
    run heap_holder();
    run owner()
  };
  timeout;
  assert(disarmed && heap_gone && freed);
  assert(calls == (prevented -> 0 : 1))
}
