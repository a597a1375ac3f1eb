// Alarms. The two tables say which thread may do what with an alarm's node. timer_heap.hpp describes its state word.
//
//   the node lies with   armed by         disarmed or moved by
//   a processor          a fiber there    the holder of that processor: it takes the node out of the heap
//                                         any other thread: it disarms only, and moves the word to `cancelling`, then
//                                         to `dead`
//   the outside timers   any other caller any thread, under their lock
//
//   word        node_ points to it   the node is freed by
//   armed       yes                  the thread that disarms it, while it holds the heap
//   fired       until it is armed    the alarm; its function has been called, or is about to be
//               or disarmed again
//   orphaned    as for fired         the alarm; the runtime has ended, its function is never called
//   cancelling  no                   nobody yet. The heap is not destroyed: the canceller may touch it
//   dead        no                   the heap
//
// A canceller waits for nothing while the word says `cancelling`. A thread that pops the node holds its processor and
// waits for the word, and the holder of the idle set's lock may be waiting for that processor. So the canceller tells
// the runtime that it may be stuck only after the word says `dead`. It counts as a visitor until then, and the runtime
// is not destroyed before its visitors have left.
//
// Rejected: to count the dead before the word is moved. A timer that fires meanwhile would have to be uncounted, and a
// heap whose count is too high looks empty to deadlock detection.
// Rejected: to count them after it. The runtime may be gone by then.
#include <coir/detail/alarm.hpp>

#include <algorithm>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/error.hpp>

#include "base/report.hpp"
#include "sched/outside_timers.hpp"
#include "sched/registry.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

/// The bracket of the calling thread's worker; null: it has no processor to enter (or has lost it).
processor* enter(worker* w) noexcept { return w != nullptr ? w->enter() : nullptr; }

// The word of a node of p is `cancelling`: p, and its scheduler, stay until it is not.
void count_cancelled(processor& p) noexcept {
  p.timers.note_dead();
  // Clean it here: no worker looks after an idle processor before its next deadline. If the processor cannot be locked,
  // its holder cleans the heap, or the next canceller does.
  if (p.timers.wants_cleaning() && p.try_lock()) {
    p.timers.clean();
    p.unlock();
  }
}

/// Called by the thread that has moved the word to `cancelling`.
void cancel_from_outside(timer_node& n, const worker* w) noexcept {
  processor& p = *n.home;
  scheduler& home = *p.home();
  count_cancelled(p);
  // Without this timer its runtime may be stuck, and none of its workers would find out.
  const bool tell = (w == nullptr || w->home != &home) && p.timers.seems_idle();
  if (tell) home.come_in();
  n.word.store(timer_node::state::dead, std::memory_order_release);  // the node's last touch; pairs with settled()
  if (!tell) return;
  home.note_quiescent();
  home.go_out();
}

}  // namespace

[[gnu::noinline]] void alarm::arm(deadline when, function f, void* arg, std::uint64_t stamp) {
  disarm();  // frees the node of a call that is over
  when = std::min(when, no_deadline - 1);
  tsan_release(arg);
  worker* w = current_worker();
  processor* p = enter(w);
  if (p == nullptr) {
    outside_timers::arm(node_, when, f, arg, stamp);
    return;
  }
  try {
    node_ = w->home->push_timer(*p, when, f, arg, stamp);
    node_->announced = true;
  } catch (...) {
    w->leave();
    throw;
  }
  w->leave();
}

[[gnu::noinline]] bool alarm::move(deadline when, std::uint64_t stamp) noexcept {
  timer_node* n = node_;
  if (n == nullptr || n->home == nullptr) return false;
  worker* w = current_worker();
  processor* here = enter(w);
  if (here == nullptr) return false;
  // As in disarm(). While the processor is held, nobody else fires it.
  const bool ours = n->home == here && n->word.load(std::memory_order_acquire) == timer_node::state::armed;
  if (ours) {
    tsan_release(n->arg);
    n->stamp = stamp;
    w->home->move_timer(*here, *n, std::min(when, no_deadline - 1));
  }
  w->leave();
  return ours;
}

[[gnu::noinline]] bool alarm::disarm() noexcept {
  timer_node* n = std::exchange(node_, nullptr);
  if (n == nullptr) return false;
  if (n->home == nullptr) return outside_timers::disarm(n);
  worker* w = current_worker();
  if (processor* here = enter(w)) {
    // `armed` means that the heap is still there, so the address is not that of a former processor.
    const bool ours = n->home == here && n->word.load(std::memory_order_acquire) == timer_node::state::armed;
    if (ours) here->timers.erase(*n);
    w->leave();
    if (ours) return true;
  }
  timer_node::state seen = timer_node::state::armed;
  // acq_rel: pairs with pop_due() and abandon(); the loser leaves the node to the winner.
  if (n->word.compare_exchange_strong(seen, timer_node::state::cancelling, std::memory_order_acq_rel)) {
    cancel_from_outside(*n, w);
    return true;
  }
  free_timer(n);
  return seen == timer_node::state::orphaned;
}

void no_memory_for(const char* what) noexcept { fatal("no memory for ", what); }

runtime_name::runtime_name(const char* what) : serial_(current_scheduler(what).serial()) {}

[[gnu::noinline]] bool runtime_name::start(start_record* record) const noexcept {
  if (worker* w = current_worker(); w != nullptr && w->home->serial() == serial_) {
    // A runtime does not end while its fiber is here. But a worker that fires a timer may have woken for that just
    // after the runtime was seen to have no fiber left.
    if (w->current == nullptr && w->home->closed()) return false;
    w->home->start(record, runnable::deepest);
    return true;
  }
  return runtime_registry::start_in(serial_, record);
}

}  // namespace coir::detail
