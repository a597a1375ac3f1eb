// dump(): fibers are copied a few hundred at a time, under the registry's lock, and unwound when it is released; those
// that look alike are counted into one group. So the program waits for nothing but, for a moment, the spin lock of a
// name or a queue.
#include <coir/dump.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <map>
#include <new>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include <coir/stackless.hpp>

#include "async_list.hpp"
#include "fiber_snapshot.hpp"
#include "scheduler.hpp"
#include "threads.hpp"
#include "unwind.hpp"

namespace coir {

namespace detail {

namespace {

using state = fiber_snapshot::state;

constexpr std::size_t batch_fibers = 256;
constexpr std::size_t batch_bytes = std::size_t{1} << 20;
constexpr std::size_t injected_looked_at = 1000;
constexpr std::size_t line_width = 110;

enum class sort : std::uint8_t { fiber, async, callback };
constexpr std::array<const char*, 3> noun{"fiber", "async", "callback"};
constexpr std::array<const char*, 3> origin{", spawned at ", ", spawned at ", ", left at "};

/// What fibers of one entry have in common.
struct likeness {
  state is;
  sort of;
  bool stack_is_whole;
  std::uint32_t spawn_line;
  std::string what;  // they wait on
  std::string spawn_file;
  std::vector<std::uintptr_t> stack;

