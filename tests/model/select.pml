/* select and the claim word (channel/select.cpp: link(), unlink(), unlock_all_of(); waiter::claim() in park.hpp; try_send() and
   close() in chan_core.cpp): two selects that both wait to receive from two unbuffered channels, a sender on each, one of whom may
   give up, a timeout of the one select; with -DCLOSE somebody closes the first channel, and it has no sender.

   How a sleeper and a claimer agree on the word is park.pml's; here parking is one step. What matters is who may be claimed
   through which node, and when the frame that the nodes lie in may go.
   Checked: a sleeper is claimed once and unparked once; every value that was sent was received, once; a node is not touched when its
   frame is gone, and none is queued then; no sender sleeps beside a receiver, and nobody on a closed channel; all locks are free.

   Weakened twins, which must fail: -DWITHOUT_CAS (look at the word, then write it), -DWITHOUT_UNLINK (the sleeper leaves its other
   nodes), -DUNLINK_WITHOUT_LOCK, -DWAKE_FIRST (the claimer unparks, and unlinks the node then), -DUNORDERED_LOCKS, -DLINK_LATE (the
   locks are released between the look and the linking), -DGIVE_UP_ON_DEAD (a claimer whose first node is dead does not try the next),
   -DREADS_FRAME_AT_END (whoever releases the locks after the switch reads the frame after the last one). */
#define waiting 1
#define fired 2 /* plus the channel */
#define ended 4 /* timed out, cancelled */

#define SELECTS 2
#define SENDER 2 /* plus the channel */
#define SLEEPERS 4
#define NOBODY 9

bool lock[2];
byte word[SLEEPERS];
byte runnable[SLEEPERS];
byte unparked[SLEEPERS];
bool gone[SLEEPERS]; /* the frame */
bool finished[SLEEPERS];

/* Per channel: selects in the order in which they came; the sender. */
typedef queue { byte who[SELECTS]; byte count };
queue receivers[2];
bool sender_queued[2];
bool closed[2];

byte sent = 0, received = 0;

inline take(ch) { atomic { !lock[ch] -> lock[ch] = true } }
inline touch(who) { assert(!gone[who]) }

inline remove(ch, w) {
  d_step {
    touch(w);
    if
    :: receivers[ch].count > 0 && receivers[ch].who[0] == w ->
      receivers[ch].who[0] = receivers[ch].who[1];
      receivers[ch].who[1] = 0;
      receivers[ch].count--
    :: receivers[ch].count > 1 && receivers[ch].who[1] == w && receivers[ch].who[0] != w ->
      receivers[ch].who[1] = 0;
      receivers[ch].count--
    :: else
    fi
  }
}

inline claim(w, how, won) {
#ifdef WITHOUT_CAS
  won = (word[w] == waiting);
  if
  :: won -> word[w] = how
  :: !won
  fi
#else
  d_step {
    won = (word[w] == waiting);
    if
    :: won -> word[w] = how
    :: else
    fi
  }
#endif
}

inline unpark(w) { d_step { unparked[w]++; assert(unparked[w] == 1); runnable[w]++ } }

/* Under the lock: claims the first select that still sleeps; NOBODY if there is none. */
inline claim_receiver(ch, w, won) {
  do
  :: receivers[ch].count == 0 -> w = NOBODY; break
  :: receivers[ch].count > 0 ->
    w = receivers[ch].who[0];
#ifdef WAKE_FIRST
    touch(w);
    claim(w, fired + ch, won);
    if
    :: won -> unpark(w); remove(ch, w); break
    :: !won -> remove(ch, w)
    fi
#else
    remove(ch, w);
    touch(w); /* the node: whose it is, where the value goes */
    claim(w, fired + ch, won);
    if
    :: won -> touch(w); break
    :: !won
    fi
#endif
#ifdef GIVE_UP_ON_DEAD
    ;
    w = NOBODY;
    break
#endif
  od
}

/* What is done after the switch, in the name of whoever comes next. */
proctype releaser(byte me, first) {
  touch(me);
  lock[first] = false;
  touch(me);
  lock[1 - first] = false;
#ifdef READS_FRAME_AT_END
  touch(me)
#endif
}

