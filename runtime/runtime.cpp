#include <coir/runtime.hpp>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>

#include <coir/detail/abi.hpp>
#include <coir/detail/hook_services.hpp>
#include <coir/detail/local_table.hpp>
#include <coir/error.hpp>

#include "base/cpu_count.hpp"
#include "base/debug_options.hpp"
#include "base/futex.hpp"
#include "base/immortal.hpp"
#include "base/report.hpp"
#include "base/sanitizer.hpp"
#include "base/shadow_stack.hpp"
#include "observe/blocked_watch.hpp"
#include "observe/held_locks.hpp"
#include "sched/events.hpp"
#include "sched/overflow.hpp"
#include "sched/registry.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI {

namespace detail {

namespace {

constexpr unsigned most_processors = 1024;

unsigned processors_for(const options& o) {
  if (o.processors > most_processors)
    throw std::invalid_argument("coir: options::processors is " + std::to_string(o.processors) + ", at most 1024");
  if (o.processors != 0) return o.processors;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
  if (const char* text = std::getenv("COIR_PROCS"); text != nullptr && *text != '\0') {
    char* end = nullptr;
    const long n = std::strtol(text, &end, 10);
    if (*end != '\0' || n < 1 || n > static_cast<long>(most_processors))
      throw std::invalid_argument("coir: COIR_PROCS is \"" + std::string(text) + "\", not a number from 1 to 1024");
    return static_cast<unsigned>(n);
  }
  return std::min(usable_cpus(), most_processors);
}

void check_stack_size(std::size_t size, const char* what) {
  if (size < smallest_stack || size > largest_stack)
    throw std::invalid_argument("coir: " + std::string(what) + "::stack_size is " + std::to_string(size) +
                                " bytes, not from 16 KiB to 1 GiB");
}

void check(const options& o) {
  check_stack_size(o.stack_size, "options");
  if (o.time_slice <= std::chrono::nanoseconds::zero())
    throw std::invalid_argument("coir: options::time_slice is not positive");
}

void delete_scheduler(scheduler* s) { delete s; }

void write_to_stderr(const char* report) {
  std::fprintf(stderr, "coir: %s\n", report);
  std::fflush(stderr);
}

}  // namespace

void main_fiber::signal() {
  end_locals();
  const fiber& self = *current_fiber();
  scheduler& home = *self.home;
  if (self.in_deadlock) deadlock_ = home.deadlocks().report();  // which stays until this fiber, too, has ended
  tsan_release(&home);
  done_.store(1, std::memory_order_release);  // the last touch: the waiting thread may go on
  home.waiting().notify();
}

bool main_fiber::done() const noexcept { return done_.load(std::memory_order_acquire) != 0; }

void check_run_outside() {
  if (current_worker() != nullptr) throw std::logic_error("coir: run called inside a fiber");
}

void wait_quietly(runtime& rt) noexcept {
  try {
    rt.wait();
  } catch (const deadlock& others) {
    write_to_stderr(others.what());  // main's own exception is on its way, but may be due to this
  }
}

scheduler& current_scheduler(const char* what) {
  if (worker* w = current_worker()) return *w->home;
  throw not_in_runtime(std::string(what) + " called outside a fiber");
}

void start(scheduler& where, start_record* record) noexcept { where.start(record); }

prepared_spawn::prepared_spawn(scheduler& where, const spawn_options& o) : where_(where), stack_class_(0) {
  if (o.stack_size != 0) {
    check_stack_size(o.stack_size, "spawn_options");
    stack_class_ = where.stacks().prepare(o.stack_size);
  }
  if (!o.name.empty()) name_ = std::make_unique<std::string>(o.name);
}

std::uint64_t new_serial() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

namespace {

/// Asks the system once: it reads files.
unsigned usable_cpus_once() {
  static const unsigned cpus = usable_cpus();
  return cpus;
}

}  // namespace

scheduler::scheduler(runtime& owner, const options& o, const debug_options& debug, unsigned processors, role as)
    : owner_(owner),
      debug_(debug),
      serial_(new_serial()),
      stacks_(o.stack_size),
      workers_(*this, processors, o.max_threads, debug_.heldlock != 0),
      queues_(processors),
      idle_(processors, usable_cpus_once()),
      role_(as),
      monitor_(processors, o.time_slice.count(), debug_, clock_.now()) {
  if (as != role::ordinary) clock_.set_virtual(runtime_clock::virtual_start);
  immortal<task_cancelled>();  // later throws copy this one
  immortal<timed_out>();
  refuse_shadow_stack();
  register_asymmetric_fence();
  catch_overflows();
  if (debug_.heldlock != 0) watch_locks();
  serve_hooks();
  for (unsigned i = 0; i < processors; ++i) processors_.push_back(std::make_unique<processor>(i, this));
  for (unsigned i = processors; i-- > 0;) idle_.put(*processors_[i]);
  if (as == role::explored) return;
  tracer::attach(*this);
  // One worker at least must exist; it goes to sleep at once. The others start when they are first woken.
  try {
    runtime_registry::add(*this);
    worker& first = *workers_.take(*this, idle_);
    idle_.add_sleeper(first);
    if (const int error = worker_supply::start(first); error != 0)
      throw std::system_error(error, std::generic_category());
    if (as == role::ordinary) monitor_.start(*this);
    if (debug_.blocked != 0) blocked_watch_ = std::make_unique<blocked_watch>(*this, debug_.blocked);
  } catch (...) {
    stop_threads();
    runtime_registry::remove(*this);
    tracer::detach(*this);
    throw;
  }
}

// Nothing is left to run. First end what may still start a worker's thread: a foreign thread that pushed the last
// fiber, and the monitor. Then end the workers.
void scheduler::stop_threads() noexcept {
  for (backoff wait; visitors_.load(std::memory_order_acquire) != 0;) wait();  // pairs with go_out()
  blocked_watch_.reset();
  monitor_.stop();
  idle_.lock();  // a worker that goes to sleep has seen stopping_, or sleeps before the wake below; one that ends as
                 // surplus is not counted here
  workers_.forget_threads();
  stopping_.store(true, std::memory_order_seq_cst);
  idle_.unlock();
  if (poller_.active()) poller_.ring();
  workers_.end_threads();
}

scheduler::~scheduler() {
  if (role_ != role::explored) {
    stop_threads();
    runtime_registry::remove(*this);
  }
  // Alarms that are still armed go back to their owners. Some owners may be cancelling one right now.
  for (const auto& p : processors_) {
    for (backoff wait; !p->try_lock();) wait();
    p->timers.abandon();
    p->unlock();
  }
  // A canceller has entered as a visitor before the cancellation could be seen.
  for (backoff wait; visitors_.load(std::memory_order_acquire) != 0;) wait();  // pairs with go_out()
  if (role_ != role::explored) tracer::detach(*this);
}

}  // namespace detail

