#include "engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <new>
#include <utility>

#include <pthread.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>
#include <coir/runtime.hpp>

#include "base/report.hpp"
#include "base/sanitizer.hpp"
#include "sched/switch.hpp"
#include "unobserved.hpp"

namespace coir::inline COIR_ABI::detail {

// ---- the scheduler, and what the program knows as its runtime ------------------------------------------------------

/// Its runtime object is never destroyed: ~runtime() is for those that own their scheduler.
struct engine::world {
  explicit world(explorer& by)
      : home(std::make_unique<scheduler>(as_runtime(), options{}, debug_options{}, 1, scheduler::role::explored)) {
    ::new (static_cast<void*>(storage)) runtime(*home);
    home->explorer_ = &by;
  }
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  runtime& as_runtime() noexcept { return *reinterpret_cast<runtime*>(storage); }

  alignas(runtime) std::byte storage[sizeof(runtime)];
  std::unique_ptr<scheduler> home;
};

namespace {

/// What main's fiber runs.
struct main_call {
  const std::function<void()>& f;
  void operator()() const { f(); }
};

constexpr std::uint64_t seed_of_programs = 0x5eed;

/// Whether the choice is between that a fault of the network happens and that it does not.
bool is_fault(operation what) noexcept {
  return what == operation::reset || what == operation::cut_off || what == operation::lose;
}

}  // namespace

engine::engine(const explore_options& o) : max_steps_(o.max_steps), network_(o.network) { catch_overflows(); }

engine::~engine() = default;

schedule outcome::played() const {
  schedule s;
  s.count = choices.size();
  s.check = check;
  for (const choice& c : choices) s.taken.push_back(c.taken);
  while (!s.taken.empty() && s.taken.back() == 0) s.taken.pop_back();
  return s;
}

// ---- a schedule ----------------------------------------------------------------------------------------------------

outcome& engine::run(const std::function<void()>& main, chooser& how, source_location at) {
  const unobserved bookkeeping;
  how_ = &how;
  begin();
  work(main, at);
  end();
  return outcome_;
}

outcome& engine::observe(const std::function<void()>& main, chooser& how, source_location at) {
  observed_ = true;
  run(main, how, at);
  observed_ = false;
  outcome_.fibers = trail_.fibers();
  outcome_.trail = trail_.text();
  return outcome_;
}

void engine::begin() {
  if (world_ == nullptr) {
    world_ = std::make_unique<world>(*this);
    home_ = world_->home.get();
    processor_ = home_->processors_[0].get();
    worker_ = home_->workers_.take(*home_, home_->idle_);
    worker_->started = false;  // there is no thread to be ended
    home_->idle_.lock();
    home_->idle_.hand_over(*worker_);
    home_->idle_.unlock();
    worker_->exceptions = thread_exception_state();
    worker_->tsan = tsan_current();
    tsan_release(worker_);
#if defined(COIR_ASAN)
    pthread_attr_t attributes;
    void* bottom = nullptr;
    if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
      ::pthread_attr_getstack(&attributes, &bottom, &worker_->asan.size);
      ::pthread_attr_destroy(&attributes);
    }
    worker_->asan.bottom = bottom;
#endif
    worker_->thread_id.store(static_cast<int>(::gettid()), std::memory_order_relaxed);
  }
  outcome_.kind = failure_kind::none;
  outcome_.what.clear();
  outcome_.choices.clear();
  outcome_.steps = 0;
  outcome_.fibers.clear();
  outcome_.trail.clear();
  trail_.clear();
  network_.begin();
  waiting_.clear();
  numbers_ = 0;
  hash_ = 0;
  fire_requested_ = ending_ = abandoned_ = false;
  ending_steps_ = 0;

  home_->serial_ = new_serial();
  home_->clock_.set_virtual(runtime_clock::virtual_start);
  home_->set_coarse_time(runtime_clock::virtual_start);
  home_->cancel_all_.store(false, std::memory_order_relaxed);
  processor_->random = random_source(seed_of_programs);
  worker_->next_id = 0;
  worker_->last_id = std::uint64_t{1} << 40;
}

