#include <coir/explore.hpp>

#include <coir/detail/abi.hpp>

#include <ostream>
#include <stdexcept>

#include "session.hpp"

namespace coir::inline COIR_ABI {

const char* to_string(failure_kind kind) noexcept {
  switch (kind) {
    case failure_kind::none:
      return "none";
    case failure_kind::exception:
      return "exception";
    case failure_kind::assertion:
      return "assertion";
    case failure_kind::deadlock:
      return "deadlock";
    case failure_kind::livelock:
      return "livelock";
    case failure_kind::nondeterminism:
      break;
  }
  return "nondeterminism";
}

std::ostream& operator<<(std::ostream& out, failure_kind kind) { return out << to_string(kind); }

std::ostream& operator<<(std::ostream& out, const exploration& e) { return out << e.report(); }

unsigned choose(unsigned n) {
  if (n == 0) throw std::invalid_argument("coir: choose(0)");
  return detail::exploring() ? detail::choose_one_of(detail::operation::choose, n) : 0;
}

namespace detail {

exploration explore_function(const explore_options& o, const std::function<void()>& f, source_location at) {
  const overrides from_environment;
  if (from_environment.replayed) return session(o, f, at).replay(*from_environment.replayed);
  explore_options used = o;
  if (from_environment.schedules) used.schedules = *from_environment.schedules;
  if (from_environment.seed) used.seed = *from_environment.seed;
  return session(used, f, at).explore();
}

exploration replay_function(const std::string& text, const explore_options& o, const std::function<void()>& f,
                            source_location at) {
  return session(o, f, at).replay(schedule::parse(text));
}

}  // namespace detail

}  // namespace coir
