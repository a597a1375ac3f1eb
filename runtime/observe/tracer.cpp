// The tracer: one for the process. While a trace is recorded, each worker fills a ring of its own (trace_ring.hpp), and
// a thread of the tracer's, the writer, empties the rings into the file (trace_file.hpp).
//
// Between two rounds the writer rests for at least least_rest, and so long that it takes no more than a thirtieth of a
// core. A ring holds what a worker records meanwhile unless it switches every few hundred nanoseconds. The writer's
// thread is counted as one of the runtimes' own, so that it does not stand in the way of deadlock detection.
//
// Locks, in this order: control (starts and ends of traces and of runtimes; held while the writer is joined, so the
// writer never takes it), output (the file and the consumer's side of the rings), table (the list of rings; short),
// then the idle set's.
//
// A ring belongs to its worker from the first trace that the worker sees to the end of its runtime. The ring is then
// kept for another worker, because a thread that was slow to see the end of a trace may still write into it. These
// events are older than the next trace, which skips them.
#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/trace.hpp>

#include "base/immortal.hpp"
#include "base/internal_memory.hpp"
#include "observe/trace_clock.hpp"
#include "observe/trace_file.hpp"
#include "sched/events.hpp"
#include "sched/registry.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI {

namespace detail {

namespace {

constexpr std::chrono::milliseconds least_rest{10};
constexpr int rest_to_work = 30;

class process_tracer {
 public:
  void attach(scheduler& s) {
    const std::lock_guard control(control_);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
    const char* path = std::getenv("COIR_TRACE");
    if (!file_ && !environment_done_ && path != nullptr && *path != '\0') {
      begin(path);
      of_environment_ = true;
    } else if (of_environment_ && !writer_.joinable()) {
      start_writer();  // after a time without any runtime
    }
    runtimes_.push_back(&s);
    if (file_) {
      const std::lock_guard output(output_);
      file_->name_runtime(s.serial(), s.processor_count());
    }
  }

  void detach(scheduler& s) noexcept {
    const std::lock_guard control(control_);
    std::erase(runtimes_, &s);
    runs_ended_ += s.runs();
    {
      const std::lock_guard output(output_);
      if (file_) drain_all();
      const std::lock_guard table(table_);
      for (const auto& w : workers_) {
        if (w->who == nullptr || w->runtime != s.serial()) continue;
        if (file_) file_->end(*w);
        w->who = nullptr;
      }
    }
    if (of_environment_ && runtimes_.empty()) {
      stop_writer();
      try {
        complete();
      } catch (const std::system_error& e) {
        std::fprintf(stderr, "%s\n", e.what());
      }
    }
  }

  void join(worker& w) noexcept {
    if (!on_.load(std::memory_order_acquire)) return;
    const std::lock_guard table(table_);
    if (!on_.load(std::memory_order_relaxed)) return;
    try {
      give_ring(w);
    } catch (const std::bad_alloc&) {  // its events count as dropped
    }
  }

  void start(const std::string& path) {
    const std::lock_guard control(control_);
    if (file_) throw std::logic_error("coir: trace_start called while a trace is being recorded");
    begin(path);
  }

  trace_summary stop() {
    const std::lock_guard control(control_);
    if (!file_) throw std::logic_error("coir: trace_stop called, but no trace is being recorded");
    {
      const std::lock_guard output(output_);
      const std::lock_guard table(table_);
      file_->end_at(trace_ticks());  // before the first that does not record any more
      end_recording();
    }
    stop_writer();
    environment_done_ = environment_done_ || of_environment_;
    of_environment_ = false;
    const std::unique_ptr<trace_file> last = [this] {
      const std::lock_guard output(output_);
      drain_all();
      const std::lock_guard table(table_);
      for (const auto& w : workers_) file_->end(*w);
      return std::move(file_);
    }();
    const trace_summary result{last->recorded(), dropped(*last)};
    last->finish(result.dropped);
    return result;
  }

 private:
  // Under control_.
  void begin(const std::string& path) {
    auto file = std::make_unique<trace_file>(path, trace_ticks());
    for (const scheduler* s : runtimes_) file->name_runtime(s->serial(), s->processor_count());
    const std::lock_guard output(output_);
    const std::lock_guard table(table_);
    file_ = std::move(file);
    try {
      on_.store(true, std::memory_order_release);
      runs_before_ = runs();
      for (const auto& w : workers_) {
        w->ring.done(w->ring.available());
        w->open = false;
        w->since = trace_ticks();
      }
      for (scheduler* s : runtimes_)
        for (worker* w : s->started_workers()) give_ring(*w);
      start_writer();
    } catch (...) {
      end_recording();
      file_.reset();
      throw;
    }
  }