void engine::work(const std::function<void()>& main, source_location at) {
  set_current_worker(worker_);
  home_->start(make_record<go_record<main_call>>(main_call{main}, at));
  for (;;) {
    worker_->enter_native();
    if (runnable* const r = pick()) {
      resume(*r);
      worker_->leave();
      if (abandoned_) break;
      continue;
    }
    worker_->leave();
    if (std::exchange(fire_requested_, false))
      fire_timer();
    else if (live() == 0 || !proceed())
      break;
  }
  set_current_worker(nullptr);
}

// Bracket open.
void engine::resume(runnable& r) {
  fiber* const f =
      r.what == runnable::kind::suspended ? static_cast<fiber*>(&r) : home_->stack_for(*worker_, *processor_, &r);
  if (f != nullptr) home_->switch_to_fiber(*worker_, *f);
  while (start_record* fresh = std::exchange(worker_->unstarted, nullptr))
    home_->switch_to_fiber(*worker_, home_->new_stack_for(*fresh));
}

void engine::end() {
  tsan_acquire(home_);  // what the fibers of this schedule did, before those of the next
  if (!ending_ && assertions_.any()) fail(failure_kind::assertion, {});
  if (outcome_.kind == failure_kind::assertion) outcome_.what = assertions_.text();
  assertions_.forget();
  if (!ending_) outcome_.check = static_cast<std::uint32_t>(hash_ ^ (hash_ >> 32));
  worker_->enter_native();
  for (fiber* f : kept_) home_->stacks_.put(nullptr, *f);
  kept_.clear();
  if (!abandoned_) processor_->timers.abandon();  // an after_func that is pending does not keep a runtime from ending
  worker_->leave();
  if (!abandoned_) return;
  // Its fibers stay where they are, with all that they hold. (The object of a fiber is at the upper end of its stack.)
  for (const fiber* f : home_->stacks().all())
    lsan_reach_from(f->bottom, static_cast<std::size_t>(reinterpret_cast<const char*>(f + 1) - f->bottom));
  static std::deque<std::unique_ptr<world>>& abandoned = *new std::deque<std::unique_ptr<world>>;
  abandoned.push_back(std::move(world_));
}

std::uint64_t engine::live() const noexcept {
  return processor_->started.value() + home_->outside_.started.load(std::memory_order_relaxed) -
         processor_->ended.value() - home_->outside_.ended.load(std::memory_order_relaxed);
}

// Nothing can run. False: the schedule is over.
bool engine::proceed() {
  if (home_->settling_.wake_all()) return true;
  if (ending_) return unwind_step();
  const deadline next = processor_->timers.earliest();
  if (next == no_deadline) {
    fail(failure_kind::deadlock, "all fibers are asleep");
    return true;
  }
  home_->clock_.set_virtual(std::max(next, home_->clock_.now()));
  home_->set_coarse_time(home_->clock_.now());
  fire_timer();
  return true;
}

// ---- time ----------------------------------------------------------------------------------------------------------

bool engine::timer_due() const noexcept {
  const deadline earliest = processor_->timers.earliest();
  return earliest != no_deadline && earliest <= home_->clock_.now();
}

// Fires one of the timers that are due. Called by a fiber, or on the native stack, with nothing held.
void engine::fire_timer() {
  timer_heap& timers = processor_->timers;
  const deadline time = home_->clock_.now();
  const std::size_t due = timers.count_due(time);
  due_timer timer;
  if (due <= 1 || ending_) {
    timer = timers.pop_due(time);
  } else {
    const std::uint32_t which = choose(operation::fire_timer, static_cast<std::uint32_t>(due));
    timer = timers.pop_due(time, which);
  }
  if (timer) timer();
}

// ---- choices -------------------------------------------------------------------------------------------------------

// The check sum must be the same wherever the program is loaded: so no addresses.
void engine::note(operation what, std::uint32_t who, std::uint32_t options) noexcept {
  hash_ ^= static_cast<std::uint64_t>(what) | std::uint64_t{who} << 8 | std::uint64_t{options} << 40;
  hash_ *= 0x9e3779b97f4a7c15U;
  hash_ ^= hash_ >> 29;
}

std::uint32_t engine::ask(const turn& t) noexcept {
  const std::uint32_t options = t.options();
  if (options == 1) return 0;
  const std::uint32_t taken = how_->choose(t);
  outcome_.choices.push_back({taken, options, t.can_go_on && t.yields, t.can_go_on && !t.yields});
  note(operation::settle, taken, options);
  return taken;
}