  friend bool operator<(const likeness& a, const likeness& b) {
    return std::tie(a.is, a.of, a.spawn_line, a.stack_is_whole, a.what, a.spawn_file, a.stack) <
           std::tie(b.is, b.of, b.spawn_line, b.stack_is_whole, b.what, b.spawn_file, b.stack);
  }
};

struct member {
  std::uint64_t id;
  int thread;
  std::string name;
};

struct group {
  std::vector<member> members;
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  std::int64_t longest = 0;
  const void* on = nullptr;  // null: not the same for all
};

struct spawn_site {
  std::string file;
  std::uint32_t line;
  friend auto operator<=>(const spawn_site&, const spawn_site&) = default;
};

struct picture {
  std::size_t runtimes = 0;
  std::map<likeness, group> started;
  std::map<spawn_site, std::size_t> unstarted;
  std::size_t more_unstarted = 0;
};

// ---- collecting ----------------------------------------------------------------------------------------------------

void add(picture& all, unwinder& calls, fiber_snapshot& f, std::int64_t now) {
  likeness alike{f.is, sort::fiber, true, f.spawn_line, {}, f.spawn_file, {}};
  if (f.is == state::blocked) alike.what = f.why.what;
  if (!f.stack.words.empty()) {
    call_stack found = calls.unwind(f.stack);
    alike.stack_is_whole = found.whole;
    // What is not certain is believed if it leads back to the fiber's beginning.
    if (f.certain || found.whole) {
      alike.stack = std::move(found.addresses);
      calls.trim(alike.stack);
    }
  }
  const auto [place, first] = all.started.try_emplace(std::move(alike));
  group& g = place->second;
  if (f.is == state::blocked) {
    const std::int64_t waited = std::max<std::int64_t>(now - f.since, 0);
    g.shortest = std::min(g.shortest, waited);
    g.longest = std::max(g.longest, waited);
    g.on = first || g.on == f.why.on ? f.why.on : nullptr;
  }
  g.members.push_back({f.id, f.is == state::running ? f.thread : 0, std::move(f.name)});
}

// Asleep they have no stack, and for how long is not known.
void add(picture& all, const stackless::view& s) {
  const sort of = s.is_callback ? sort::callback : sort::async;
  likeness alike{s.asleep ? state::blocked : state::queued, of, true, s.line, {}, s.file, {}};
  if (s.asleep) alike.what = s.why.what;
  const auto [place, first] = all.started.try_emplace(std::move(alike));
  group& g = place->second;
  g.on = first || g.on == s.why.on ? s.why.on : nullptr;
  g.members.push_back({s.id, 0, s.name});
}

void collect(picture& all, unwinder& calls, std::uint64_t runtime) {
  std::vector<fiber*> stacks;
  std::vector<stackless::view> asyncs;
  std::vector<fiber_snapshot> batch(batch_fibers);
  std::size_t next = 0;
  std::int64_t now = 0;
  const bool lives = runtime_registry::visit(runtime, [&](scheduler& s) {
    stacks = s.stacks();
    scheduler::unstarted_fibers fresh = s.list_unstarted();
    for (const source_location& at : fresh.seen) ++all.unstarted[{at.file_name(), at.line()}];
    all.more_unstarted += fresh.more;
    bool enough_memory = true;
    s.asyncs().for_each([&](const stackless& each) {  // with a lock held that an exception must not leave so
      try {
        if (auto seen = each.look()) asyncs.push_back(std::move(*seen));
      } catch (const std::bad_alloc&) {
        enough_memory = false;
      }
    });
    if (!enough_memory) throw std::bad_alloc();
  });
  if (!lives) return;
  ++all.runtimes;
  for (const stackless::view& each : asyncs) add(all, each);
  while (next < stacks.size()) {
    std::size_t taken = 0;
    const bool still = runtime_registry::visit(runtime, [&](scheduler& s) {
      now = s.clock().now();
      for (std::size_t bytes = 0; next < stacks.size() && taken < batch.size() && bytes < batch_bytes; ++next) {
        if (!take_snapshot(*stacks[next], batch[taken])) continue;
        bytes += batch[taken].stack.words.size() * sizeof(std::uint64_t);
        ++taken;
      }
    });
    if (!still) return;
    for (std::size_t i = 0; i < taken; ++i) add(all, calls, batch[i], now);
  }
}

// ---- writing -------------------------------------------------------------------------------------------------------

std::string duration(std::int64_t nanoseconds) {
  constexpr std::int64_t ms = 1'000'000, s = 1000 * ms, min = 60 * s, h = 60 * min;
  const std::int64_t t = nanoseconds;
  char text[64];
  if (t < ms)
    return "under 1 ms";
  else if (t < s)
    std::snprintf(text, sizeof text, "%lld ms", static_cast<long long>(t / ms));
  else if (t < min)
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(t / (s / 10)) / 10);
  else if (t < h)
    std::snprintf(text, sizeof text, "%lld min %lld s", static_cast<long long>(t / min),
                  static_cast<long long>(t % min / s));
  else
    std::snprintf(text, sizeof text, "%lld h %lld min", static_cast<long long>(t / h),
                  static_cast<long long>(t % h / min));
  return text;
}

std::string count_of(std::size_t n, const char* what) { return std::to_string(n) + ' ' + what + (n == 1 ? "" : "s"); }

/// `7 "reader", 9, 12-1003`, wrapped.
void write_ids(std::ostream& out, std::vector<member>& members) {
  std::sort(members.begin(), members.end(), [](const member& a, const member& b) { return a.id < b.id; });
  std::string line = " ";
  for (std::size_t i = 0; i < members.size();) {
    std::size_t end = i + 1;
    if (members[i].name.empty() && members[i].thread == 0)
      while (end < members.size() && members[end].name.empty() && members[end].id == members[end - 1].id + 1) ++end;
    std::string text = ' ' + std::to_string(members[i].id);
    if (!members[i].name.empty()) text += " \"" + members[i].name + '"';
    if (members[i].thread != 0) text += " on thread " + std::to_string(members[i].thread);
    if (end - i > 1) text += '-' + std::to_string(members[end - 1].id);
    i = end;
    if (i < members.size()) text += ',';
    if (line.size() + text.size() > line_width) {
      out << line << '\n';
      line = " ";
    }
    line += text;
  }
  out << line << '\n';
}

void write_group(std::ostream& out, unwinder& calls, const likeness& alike, group& g) {
  const bool single = g.members.size() == 1;
  const member& one = g.members.front();
  out << '\n';
  if (single) {
    out << noun[static_cast<std::size_t>(alike.of)] << ' ' << one.id;
    if (!one.name.empty()) out << " \"" << one.name << '"';
  } else {
    out << count_of(g.members.size(), noun[static_cast<std::size_t>(alike.of)]);
  }
  out << origin[static_cast<std::size_t>(alike.of)] << alike.spawn_file << ':' << alike.spawn_line << ": ";
  switch (alike.is) {
    case state::running:
      out << "running";
      if (single && one.thread != 0) out << " on thread " << one.thread;
      break;
    case state::queued:
      out << "queued";
      break;
    case state::blocked:
      out << "blocked";
      if (alike.of == sort::fiber) {
        out << " for " << duration(g.shortest);
        if (duration(g.shortest) != duration(g.longest)) out << " to " << duration(g.longest);
      }
      out << " in " << alike.what;
      if (g.on != nullptr) out << ' ' << g.on;
      break;
  }
  out << '\n';
  if (!single) write_ids(out, g.members);
  for (const std::uintptr_t address : alike.stack) out << "    " << calls.describe(address) << '\n';
  if (!alike.stack.empty() && !alike.stack_is_whole) out << "    ...\n";
}

void write(std::ostream& out, unwinder& calls, picture& all) {
  std::array<std::size_t, 3> in_state{};
  std::vector<std::pair<const likeness*, group*>> groups;
  for (auto& [alike, g] : all.started) {
    in_state[static_cast<std::size_t>(alike.is)] += g.members.size();
    groups.emplace_back(&alike, &g);
  }
  std::size_t unstarted = all.more_unstarted;
  for (const auto& [at, n] : all.unstarted) unstarted += n;
  const auto [running, queued, blocked] = in_state;
  out << "coir: " << count_of(running + queued + blocked + unstarted, "fiber") << " in "
      << count_of(all.runtimes, "runtime") << ": " << running << " running, " << queued << " queued, " << blocked
      << " blocked, " << unstarted << " not started\n";
  if (!unwinder::available() && queued + blocked != 0) out << "(coir was built without libunwind: no stacks)\n";

  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    if (a.first->is != b.first->is) return a.first->is < b.first->is;
    return a.second->members.size() > b.second->members.size();
  });
  for (const auto& [alike, g] : groups) write_group(out, calls, *alike, *g);
  for (const auto& [at, n] : all.unstarted)
    out << '\n' << count_of(n, "fiber") << ", spawned at " << at.file << ':' << at.line << ": not started\n";
  if (all.more_unstarted != 0) out << '\n' << count_of(all.more_unstarted, "more fiber") << ": not started\n";
}

}  // namespace

