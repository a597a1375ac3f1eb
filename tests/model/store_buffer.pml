/* Memory as weakly ordered hardware shows it: each thread has a buffer of stores that it sees at once and the others see when
   they are committed, at any later time. Models include this file; they define THREADS, CELLS and DEPTH before.

   Commit order: as x86 has it (TSO), first in, first out. With -DARM stores to different cells may overtake each other, but a
   release store overtakes nothing; loads stay in order, as the acquire loads of the protocols in question demand.

   A heavy fence (membarrier) has every thread empty its buffer at some moment between its beginning and its end. A light
   fence only keeps the compiler from reordering: here it is nothing at all. */

typedef store_buffer {
  byte cell[DEPTH];
  byte value[DEPTH];
  bool release[DEPTH];
  byte count
}

byte memory[CELLS];
store_buffer buffer[THREADS];

inline store_as(me, c, v, is_release) {
  d_step {
    assert(buffer[me].count < DEPTH);
    buffer[me].cell[buffer[me].count] = c;
    buffer[me].value[buffer[me].count] = v;
    buffer[me].release[buffer[me].count] = is_release;
    buffer[me].count++
  }
}

/* Waits for room first: a buffer that is full commits before the thread goes on. */
inline store(me, c, v) { buffer[me].count < DEPTH; store_as(me, c, v, false) }
inline store_release(me, c, v) { buffer[me].count < DEPTH; store_as(me, c, v, true) }

/* The thread's own newest store to the cell, else what memory holds. `at` is a local variable of the caller. */
inline load(me, c, into, at) {
  d_step {
    into = memory[c];
    at = 0;
    do
    :: at < buffer[me].count ->
      if
      :: buffer[me].cell[at] == c -> into = buffer[me].value[at]
      :: else
      fi;
      at++
    :: else -> break
    od;
    at = 0
  }
}

#define drained(me) (buffer[me].count == 0)

inline commit(me, i, k) {
  memory[buffer[me].cell[i]] = buffer[me].value[i];
  k = i;
  do
  :: k + 1 < buffer[me].count ->
    buffer[me].cell[k] = buffer[me].cell[k + 1];
    buffer[me].value[k] = buffer[me].value[k + 1];
    buffer[me].release[k] = buffer[me].release[k + 1];
    k++
  :: else -> break
  od;
  buffer[me].count--;
  buffer[me].cell[buffer[me].count] = 0;
  buffer[me].value[buffer[me].count] = 0;
  buffer[me].release[buffer[me].count] = false;
  k = 0
}

#define may_overtake_one(me) \
  (buffer[me].count > 1 && !buffer[me].release[1] && buffer[me].cell[1] != buffer[me].cell[0])
#define may_overtake_two(me)                                                               \
  (buffer[me].count > 2 && !buffer[me].release[2] && buffer[me].cell[2] != buffer[me].cell[0] && \
   buffer[me].cell[2] != buffer[me].cell[1])

active [THREADS] proctype committer() {
  byte k = 0;
end:
  do
  :: d_step { buffer[_pid].count > 0 -> commit(_pid, 0, k) }
#ifdef ARM
  :: d_step { may_overtake_one(_pid) -> commit(_pid, 1, k) }
  :: d_step { may_overtake_two(_pid) -> commit(_pid, 2, k) }
#endif
  od
}
