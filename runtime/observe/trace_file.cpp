#include "observe/trace_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <system_error>
#include <utility>

#include <coir/detail/abi.hpp>

#include "observe/trace_clock.hpp"
#include "sched/worker.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr unsigned first_lost_thread = 10'001;
constexpr std::size_t most_pending = 1U << 18;  // ends of arrows whose other end, it seems, was dropped
constexpr std::size_t flush_at = 1U << 16;

const char* string_at(std::uint64_t address) noexcept { return reinterpret_cast<const char*>(address); }

std::uint64_t key_of(const trace_event& e) noexcept { return std::uint64_t{e.fiber} << 16 | std::uint64_t{e.number}; }

}  // namespace

trace_file::trace_file(const std::string& path, std::uint64_t first_ticks)
    : file_(std::fopen(path.c_str(), "we")), first_ticks_(first_ticks) {
  if (file_ == nullptr) throw std::system_error(errno, std::generic_category(), "coir: cannot write the trace " + path);
  out_ =
      "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\","
      "\"args\":{\"name\":\"coir\"}}";
}

trace_file::~trace_file() { std::fclose(file_); }

// ---- text ----------------------------------------------------------------------------------------------------------

void trace_file::flush() {
  if (!out_.empty() && std::fwrite(out_.data(), 1, out_.size(), file_) != out_.size() && !failed_) {
    failed_ = true;
    error_ = errno;
  }
  out_.clear();
}

void trace_file::number(std::uint64_t n) {
  char digits[20];
  std::size_t i = sizeof digits;
  do digits[--i] = static_cast<char>('0' + n % 10);
  while ((n /= 10) != 0);
  out_.append(digits + i, sizeof digits - i);
}

// In microseconds, to the nanosecond.
void trace_file::time(double us) {
  const auto ns = static_cast<std::uint64_t>(std::llround(std::max(us, 0.0) * 1000));
  number(ns / 1000);
  const auto rest = static_cast<unsigned>(ns % 1000);
  const char fraction[4] = {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                            static_cast<char>('0' + rest % 10)};
  out_.append(fraction, sizeof fraction);
}

void trace_file::quoted(const char* s) {
  out_ += '"';
  for (; *s != '\0'; ++s) {
    const auto c = static_cast<unsigned char>(*s);
    if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += *s;
    } else if (c < 0x20 || c >= 0x7f) {  // a cut name may end amid a character
      constexpr const char* hex = "0123456789abcdef";
      out_ += "\\u00";
      out_ += hex[c >> 4];
      out_ += hex[c & 15];
    } else {
      out_ += *s;
    }
  }
  out_ += '"';
}

void trace_file::event(const char* head, std::uint64_t runtime, unsigned thread, double at) {
  if (out_.size() >= flush_at) flush();
  text(",\n{\"ph\":");
  text(head);
  text(",\"pid\":");
  number(runtime);
  text(",\"tid\":");
  number(thread);
  text(",\"ts\":");
  time(at);
}

// ---- tracks --------------------------------------------------------------------------------------------------------

void trace_file::name_runtime(std::uint64_t runtime, unsigned processors) {
  text(",\n{\"ph\":\"M\",\"pid\":");
  number(runtime);
  text(",\"name\":\"process_name\",\"args\":{\"name\":\"runtime ");
  number(runtime);
  text("\"}}");
  for (unsigned i = 0; i < processors; ++i) name_thread(runtime, i + 1, "processor " + std::to_string(i));
}