inline unlink(ch) {
#ifndef WITHOUT_UNLINK
#ifdef UNLINK_WITHOUT_LOCK
  remove(ch, me)
#else
  take(ch);
  remove(ch, me);
  lock[ch] = false
#endif
#else
  skip
#endif
}

proctype selector(byte me) {
  byte first = 0, other, ch;
  bool won;
#ifdef UNORDERED_LOCKS
  first = me;
#endif
  take(first);
  take(1 - first);
look:
  /* take_ready(): any of the ready ones */
  if
  :: sender_queued[0] -> ch = 0
  :: sender_queued[1] -> ch = 1
  :: closed[0] ->
    lock[0] = false;
    lock[1] = false;
    goto out
  :: !sender_queued[0] && !sender_queued[1] && !closed[0] -> goto sleep
  fi;
  sender_queued[ch] = false;
  claim(SENDER + ch, fired, won);
  if
  :: won ->
    received++;
    lock[0] = false;
    lock[1] = false;
    unpark(SENDER + ch);
    goto out
  :: !won -> goto look
  fi;
sleep:
#ifdef LINK_LATE
  lock[0] = false;
  lock[1] = false;
  take(0);
  take(1);
#endif
  skip;
  d_step {
    receivers[0].who[receivers[0].count] = me;
    receivers[0].count++;
    receivers[1].who[receivers[1].count] = me;
    receivers[1].count++;
    word[me] = waiting
  };
  run releaser(me, first);
end_asleep:
  d_step { runnable[me] == 1 -> runnable[me] = 0 };
  if
  :: word[me] == ended -> unlink(0); unlink(1)
  :: word[me] == fired -> unlink(1)
  :: word[me] == fired + 1 -> unlink(0)
  fi;
  if
  :: word[me] != ended && !closed[word[me] - fired] -> received++
  :: else
  fi;
out:
  skip;
  d_step {
    gone[me] = true;
    finished[me] = true;
    assert(receivers[0].count == 0 || receivers[0].who[0] != me);
    assert(receivers[0].count < 2 || receivers[0].who[1] != me);
    assert(receivers[1].count == 0 || receivers[1].who[0] != me);
    assert(receivers[1].count < 2 || receivers[1].who[1] != me)
  }
}

proctype sender(byte ch) {
  byte w;
  bool won;
  take(ch);
  claim_receiver(ch, w, won);
  if
  :: w != NOBODY ->
    sent++;
    lock[ch] = false;
#ifndef WAKE_FIRST
    unpark(w)
#endif
  :: w == NOBODY ->
    d_step { sender_queued[ch] = true; word[SENDER + ch] = waiting };
    lock[ch] = false;
end_asleep:
    d_step { runnable[SENDER + ch] == 1 -> runnable[SENDER + ch] = 0 };
    if
    :: word[SENDER + ch] == fired -> sent++
    :: word[SENDER + ch] == ended -> take(ch); sender_queued[ch] = false; lock[ch] = false
    fi
  fi;
  finished[SENDER + ch] = true
}

#ifdef CLOSE
proctype closer() {
  byte w, n = 0;
  byte woken[SELECTS];
  bool won;
  take(0);
  closed[0] = true;
  do
  :: claim_receiver(0, w, won);
    if
    :: w == NOBODY -> break
    :: w != NOBODY -> woken[n] = w; n++
    fi
  od;
  lock[0] = false;
  do
  :: n > 0 ->
    n--;
#ifndef WAKE_FIRST
    unpark(woken[n])
#endif
  :: n == 0 -> break
  od
}
#endif

/* A timer or a canceller: takes no lock. */
proctype gives_up(byte who) {
  bool won;
  if
  :: word[who] == waiting ->
    claim(who, ended, won);
    if
    :: won -> unpark(who)
    :: !won
    fi
  :: finished[who]
  fi
}

init {
  atomic {
    run selector(0);
    run selector(1);
    run gives_up(0);
#ifdef CLOSE
    run closer();
#else
    run sender(0);
    run gives_up(SENDER);
#endif
    run sender(1)
  };
  timeout;
  assert(!lock[0] && !lock[1]);
  assert(sent == received);
  assert(finished[0] || word[0] == waiting);
  assert(finished[1] || word[1] == waiting);
  assert(!closed[0] || (finished[0] && finished[1]));
  assert(!(sender_queued[0] || sender_queued[1]) || (finished[0] && finished[1]))
}
