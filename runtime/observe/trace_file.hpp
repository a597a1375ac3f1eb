// Turns the events of many workers' rings into Chrome's JSON trace format, which Perfetto opens. A slice is written
// when it ends. A wake-up and the run that follows it come from different rings, in any order. An arrow is written when
// both have come, so that no arrow has an end missing. Used under the tracer's output lock.
//
// Tracks: process = runtime; thread 1 + i = processor i; thread 10001 + i = what the i-th thread runs without a
// processor.
#pragma once

#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include <coir/detail/abi.hpp>

#include "observe/trace_ring.hpp"

namespace coir::inline COIR_ABI::detail {

class worker;

/// A worker's ring, and the state of the fiber that it runs.
struct traced_worker {
  trace_ring ring;
  worker* who = nullptr;      // null: not in use
  std::uint64_t runtime = 0;  // its serial
  unsigned index = 0;         // in its runtime, in the order of appearance

  // --- of the consumer: under the tracer's output lock
  std::uint64_t since = 0;  // older events were recorded late, by a thread that had not seen the end of another trace
  bool ignored = false;     // the last event that has a time
  bool open = false;        // there is a slice
  trace_event slice;
  std::string name;
  std::vector<trace_event> wakes;  // in it
};

class trace_file {
 public:
  /// Throws std::system_error.
  trace_file(const std::string& path, std::uint64_t first_ticks);
  ~trace_file();
  trace_file(const trace_file&) = delete;
  trace_file& operator=(const trace_file&) = delete;

  void set_factor(double nanoseconds_per_tick) noexcept { factor_ = nanoseconds_per_tick; }

  void name_runtime(std::uint64_t runtime, unsigned processors);

  /// Later events are left out. Workers that do not record any more may lose their processors unseen.
  void end_at(std::uint64_t ticks) noexcept { until_ = ticks; }

  /// Takes the contents of the ring.
  void drain(traced_worker& w);

  /// Ends the open slice, if there is one, which no event will end: now, or where the trace ends.
  void end(traced_worker& w);

  /// Completes the file. Events that follow overwrite its end. Throws std::system_error.
  void finish(std::uint64_t dropped);

  std::uint64_t recorded() const noexcept { return recorded_; }
  std::uint64_t recorded_runs() const noexcept { return recorded_runs_; }

 private:
  struct point {
    std::uint64_t runtime;
    unsigned thread;
    double time;       // us
    double since = 0;  // of a wake-up: when the slice began that it is in
  };
  using points = std::unordered_map<std::uint64_t, point>;

  double microseconds(std::uint64_t ticks) const noexcept;
  void take(traced_worker& w, const trace_event& e);
  bool ignores(traced_worker& w, const trace_event& e) const noexcept;
  void name_thread(std::uint64_t runtime, unsigned thread, const std::string& name);
  unsigned thread_of(const traced_worker& w, unsigned processor);
  void begin(traced_worker& w, const trace_event& e);
  void move(traced_worker& w, const trace_event& e);
  void close_slice(traced_worker& w, std::uint64_t ticks, const char* why);
  void instant(const traced_worker& w, unsigned processor, std::uint64_t ticks, const char* name,
               const std::string& arguments);
  static void keep(points& pending, std::uint64_t key, const point& p);
  void arrow(const point& from, const point& to);
  void event(const char* head, std::uint64_t runtime, unsigned thread, double time);
  void text(const char* s) { out_ += s; }
  void quoted(const char* s);
  void number(std::uint64_t n);
  void time(double us);
  void flush();

  std::FILE* file_;
  std::string out_;
  std::uint64_t first_ticks_;
  std::uint64_t until_ = std::numeric_limits<std::uint64_t>::max();
  double factor_ = 1;
  std::uint64_t recorded_ = 0;
  std::uint64_t recorded_runs_ = 0;
  std::uint64_t arrows_ = 0;
  bool failed_ = false;
  int error_ = 0;
  points wakes_;  // whose run has not come yet
  points runs_;   // whose wake-up has not come yet
  std::unordered_map<std::uint64_t, bool> lost_threads_named_;
};

}  // namespace coir::detail
