#include "session.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <coir/detail/abi.hpp>

#include "shrink.hpp"
#include "strategies.hpp"

namespace coir::inline COIR_ABI {

struct exploration_access {
  static exploration make(const detail::outcome& o, std::uint64_t schedules, std::string played, std::string report) {
    exploration e;
    e.kind_ = o.kind;
    e.what_ = o.what;
    e.schedule_ = std::move(played);
    e.report_ = std::move(report);
    e.schedules_ = schedules;
    e.steps_ = o.steps;
    return e;
  }
  static void set_exhausted(exploration& e) noexcept { e.exhausted_ = true; }
};

}  // namespace coir

namespace coir::inline COIR_ABI::detail {

namespace {

// Shrinking may take about this many decisions, beside its budget of schedules.
constexpr std::uint64_t most_shrinking_steps = 20'000'000;

const char* environment(const char* name) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody changes the environment
  return text != nullptr && *text != '\0' ? text : nullptr;
}

std::optional<std::uint64_t> number_from(const char* name) {
  const char* const text = environment(name);
  if (text == nullptr) return std::nullopt;
  std::uint64_t n = 0;
  const char* const end = text + std::strlen(text);
  if (const auto read = std::from_chars(text, end, n); read.ec != std::errc() || read.ptr != end)
    throw std::invalid_argument("coir: " + std::string(name) + " is \"" + text + "\", not a number");
  return n;
}

std::vector<schedule> read_corpus(const std::string& path) {
  std::vector<schedule> all;
  if (path.empty()) return all;
  std::ifstream in(path);
  if (!in) throw std::invalid_argument("coir: no corpus \"" + path + "\" can be read");
  for (std::string line; std::getline(in, line);) {
    line.erase(std::min(line.find('#'), line.size()));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) line.pop_back();
    if (!line.empty()) all.push_back(schedule::parse(line));
  }
  return all;
}

std::string count_of(std::uint64_t n, const char* what) { return std::to_string(n) + ' ' + what + (n == 1 ? "" : "s"); }

/// Whether the schedule of that index is run twice.
bool is_sample(std::uint64_t index) noexcept { return (index & (index - 1)) == 0; }

}  // namespace

overrides::overrides() : schedules(number_from("COIR_SCHEDULES")), seed(number_from("COIR_SEED")) {
  if (const char* const text = environment("COIR_SCHEDULE")) replayed = schedule::parse(text);
}

session::session(const explore_options& o, const std::function<void()>& f, source_location at)
    : options_(o), f_(f), at_(at), engine_(o), watchdog_(o.max_seconds, at) {
  if (current_worker() != nullptr) throw std::logic_error("coir: explore or replay called inside a fiber");
}

// Plays these choices, as far as the program follows them.
const outcome& session::play(const std::vector<std::uint32_t>& taken) {
  watchdog_.next();
  playback how(taken);
  return engine_.run(f_, how, at_);
}

bool session::repeats(const outcome& first) {
  const outcome& second = play(first.played().taken);
  return second.kind == first.kind && second.check == first.check && second.choices.size() == first.choices.size();
}

exploration session::explore() {
  const std::vector<schedule> corpus = read_corpus(options_.corpus);
  for (const schedule& s : corpus) {
    ++run_;
    if (const outcome& o = play(s.taken); o.kind != failure_kind::none) return fail(o);
  }
  const std::unique_ptr<strategy> how = make_strategy(options_.strategy, options_.seed);
  progress shown(at_);
  outcome last;
  bool exhausted = false;
  for (std::uint64_t i = 0; i < options_.schedules; ++i) {
    if (!how->begin(i)) {
      exhausted = true;
      break;
    }
    watchdog_.next();
    outcome& o = engine_.run(f_, *how, at_);
    ++run_;
    how->end(o.choices);
    if (o.kind != failure_kind::none) return fail(o);
    const bool is_last = i + 1 == options_.schedules;
    if (is_sample(i) || is_last) {
      last = o;
      if (is_sample(i) && !repeats(last)) return nondeterministic(last, "a schedule that was run twice");
    }
    shown.note(i + 1, options_.schedules, how->covered());
  }
  exploration e = finish(last, exhausted ? "every schedule within the bound" : "");
  if (exhausted) exploration_access::set_exhausted(e);
  return e;
}

// A copy: the engine writes the next outcome over its own.
exploration session::fail(outcome failed) {  // NOLINT(performance-unnecessary-value-param)
  if (!repeats(failed)) return nondeterministic(failed, "a failed schedule that was run again");
  const std::uint64_t budget =
      std::min(options_.shrink_budget, most_shrinking_steps / std::max<std::uint64_t>(failed.steps, 1));
  outcome shrunk =
      shrink(failed, budget, [this](const std::vector<std::uint32_t>& taken) -> const outcome& { return play(taken); });
  watchdog_.next();
  const std::vector<std::uint32_t> taken = shrunk.played().taken;
  playback how(taken);
  const outcome& seen = engine_.observe(f_, how, at_);
  if (seen.kind != shrunk.kind || seen.check != shrunk.check)
    return nondeterministic(shrunk, "a failed schedule that was run again");
  return finish(seen, "");
}

exploration session::replay(const schedule& s) {
  ++run_;
  watchdog_.next();
  playback how(s.taken);
  const outcome& o = engine_.observe(f_, how, at_);
  if (!how.strayed() && o.check == s.check && o.choices.size() == s.count) return finish(o, "");
  outcome strayed = o;
  strayed.what = "the program does not do what it did when the schedule was recorded";
  if (o.kind != failure_kind::none)
    strayed.what += std::string("; now it ends by ") + to_string(o.kind) + ": " + o.what;
  strayed.kind = failure_kind::nondeterminism;
  return finish(strayed, "");
}

exploration session::nondeterministic(const outcome& first, const std::string& how) {
  outcome o = first;
  o.kind = failure_kind::nondeterminism;
  o.what = how +
           " did not do the same again; something in it goes by a clock, an address, a thread, or what an "
           "earlier schedule has left";
  if (first.kind != failure_kind::none)
    o.what += std::string(". It had failed: ") + to_string(first.kind) + ": " + first.what;
  return finish(o, "");
}

exploration session::finish(const outcome& o, const std::string& note) {
  const std::string played = o.played().text();
  std::ostringstream out;
  if (o.kind == failure_kind::none) {
    out << "no failure in " << count_of(run_, "schedule");
    if (!note.empty()) out << " (" << note << ')';
    out << '\n';
  } else {
    std::size_t preemptions = 0;
    for (const choice& c : o.choices) preemptions += c.is_preemption() ? 1 : 0;
    out << to_string(o.kind) << " in schedule " << run_ << ": " << o.what << '\n';
    if (!o.fibers.empty()) out << "\nThe fibers, when it failed:\n" << o.fibers;
    if (!o.trail.empty())
      out << "\nThe last of " << count_of(o.steps, "decision") << " (" << count_of(preemptions, "preemption")
          << "), each before what it names:\n"
          << o.trail;
    out << "\nTo play it again: COIR_SCHEDULE=" << played << " or coir::replay(\"" << played << "\", ...)\n";
  }
  return exploration_access::make(o, run_, played, out.str());
}

}  // namespace coir::detail