void trace_file::name_thread(std::uint64_t runtime, unsigned thread, const std::string& name) {
  text(",\n{\"ph\":\"M\",\"pid\":");
  number(runtime);
  text(",\"tid\":");
  number(thread);
  text(",\"name\":\"thread_name\",\"args\":{\"name\":");
  quoted(name.c_str());
  text("}},\n{\"ph\":\"M\",\"pid\":");
  number(runtime);
  text(",\"tid\":");
  number(thread);
  text(",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":");
  number(thread);
  text("}}");
}

unsigned trace_file::thread_of(const traced_worker& w, unsigned processor) {
  if (processor != trace_event::no_processor) return processor + 1;
  const unsigned thread = first_lost_thread + w.index;
  if (lost_threads_named_.emplace(w.runtime << 16 | thread, true).second)
    name_thread(w.runtime, thread, "without a processor, thread " + std::to_string(w.index));
  return thread;
}

double trace_file::microseconds(std::uint64_t ticks) const noexcept {
  return ticks <= first_ticks_ ? 0 : static_cast<double>(ticks - first_ticks_) * factor_ / 1000;
}

// ---- events --------------------------------------------------------------------------------------------------------

void trace_file::drain(traced_worker& w) {
  constexpr std::uint32_t batch = 1024;  // after which the producer may use the slots again
  for (std::uint32_t left = w.ring.available(); left != 0;) {
    const std::uint32_t n = std::min(left, batch);
    for (std::uint32_t i = 0; i < n; ++i) take(w, w.ring.at(i));
    w.ring.done(n);
    left -= n;
  }
}

bool trace_file::ignores(traced_worker& w, const trace_event& e) const noexcept {
  const bool has_time = e.what_kind != trace_event::wake && e.what_kind != trace_event::name;
  if (has_time) w.ignored = e.ticks < w.since || e.ticks > until_;
  return w.ignored;  // those without a time belong to what the last one began
}

void trace_file::take(traced_worker& w, const trace_event& e) {
  if (ignores(w, e)) return;
  switch (e.what_kind) {
    case trace_event::run:
      ++recorded_runs_;
      if (w.open) close_slice(w, e.ticks, string_at(e.what));
      begin(w, e);
      break;
    case trace_event::stop:
      if (w.open) close_slice(w, e.ticks, string_at(e.what));
      break;
    case trace_event::move:
      if (w.open) move(w, e);
      break;
    case trace_event::wake:
      if (w.open) w.wakes.push_back(e);
      break;
    case trace_event::name:
      if (w.open) w.name = e.text();
      break;
    case trace_event::steal:
      instant(w, e.processor, e.ticks, "steal", "\"fibers\":" + std::to_string(e.number));
      break;
    case trace_event::gap:
      if (w.open) close_slice(w, e.ticks, "the buffer is full");
      instant(w, w.slice.processor, e.ticks, "events dropped", "\"thread\":" + std::to_string(w.index));
      break;
    default:
      break;
  }
  ++recorded_;
}

void trace_file::begin(traced_worker& w, const trace_event& e) {
  w.open = true;
  w.slice = e;
  w.name.clear();
  w.wakes.clear();
  if (e.number == 0) return;
  const point to{w.runtime, thread_of(w, e.processor), microseconds(e.ticks)};
  const std::uint64_t key = key_of(e);
  if (const auto from = wakes_.find(key); from != wakes_.end() && from->second.since <= to.time) {
    arrow(from->second, to);
    wakes_.erase(from);
  } else {
    keep(runs_, key, to);
  }
}

// The old entry under this key lost its other end: a fiber's wake-ups are told apart by sixteen bits of their number.
void trace_file::keep(points& pending, std::uint64_t key, const point& p) {
  if (pending.size() >= most_pending) pending.clear();
  pending.insert_or_assign(key, p);
}

// The fiber goes on elsewhere: with another slice.
void trace_file::move(traced_worker& w, const trace_event& e) {
  trace_event goes_on = w.slice;
  const std::string name = w.name;
  close_slice(w, e.ticks, string_at(e.what));
  goes_on.ticks = std::max(e.ticks, w.slice.ticks);
  goes_on.processor = e.processor;
  goes_on.number = 0;
  begin(w, goes_on);
  w.name = name;
}

void trace_file::end(traced_worker& w) {
  if (!w.open) return;
  // relaxed: what its worker would have recorded next
  if (const std::uint64_t lost = w.who->lost_at.load(std::memory_order_relaxed); lost != 0 && lost <= until_) {
    trace_event e;
    e.what_kind = trace_event::move;
    e.ticks = lost;
    e.what = reinterpret_cast<std::uintptr_t>(w.who->lost_why.load(std::memory_order_relaxed)) & trace_event::all48;
    move(w, e);
  }
  close_slice(w, std::min(trace_ticks(), until_), "the trace ends");
}

void trace_file::close_slice(traced_worker& w, std::uint64_t ticks, const char* why) {
  w.open = false;
  const trace_event& s = w.slice;
  const unsigned thread = thread_of(w, s.processor);
  const double from = microseconds(s.ticks);
  const double to = std::max(from, microseconds(ticks));
  event("\"X\"", w.runtime, thread, from);
  text(",\"dur\":");
  // Rounded as the slice's end is, so that it never reaches into the next slice.
  time(std::max(
      0.0, (static_cast<double>(std::llround(to * 1000)) - static_cast<double>(std::llround(from * 1000))) / 1000));
  text(",\"name\":");
  if (w.name.empty()) {
    text("\"fiber ");
    number(s.fiber);
    text("\"");
  } else {
    quoted(w.name.c_str());
  }
  text(",\"args\":{\"fiber\":");
  number(s.fiber);
  text(",\"spawned\":\"");
  const char* file = string_at(s.place);
  const std::size_t at = out_.size();
  quoted(file);
  out_.erase(at, 1);
  out_.pop_back();
  text(":");
  number(s.line);
  text("\",\"ended by\":");
  quoted(why);
  text("}}");

  const double step = (to - from) / static_cast<double>(w.wakes.size() + 1);
  double time = from;
  for (const trace_event& wake : w.wakes) {
    time += step;
    const std::uint64_t key = key_of(wake);
    const point origin{w.runtime, thread, time, from};
    if (const auto target = runs_.find(key); target != runs_.end() && from <= target->second.time) {
      arrow(origin, target->second);
      runs_.erase(target);
    } else {
      keep(wakes_, key, origin);
    }
  }
  w.wakes.clear();
}

void trace_file::arrow(const point& from, const point& to) {
  const std::uint64_t id = ++arrows_;
  // The time of a wake-up is guessed within its slice, but it was before the run.
  event("\"s\",\"cat\":\"wake\",\"name\":\"wake\"", from.runtime, from.thread, std::min(from.time, to.time));
  text(",\"id\":");
  number(id);
  text("}");
  event("\"f\",\"bp\":\"e\",\"cat\":\"wake\",\"name\":\"wake\"", to.runtime, to.thread, to.time);
  text(",\"id\":");
  number(id);
  text("}");
}

void trace_file::instant(const traced_worker& w, unsigned processor, std::uint64_t ticks, const char* name,
                         const std::string& arguments) {
  event("\"i\",\"s\":\"t\"", w.runtime, thread_of(w, processor), microseconds(ticks));
  text(",\"name\":");
  quoted(name);
  text(",\"args\":{");
  text(arguments.c_str());
  text("}}");
}

void trace_file::finish(std::uint64_t dropped) {
  flush();
  const long end = std::ftell(file_);
  text("\n],\"otherData\":{\"recorded\":");
  number(recorded_);
  text(",\"dropped\":");
  number(dropped);
  text("}}\n");
  flush();
  if (std::fflush(file_) != 0 && !failed_) {
    failed_ = true;
    error_ = errno;
  }
  std::fseek(file_, end, SEEK_SET);
  if (failed_) throw std::system_error(error_, std::generic_category(), "coir: the trace is not complete");
}

}  // namespace coir::detail