  // Under table_: no worker records any more.
  void end_recording() noexcept {
    on_.store(false, std::memory_order_release);
    for (const auto& w : workers_)
      if (w->who != nullptr) w->who->set_trace(nullptr, std::memory_order_relaxed);
  }

  // Under table_.
  void give_ring(worker& w) {
    auto found = std::find_if(workers_.begin(), workers_.end(), [&w](const auto& each) { return each->who == &w; });
    if (found == workers_.end()) {
      found = std::find_if(workers_.begin(), workers_.end(), [](const auto& each) { return each->who == nullptr; });
      if (found == workers_.end()) {
        workers_.push_back(std::make_unique<traced_worker>());
        found = std::prev(workers_.end());
      }
      traced_worker& t = **found;
      t.who = &w;
      t.runtime = w.home->serial();
      t.index = w.home->index_of(w);
    }
    w.lost_at.store(0, std::memory_order_relaxed);
    w.set_trace(&(*found)->ring, std::memory_order_release);  // pairs with open_ring()
  }

  // Under control_.
  void start_writer() {
    ending_ = false;
    writer_ = runtime_threads::start([this] { write(); });
  }

  void stop_writer() noexcept {
    if (!writer_.joinable()) return;
    runtime_threads::forget(1);
    {
      const std::lock_guard wake(wake_lock_);
      ending_ = true;
    }
    wake_.notify_one();
    writer_.join();
  }

  void complete() {
    const std::lock_guard output(output_);
    drain_all();
    file_->finish(dropped(*file_));
  }

  void write() {
    std::chrono::nanoseconds rest = least_rest;
    for (;;) {
      {
        std::unique_lock wake(wake_lock_);
        if (wake_.wait_for(wake, rest, [this] { return ending_; })) return;
      }
      const auto begin = std::chrono::steady_clock::now();
      {
        const std::lock_guard output(output_);
        drain_all();
      }
      rest = std::max<std::chrono::nanoseconds>(least_rest, (std::chrono::steady_clock::now() - begin) * rest_to_work);
    }
  }

  // Under output_.
  void drain_all() {
    file_->set_factor(clock_.nanoseconds_per_tick());
    std::vector<traced_worker*> all;
    {
      const std::lock_guard table(table_);
      for (const auto& w : workers_) all.push_back(w.get());
    }
    for (traced_worker* w : all) file_->drain(*w);
    const std::lock_guard table(table_);
    if (!on_.load(std::memory_order_relaxed)) return;
    for (traced_worker* w : all)  // those whose ring was full
      if (w->who != nullptr && w->ring.available() <= trace_ring::capacity / 2)
        w->who->set_trace(&w->ring, std::memory_order_release);
  }

  // Under control_. All runs of fibers so far.
  std::uint64_t runs() const {
    std::uint64_t n = runs_ended_;
    for (const scheduler* s : runtimes_) n += s->runs();
    return n;
  }

  // Under control_, the rings drained: runs that are not in the file.
  std::uint64_t dropped(const trace_file& file) const {
    const std::uint64_t all = runs() - runs_before_;
    return all - std::min(all, file.recorded_runs());
  }

  std::mutex control_;
  internal_vector<scheduler*> runtimes_;
  bool of_environment_ = false;  // the trace is COIR_TRACE's: it ends with the last runtime, and goes on with the next
  bool environment_done_ = false;  // trace_stop() has ended it
  std::thread writer_;
  std::uint64_t runs_ended_ = 0;   // of runtimes that are gone
  std::uint64_t runs_before_ = 0;  // when the trace began

  std::mutex output_;
  trace_clock clock_;
  std::unique_ptr<trace_file> file_;  // set: a trace is being recorded; changes under both control_ and output_

  std::mutex table_;
  std::vector<std::unique_ptr<traced_worker>> workers_;
  std::atomic<bool> on_{false};

  std::mutex wake_lock_;
  std::condition_variable wake_;
  bool ending_ = false;
};

process_tracer& the_tracer() { return immortal<process_tracer>(); }

}  // namespace

void tracer::attach(scheduler& s) { the_tracer().attach(s); }
void tracer::detach(scheduler& s) noexcept { the_tracer().detach(s); }
void tracer::join(worker& w) noexcept { the_tracer().join(w); }

}  // namespace detail

void trace_start(const std::string& path) { detail::the_tracer().start(path); }

trace_summary trace_stop() { return detail::the_tracer().stop(); }

}  // namespace coir