runtime::runtime(options o) : scheduler_(nullptr, &detail::delete_scheduler) {
  detail::refuse_in_exploration("a second runtime");
  detail::check(o);
  scheduler_.reset(
      new detail::scheduler(*this, o, detail::debug_options::from_environment(), detail::processors_for(o)));
}

runtime::runtime(options o, detail::in_virtual_time) : scheduler_(nullptr, &detail::delete_scheduler) {
  detail::refuse_in_exploration("a second runtime");
  detail::check(o);
  scheduler_.reset(new detail::scheduler(*this, o, detail::debug_options::from_environment(), 1,
                                         detail::scheduler::role::simulated));
}

runtime::runtime(detail::scheduler& explored) noexcept : scheduler_(&explored, [](detail::scheduler*) {}) {}

runtime::~runtime() {
  const detail::worker* w = detail::current_worker();
  if (w != nullptr && w->home == scheduler_.get()) detail::fatal("a runtime is destroyed by one of its own fibers");
  scheduler_->wait_drained();
  // From now on neither a timer nor a thread outside starts a fiber that the runtime's owner does not know of. One may
  // just have done so.
  detail::runtime_registry::close(*scheduler_);
  scheduler_->wait_drained();
  detail::tsan_acquire(scheduler_.get());
  if (const auto report = scheduler_->deadlocks().take_report()) detail::write_to_stderr(report->c_str());
}

void runtime::check_outside() const { detail::check_run_outside(); }

// The fiber uses its caller's frame, which therefore must not be left before it has ended.
void runtime::wait_for_main(detail::main_fiber& done) noexcept {
  scheduler_->wait_until([&done] { return done.done(); });
  detail::tsan_acquire(scheduler_.get());
}

void detail::main_fiber::rethrow(const std::exception_ptr& error) const {
  try {
    rethrow_failure(error);
  } catch (const task_cancelled&) {
    if (deadlock_ != nullptr) throw deadlock(*deadlock_);
    throw;
  }
}

void runtime::wait() {
  if (detail::current_worker() != nullptr) throw std::logic_error("coir: runtime::wait called inside a fiber");
  scheduler_->wait_drained();
  detail::tsan_acquire(scheduler_.get());
  if (const auto report = scheduler_->deadlocks().take_report()) throw deadlock(*report);
}

void runtime::cancel() { scheduler_->cancel_all(); }

unsigned runtime::processors() const noexcept { return scheduler_->processor_count(); }

runtime& runtime::current() {
  if (detail::fiber* f = detail::current_fiber()) return f->home->owner();
  throw not_in_runtime("coir::runtime::current called outside a fiber");
}

}  // namespace coir
