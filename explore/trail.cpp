#include "trail.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>

#include <execinfo.h>

#include <coir/detail/abi.hpp>

#include "fiber/waiter_access.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

const char* name_of(operation what) noexcept {
  constexpr const char* names[] = {
      "spawn",
      "join",
      "look at a task",
      "request stop",
      "yield",
      "send",
      "receive",
      "close",
      "look at a channel",
      "select",
      "lock",
      "unlock",
      "wait",
      "notify",
      "acquire",
      "release",
      "count down",
      "once",
      "sleep",
      "timer",
      "cancel",
      "look at a context",
      "settle",
      "choose",
      "timers of one instant",
      "input",
      "output",
      "bind",
      "listen",
      "connect",
      "shut down",
      "close",
      "set a deadline",
      "arrive",
      "split",
      "delay",
      "reset",
      "cut off",
      "lose",
  };
  static_assert(std::size(names) == static_cast<std::size_t>(operation::lose) + 1);
  return names[static_cast<std::size_t>(what)];
}

void trail::clear() noexcept {
  steps_.clear();
  last_calls_.clear();
  fibers_.clear();
}

trail::step& trail::append(const fiber& f, operation what, const void* on) {
  if (steps_.size() == length) steps_.pop_front();
  step& s = steps_.emplace_back();
  s.fiber = f.id;
  s.what = what;
  s.on = on;
  s.calls.resize(depth);
  s.calls.resize(static_cast<std::size_t>(std::max(::backtrace(s.calls.data(), depth), 0)));
  last_calls_[f.id] = s.calls;
  return s;
}

void trail::add(const fiber& f, operation what, const void* on) { append(f, what, on); }

void trail::branch(const fiber& f, operation what, std::uint32_t taken, std::uint32_t options) {
  step& s = append(f, what, nullptr);
  s.taken = taken;
  s.options = options;
}

void trail::note_fibers(scheduler& home, const std::vector<candidate>& waiting) {
  for (const fiber* f : home.stacks().all()) {
    if (f->state.load(std::memory_order_relaxed) == run_state::free) continue;
    std::ostringstream out;
    out << describe(*f);
    if (waiter_access::state_of(f->wait) != waiter::waiting) {
      out << (f->state.load(std::memory_order_relaxed) == run_state::running ? ": running" : ": ready to run");
    } else {
      out << ": " << f->why.what;
      if (f->why.on != nullptr) out << ' ' << f->why.on;
    }
    fibers_.emplace_back(f->id, out.str());
  }
  home.asyncs().for_each([&](const stackless& s) {
    if (s.asleep()) fibers_.emplace_back(0, s.describe());
  });
  for (const candidate& c : waiting) {
    if (!c.who->has_not_started()) continue;
    const auto& r = static_cast<const start_record&>(*c.who);
    fibers_.emplace_back(
        0, "a fiber that has not begun, spawned at " + std::string(r.file) + ':' + std::to_string(r.line));
  }
}

std::string trail::fibers() const {
  std::vector<call_addresses> stacks;
  for (const auto& [id, text] : fibers_) {
    const auto at = last_calls_.find(id);
    stacks.push_back(at != last_calls_.end() ? at->second : call_addresses());
  }
  const std::vector<std::vector<std::string>> lines = lines_of_calls(stacks);
  std::ostringstream out;
  for (std::size_t i = 0; i < fibers_.size(); ++i) {
    out << "  " << fibers_[i].second << '\n';
    for (const std::string& line : lines[i]) out << "      at " << line << '\n';
  }
  return out.str();
}

std::string trail::text() const {
  std::vector<call_addresses> stacks;
  for (const step& s : steps_) stacks.push_back(s.calls);
  const std::vector<std::vector<std::string>> lines = lines_of_calls(stacks);
  std::ostringstream out;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const step& s = steps_[i];
    out << "  fiber " << s.fiber << ": " << name_of(s.what);
    if (s.options != 0) out << ": " << s.taken << " of 0 to " << s.options - 1;
    if (s.on != nullptr) out << ' ' << s.on;
    if (!lines[i].empty()) out << ", at " << lines[i].front();
    if (s.preempted) out << " (another fiber goes first)";
    out << '\n';
  }
  return out.str();
}

}  // namespace coir::detail
