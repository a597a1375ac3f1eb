/* The end of a timeout() scope against its alarm (sync/cancel/timeout.cpp, expire() and begin_wait() in runtime/sched/park.cpp): a fiber that waits
   once inside the scope, leaves it, and waits once more, outside; the alarm; somebody who grants what it waits for.

   Fences are not the question here (park.pml has them): steps are sequentially consistent.
   Checked: the shared state is freed once and not touched after; the alarm never touches a fiber whose scope is gone; the reason is
   taken back as often as it was added, so that the wait outside is never ended by it; exactly one claimer ends a wait; nobody sleeps for
   good.

   Weakened twins, which must fail: -DWITHOUT_LOCK (the alarm looks at the target and goes on without the lock), -DKEEP_TARGET (the
   scope's end leaves the target there), -DWITHOUT_FORGET (it does not take the reason back), -DOWNER_FREES (it frees the state though
   the alarm has begun to ring), -DWITHOUT_REASON (the alarm claims the wait, but leaves no reason: one that is about to begin is not
   ended). */
#define idle 0
#define parking 1
#define waiting 2
#define fired 3
#define cancelled 4

#define armed 0
#define disarmed 1
#define ringing 2

byte state = idle;        /* of the fiber's claim word */
byte wait_number = 0;     /* its generation */
byte alarm_state = armed;
byte reasons = 0;
byte runnable = 0;
bool ended = false;       /* the fiber, its control block with it */

/* The shared state. */
bool lock_held = false;
bool target = true;
bool expired = false;
byte references = 2;
bool freed = false;

inline lock() { atomic { !lock_held -> assert(!freed); lock_held = true } }
inline unlock() { d_step { assert(!freed); lock_held = false } }
inline release() {
  d_step {
    assert(references > 0 && !freed);
    references--;
    freed = (references == 0)
  }
}

/* Leaves `how`: fired or cancelled. */
inline wait_once(how) {
  d_step { wait_number++; state = parking };
  if
  :: reasons != 0 -> state = idle; how = cancelled
  :: reasons == 0 ->
    state = waiting;
end_asleep:
    d_step { runnable > 0 -> runnable-- };
    how = state;
    assert(how == fired || how == cancelled);
    state = idle
  fi
}

proctype fiber() {
  byte how;
  bool mine = false;
  wait_once(how);
  /* timeout_scope::close() */
  if
  :: atomic { alarm_state == armed -> alarm_state = disarmed };
    release();
    release()
  :: alarm_state == ringing ->
    lock();
#ifndef KEEP_TARGET
    target = false;
#endif
    mine = expired;
    unlock();
#ifdef OWNER_FREES
    freed = true
#else
    release()
#endif
  fi;
#if !defined(WITHOUT_FORGET) && !defined(WITHOUT_REASON)
  if
  :: mine -> d_step { assert(reasons > 0); reasons-- }
  :: !mine
  fi;
#endif
  assert(how != cancelled || mine);
  wait_number++;
  state = parking;
  assert(reasons == 0);
  state = waiting;
end_asleep_outside:
  d_step { runnable > 0 -> runnable-- };
  assert(state == fired);
  state = idle;
  assert(runnable == 0);
  ended = true
}

inline unpark() { d_step { assert(runnable == 0 && !ended); runnable++ } }

proctype alarm() {
  bool there, claimed = false;
  byte number;
  if
  :: atomic { alarm_state == armed -> alarm_state = ringing };
    lock();
    there = target;
#ifdef WITHOUT_LOCK
    unlock();
#endif
    if
    :: there ->
      assert(!ended);
      expired = true;
#ifndef WITHOUT_REASON
      reasons++;
#endif
      /* claim_to_give_up() */
      number = wait_number;
      do
      :: wait_number != number -> break
      :: wait_number == number && state == parking -> (state != parking || wait_number != number)
      :: atomic { wait_number == number && state == waiting -> state = cancelled };
        claimed = true;
        break
      :: wait_number == number && state != parking && state != waiting -> break
      od
    :: !there
    fi;
#ifndef WITHOUT_LOCK
    unlock();
#endif
    if
    :: claimed -> unpark()
    :: !claimed
    fi;
    release()
  :: alarm_state == disarmed
  fi
}

/* Grants the wait inside, or not; that outside always. */
proctype granter() {
  bool generous;
  if
  :: generous = true
  :: generous = false
  fi;
  do
  :: atomic { state == waiting && (wait_number == 2) -> state = fired };
    unpark();
    break
  :: atomic { generous && state == waiting && wait_number == 1 -> state = fired };
    unpark()
  :: ended -> break
  od
}

init {
  atomic {
    run fiber();
    run alarm();
    run granter()
  };
  timeout;
  assert(ended && freed && reasons == 0)
}
