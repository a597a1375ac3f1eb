#include "trail.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>

#include <execinfo.h>

#include "observe/fiber_listing.hpp"
#include "observe/fiber_snapshot.hpp"
#include "sched/scheduler.hpp"
#include "source_lines.hpp"

namespace coir::detail {

const char* name_of(operation what) noexcept {
  constexpr const char* names[] = {
      "spawn",      "join",   "look at a task", "request stop", "yield",
      "send",       "receive", "close",         "look at a channel", "select",
      "lock",       "unlock", "wait",           "notify",       "acquire",
      "release",    "count down", "once",       "sleep",        "timer",
      "cancel",     "look at a context", "settle", "choose",    "timers of one instant",
  };
  static_assert(std::size(names) == static_cast<std::size_t>(operation::fire_timer) + 1);
  return names[static_cast<std::size_t>(what)];
}

trail::step& trail::append(const fiber& f, operation what, const void* on) {
  if (steps_.size() == length) steps_.pop_front();
  step& s = steps_.emplace_back();
  s.fiber = f.id;
  s.what = what;
  s.on = on;
  const int n = ::backtrace(s.calls.data(), static_cast<int>(depth));
  s.call_count = static_cast<std::size_t>(std::max(n, 0));
  return s;
}

void trail::add(const fiber& f, operation what, const void* on) { append(f, what, on); }

void trail::branch(const fiber& f, operation what, std::uint32_t taken, std::uint32_t options) {
  step& s = append(f, what, nullptr);
  s.taken = taken;
  s.options = options;
}

std::string trail::text() const {
  std::vector<std::vector<void*>> stacks;
  for (const step& s : steps_) stacks.emplace_back(s.calls.begin(), s.calls.begin() + static_cast<std::ptrdiff_t>(s.call_count));
  const std::vector<std::string> lines = lines_of_calls(stacks);
  std::ostringstream out;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const step& s = steps_[i];
    out << "  fiber " << s.fiber << ": " << name_of(s.what);
    if (s.options != 0) out << " " << s.taken << " of 0 to " << s.options - 1;
    if (s.on != nullptr) out << ' ' << s.on;
    if (!lines[i].empty()) out << "  at " << lines[i];
    if (s.preempted) out << "  (another fiber goes first)";
    out << '\n';
  }
  return out.str();
}

std::string list_fibers(scheduler& home, const std::vector<candidate>& waiting) {
  fiber_listing all;
  for (fiber* f : home.stacks()) {
    fiber_snapshot snapshot;
    if (take_snapshot(*f, snapshot)) all.add(snapshot, home.clock().now());
  }
  home.asyncs().for_each([&](const stackless& s) {
    if (auto seen = s.look()) all.add(*seen);
  });
  for (const candidate& c : waiting)
    if (c.who->has_not_started()) {
      const auto& r = static_cast<const start_record&>(*c.who);
      all.add_unstarted({r.file, r.line});
    }
  all.add_runtime();
  std::ostringstream out;
  all.write(out);
  return out.str();
}

}  // namespace coir::detail