std::uint32_t engine::choose(operation what, std::uint32_t n) noexcept {
  const unobserved bookkeeping;
  const fiber* const f = worker_->current;
  note(what, f != nullptr ? f->turn_number : 0, n);
  if (n <= 1 || ending_) return 0;
  const std::uint32_t taken = is_fault(what) ? how_->choose_fault() : how_->choose_branch(n);
  outcome_.choices.push_back({taken, n, false, false});
  note(what, taken, n);
  if (observed_ && f != nullptr) trail_.branch(*f, what, taken, n);
  return taken;
}

candidate engine::take(std::size_t i) noexcept {
  const candidate c = waiting_[i];
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
  return c;
}

void engine::can_run(runnable& r) noexcept {
  const unobserved bookkeeping;
  if (r.turn_number == 0 || r.has_not_started()) {
    r.turn_number = ++numbers_;
    how_->begins(r.turn_number);
  }
  waiting_.push_back({&r, r.turn_number});
}

// The running fiber blocks or ends, or nothing runs.
runnable* engine::pick() noexcept {
  const unobserved bookkeeping;
  if (ending_) return pick_ending();
  if (waiting_.empty()) return nullptr;
  const turn t{waiting_.data(), static_cast<std::uint32_t>(waiting_.size()), 0, false, false, timer_due()};
  const std::uint32_t i = ask(t);
  if (i == t.waiting_count) {
    fire_requested_ = true;
    return nullptr;
  }
  return take(i).who;
}

void engine::decide(fiber& self, worker& w, operation what, const void* on, bool polled) {
  const unobserved bookkeeping;
  if (ending_) return decide_while_ending(self, w, what, polled);
  ++outcome_.steps;
  note(what, self.turn_number, polled ? 1 : 0);
  if (observed_) trail_.add(self, what, on);
  if (outcome_.steps > max_steps_)
    fail(failure_kind::livelock, "more than " + std::to_string(max_steps_) + " decisions");
  else if (assertions_.any())
    fail(failure_kind::assertion, {});
  if (ending_) return decide_while_ending(self, w, what, polled);

  const bool yields = polled || what == operation::yield;
  if (yields) how_->yields(self.turn_number);
  for (;;) {
    const turn t{waiting_.data(), static_cast<std::uint32_t>(waiting_.size()), self.turn_number, true, yields,
                 timer_due()};
    std::uint32_t i = ask(t);
    if (!yields && i-- == 0) return;
    if (i < t.waiting_count) {
      const candidate next = take(i);
      if (observed_) trail_.preempted();
      waiting_.push_back({&self, self.turn_number});
      return preempt(self, w, next.who);
    }
    if (!t.timer || i != t.waiting_count) return;  // it yields, and goes on
    fire_timer();
  }
}

// Another one goes on instead.
void engine::preempt(fiber& self, worker& w, runnable* r) {
  processor& p = *w.enter();
  self.state.store(run_state::queued, std::memory_order_relaxed);
  self.since = home_->coarse_time();
  home_->switch_away_to(r, self, w, p);
  w.leave();
}

bool engine::keeps_stack([[maybe_unused]] fiber& of) noexcept {
#if defined(COIR_TSAN)
  // To ThreadSanitizer, what ran on it happens before what runs there next.
  const unobserved bookkeeping;
  kept_.push_back(&of);
  return true;
#else
  return false;
#endif
}

void engine::close_socket(int number) noexcept {
  const unobserved bookkeeping;
  network_.close(number);
}

// ---- failures ------------------------------------------------------------------------------------------------------

void engine::failed(const std::exception_ptr& error) noexcept {
  const unobserved bookkeeping;
  if (!ending_) fail(failure_kind::exception, describe(error));
}

void engine::fail(failure_kind kind, std::string what) {
  outcome_.kind = kind;
  outcome_.what = std::move(what);
  outcome_.check = static_cast<std::uint32_t>(hash_ ^ (hash_ >> 32));
  if (observed_) trail_.note_fibers(*home_, waiting_);
  begin_ending();
}

}  // namespace coir::detail
