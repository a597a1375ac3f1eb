#include "sched/events.hpp"

#include <algorithm>

#include <coir/detail/abi.hpp>

#include "observe/held_locks.hpp"
#include "observe/trace_clock.hpp"
#include "observe/trace_ring.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::uint32_t most_lines = (1U << 16) - 1;

std::uint64_t address(const char* s) noexcept { return reinterpret_cast<std::uintptr_t>(s) & trace_event::all48; }

unsigned processor_of(const worker& w) noexcept {
  const processor* const p = w.held;
  return p != nullptr ? p->index() : trace_event::no_processor;
}

bool reserve(worker& w, trace_ring& ring) noexcept {
  // The dropped part begins at the end of the last recorded event.
  const auto now = [&w] {
    const std::uint64_t lost = w.lost_at.load(std::memory_order_relaxed);
    return lost != 0 ? lost : trace_ticks();
  };
  if (ring.reserve(now)) return true;
  w.set_trace(nullptr, std::memory_order_relaxed);  // until the tracer has emptied it
  return false;
}

/// The ring, if it has room for an event. What other threads did to the worker has been recorded there then.
trace_ring* open_ring(worker& w) noexcept {
  trace_ring* ring = w.trace();
  if (ring == nullptr || !reserve(w, *ring)) return nullptr;
  // relaxed: the worker learns of its loss by the bracket, which pairs with the thread that took the processor
  if (const std::uint64_t lost = w.lost_at.load(std::memory_order_relaxed); lost != 0) [[unlikely]] {
    trace_event e;
    e.what_kind = trace_event::move;
    e.ticks = lost;
    e.what = address(w.lost_why.load(std::memory_order_relaxed)) & trace_event::all48;
    ring->push(e);
    w.lost_at.store(0, std::memory_order_relaxed);
    if (!reserve(w, *ring)) return nullptr;
  }
  return ring;
}

/// `number` says which wake-up of the fiber is being followed, so that it is not taken for another one.
std::uint16_t number_of(const fiber& f) noexcept { return static_cast<std::uint16_t>((f.wait.word() >> 8) & 0xffff); }

void push_name(worker& w, trace_ring& ring, const fiber& f) noexcept {
  if (!reserve(w, ring)) return;
  trace_event e;
  e.what_kind = trace_event::name;
  e.set_text(f.name.text());
  ring.push(e);
}

void push_run(trace_ring& ring, const worker& w, const fiber& f, std::uint16_t number, const char* what) noexcept {
  trace_event e;
  e.what_kind = trace_event::run;
  e.ticks = trace_ticks();
  e.fiber = f.id & trace_event::all48;
  e.processor = processor_of(w) & trace_event::no_processor;
  e.place = address(f.spawn_file) & trace_event::all48;
  e.line = std::min(f.line, most_lines) & most_lines;
  e.what = address(what) & trace_event::all48;
  e.number = number;
  ring.push(e);
}

void push_stop(trace_ring& ring, const char* what) noexcept {
  trace_event e;
  e.what_kind = trace_event::stop;
  e.ticks = trace_ticks();
  e.what = address(what) & trace_event::all48;
  ring.push(e);
}

}  // namespace

[[gnu::noinline]] void trace_switch(worker& w, const fiber* from, fiber* to) noexcept {
  const char* what = "";
  if (from != nullptr) {
    switch (w.what_after) {
      case worker::after::nothing:
      case worker::after::requeued:
        what = "yield";
        break;
      case worker::after::parked:
        what = from->why.what;
        break;
      case worker::after::retired:
        what = "end";
        break;
    }
    if (w.checks_locks() && w.what_after != worker::after::retired) {
      const bool parks = w.what_after == worker::after::parked;
      report_held_locks(*from, parks ? "parks in " : "gives its processor to others", parks ? what : "");
    }
  }
  trace_ring* ring = open_ring(w);
  if (ring == nullptr) return;
  if (from != nullptr && from->name) {
    push_name(w, *ring, *from);
    if (!reserve(w, *ring)) return;
  }
  if (to != nullptr && to->state.load(std::memory_order_relaxed) != run_state::free) {
    std::uint16_t number = 0;
    if (to->wake_traced) {
      to->wake_traced = false;
      number = number_of(*to);
    }
    push_run(*ring, w, *to, number, what);
    return;
  }
  // The native stack, or that of a fiber that is about to begin and will say so itself.
  if (from != nullptr) push_stop(*ring, what);
}

[[gnu::noinline]] void trace_begin(worker& w, fiber& f) noexcept {
  if (const std::uint64_t* id = f.record->id()) f.id = *id;
  if (trace_ring* ring = open_ring(w)) push_run(*ring, w, f, 0, "end");
}

[[gnu::noinline]] void trace_wake(worker& w, fiber& f) noexcept {
  trace_ring* ring = open_ring(w);
  f.wake_traced = ring != nullptr && w.current != nullptr;
  if (!f.wake_traced) return;  // by a timer: there is no slice that an arrow could start from
  trace_event e;
  e.what_kind = trace_event::wake;
  e.fiber = f.id & trace_event::all48;
  e.number = number_of(f);
  ring->push(e);
}

[[gnu::noinline]] void trace_end(worker& w, const fiber& f) noexcept {
  if (w.checks_locks() && !f.carried_on) report_held_locks(f, "ends", "");
  if (!f.name && !f.carried_on) return;
  trace_ring* ring = open_ring(w);
  if (ring == nullptr) return;
  // The coroutine may be running elsewhere, or be gone, so the reason of its wait is not known any more. It has taken
  // its name along.
  if (f.carried_on)
    push_stop(*ring, "co_await");
  else
    push_name(w, *ring, f);
}

[[gnu::noinline]] void trace_steal(worker& w, const processor& thief, std::uint32_t fibers) noexcept {
  trace_ring* ring = open_ring(w);
  if (ring == nullptr) return;
  trace_event e;
  e.what_kind = trace_event::steal;
  e.ticks = trace_ticks();
  e.processor = thief.index() & trace_event::no_processor;
  e.number = fibers & 0xffffU;
  ring->push(e);
}

[[gnu::noinline]] void trace_lost(worker& w, const char* why) noexcept {
  if (w.trace() == nullptr) return;
  w.lost_why.store(why, std::memory_order_relaxed);
  w.lost_at.store(trace_ticks(), std::memory_order_relaxed);
}

[[gnu::noinline]] void trace_regained(worker& w) noexcept {
  trace_ring* ring = open_ring(w);
  if (ring == nullptr) return;
  trace_event e;
  e.what_kind = trace_event::move;
  e.ticks = trace_ticks();
  e.processor = processor_of(w) & trace_event::no_processor;
  e.what = address("a processor was idle") & trace_event::all48;
  ring->push(e);
}

}  // namespace coir::detail