scheduler::unstarted_fibers scheduler::list_unstarted() {
  unstarted_fibers found;
  for (const auto& each : processors_) {
    processor& p = *each;
    std::array<source_location, processor::ring::capacity> seen;
    std::uint32_t n = 0;
    if (!p.try_lock()) {
      found.more += p.fresh.size();
      continue;
    }
    for (const std::uint32_t size = p.fresh.size(); n < size; ++n) {
      const auto& r = static_cast<const start_record&>(*p.fresh.peek(n));
      seen[n] = {r.file, r.line};
    }
    p.unlock();
    found.seen.insert(found.seen.end(), seen.begin(), seen.begin() + n);
  }
  found.more += spilled_fresh_.count();
  // The suspended ones among them have a stack, and are listed with it.
  std::vector<source_location> injected(injected_looked_at);
  std::size_t looked_at = 0;
  std::size_t n = 0;
  injected_.peek(injected.size(), [&](const runnable& r) {
    ++looked_at;
    if (r.what != runnable::kind::fresh) return;
    const auto& fresh = static_cast<const start_record&>(r);
    injected[n++] = {fresh.file, fresh.line};
  });
  found.seen.insert(found.seen.end(), injected.begin(), injected.begin() + static_cast<std::ptrdiff_t>(n));
  const std::size_t size = injected_.size();
  if (looked_at == injected.size() && size > looked_at) found.more += size - looked_at;
  return found;
}

}  // namespace detail

void dump(std::ostream& out) {
  detail::picture all;
  detail::unwinder calls;
  for (const std::uint64_t runtime : detail::runtime_registry::serials()) detail::collect(all, calls, runtime);
  detail::write(out, calls, all);
}

}  // namespace coir
