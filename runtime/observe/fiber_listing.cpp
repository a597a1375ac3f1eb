#include "observe/fiber_listing.hpp"

#include <algorithm>
#include <cstdio>
#include <ostream>
#include <tuple>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::size_t line_width = 110;
constexpr std::size_t most_number_lines = 8;  // of one entry's numbers and names

// By fiber_listing::sort.
constexpr std::array<const char*, 3> noun{"fiber", "async", "callback"};
constexpr std::array<const char*, 3> origin{", spawned at ", ", spawned at ", ", left at "};

}  // namespace

std::string duration_text(std::int64_t nanoseconds) {
  constexpr std::int64_t ms = 1'000'000, s = 1000 * ms, min = 60 * s, h = 60 * min, tenth = s / 10;
  const std::int64_t t = nanoseconds;
  char text[64];
  if (t < ms)
    return "under 1 ms";
  else if (t < s)
    std::snprintf(text, sizeof text, "%lld ms", static_cast<long long>(t / ms));
  else if (t < min)
    std::snprintf(text, sizeof text, "%lld.%lld s", static_cast<long long>(t / s),
                  static_cast<long long>(t % s / tenth));
  else if (t < h)
    std::snprintf(text, sizeof text, "%lld min %lld s", static_cast<long long>(t / min),
                  static_cast<long long>(t % min / s));
  else
    std::snprintf(text, sizeof text, "%lld h %lld min", static_cast<long long>(t / h),
                  static_cast<long long>(t % h / min));
  return text;
}

std::string count_of(std::size_t n, const char* what) { return std::to_string(n) + ' ' + what + (n == 1 ? "" : "s"); }

bool fiber_listing::likeness::operator<(const likeness& other) const {
  const auto all = [](const likeness& a) {
    return std::tie(a.is, a.of, a.spawn_line, a.stack_is_whole, a.what, a.spawn_file, a.stack);
  };
  return all(*this) < all(other);
}

void fiber_listing::add(fiber_snapshot& f, std::int64_t now) {
  likeness alike{f.is, sort::fiber, true, f.spawn_line, {}, f.spawn_file, {}};
  if (f.is == state::blocked) alike.what = f.why.what;
  if (!f.stack.words.empty()) {
    call_stack found = calls_.unwind(f.stack);
    alike.stack_is_whole = found.whole;
    // An uncertain frame is believed if it leads back to the fiber's beginning.
    if (f.certain || found.whole) {
      alike.stack = std::move(found.addresses);
      calls_.trim(alike.stack);
    }
  }
  const auto [place, first] = started_.try_emplace(std::move(alike));
  group& g = place->second;
  if (f.is == state::blocked) {
    const std::int64_t waited = std::max<std::int64_t>(now - f.since, 0);
    g.shortest = std::min(g.shortest, waited);
    g.longest = std::max(g.longest, waited);
    g.on = first || g.on == f.why.on ? f.why.on : nullptr;
  }
  g.members.push_back({f.id, f.is == state::running ? f.thread : 0, std::move(f.name)});
}

void fiber_listing::add(const stackless::view& s) {
  const sort of = s.is_callback ? sort::callback : sort::async;
  likeness alike{s.asleep ? state::blocked : state::queued, of, true, s.line, {}, s.file, {}};
  if (s.asleep) alike.what = s.why.what;
  const auto [place, first] = started_.try_emplace(std::move(alike));
  group& g = place->second;
  g.on = first || g.on == s.why.on ? s.why.on : nullptr;
  g.members.push_back({s.id, 0, s.name});
}

/// `7 "reader", 9, 12-1003`, wrapped; if there are too many, how many more.
void fiber_listing::write_ids(std::ostream& out, std::vector<member>& members) {
  std::sort(members.begin(), members.end(), [](const member& a, const member& b) { return a.id < b.id; });
  std::string line = " ";
  std::size_t lines = 1;
  for (std::size_t i = 0; i < members.size();) {
    std::size_t end = i + 1;
    if (members[i].name.empty() && members[i].thread == 0)
      while (end < members.size() && members[end].name.empty() && members[end].id == members[end - 1].id + 1) ++end;
    std::string text = ' ' + std::to_string(members[i].id);
    if (!members[i].name.empty()) text += " \"" + members[i].name + '"';
    if (members[i].thread != 0) text += " on thread " + std::to_string(members[i].thread);
    if (end - i > 1) text += '-' + std::to_string(members[end - 1].id);
    if (end < members.size()) text += ',';
    if (line.size() + text.size() > line_width) {
      if (lines == most_number_lines) {
        line += " and " + std::to_string(members.size() - i) + " more";
        break;
      }
      ++lines;
      out << line << '\n';
      line = " ";
    }
    line += text;
    i = end;
  }
  out << line << '\n';
}

void fiber_listing::write_group(std::ostream& out, const likeness& alike, group& g) {
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
        out << " for " << duration_text(g.shortest);
        if (duration_text(g.shortest) != duration_text(g.longest)) out << " to " << duration_text(g.longest);
      }
      out << " in " << alike.what;
      if (g.on != nullptr) out << ' ' << g.on;
      break;
  }
  out << '\n';
  if (!single) write_ids(out, g.members);
  for (const std::uintptr_t address : alike.stack) out << "    " << calls_.describe(address) << '\n';
  if (!alike.stack.empty() && !alike.stack_is_whole) out << "    ...\n";
}

void fiber_listing::write_entries(std::ostream& out) {
  std::vector<std::pair<const likeness*, group*>> groups;
  for (auto& [alike, g] : started_) groups.emplace_back(&alike, &g);
  // Not std::stable_sort: libstdc++ 12 implements it with a function that is deprecated, and Clang 17 and later say so.
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    if (a.first->is != b.first->is) return a.first->is < b.first->is;
    const std::size_t size_a = a.second->members.size();
    const std::size_t size_b = b.second->members.size();
    return size_a != size_b ? size_a > size_b : *a.first < *b.first;
  });
  for (const auto& [alike, g] : groups) write_group(out, *alike, *g);
}

void fiber_listing::write(std::ostream& out) {
  std::array<std::size_t, 3> in_state{};
  for (const auto& [alike, g] : started_) in_state[static_cast<std::size_t>(alike.is)] += g.members.size();
  std::size_t unstarted = more_unstarted_;
  for (const auto& [at, n] : unstarted_) unstarted += n;
  const auto [running, queued, blocked] = in_state;
  out << "coir: " << count_of(running + queued + blocked + unstarted, "fiber") << " in "
      << count_of(runtimes_, "runtime") << ": " << running << " running, " << queued << " queued, " << blocked
      << " blocked, " << unstarted << " not started\n";
  if (!unwinder::available() && queued + blocked != 0) out << "(coir was built without libunwind: no stacks)\n";
  write_entries(out);
  for (const auto& [at, n] : unstarted_)
    out << '\n' << count_of(n, "fiber") << ", spawned at " << at.file << ':' << at.line << ": not started\n";
  if (more_unstarted_ != 0) out << '\n' << count_of(more_unstarted_, "more fiber") << ": not started\n";
}

}  // namespace coir::detail
