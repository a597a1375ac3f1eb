#include "shrink.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

namespace {

struct size {
  std::size_t preemptions = 0;
  std::size_t changes = 0;  // choices that are not 0
  std::size_t choices = 0;

  explicit size(const outcome& o) : choices(o.choices.size()) {
    for (const choice& c : o.choices) {
      preemptions += c.is_preemption() ? 1 : 0;
      changes += c.taken != 0 ? 1 : 0;
    }
  }
  bool operator<(const size& other) const {
    return std::tie(preemptions, changes, choices) < std::tie(other.preemptions, other.changes, other.choices);
  }
};

/// The indices of the choices that are not 0.
std::vector<std::size_t> changes_of(const outcome& o) {
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < o.choices.size(); ++i)
    if (o.choices[i].taken != 0) at.push_back(i);
  return at;
}

}  // namespace

outcome shrink(outcome failed, std::uint64_t budget,
               const std::function<const outcome&(const std::vector<std::uint32_t>& taken)>& run) {
  std::size_t part = std::max<std::size_t>(changes_of(failed).size() / 2, 1);
  const auto try_instead = [&](const std::vector<std::uint32_t>& taken) {
    if (budget == 0) return false;
    --budget;
    const outcome& now = run(taken);
    if (now.kind != failed.kind || !(size(now) < size(failed))) return false;
    failed = now;
    return true;
  };
  for (;;) {
    bool smaller = false;
    // From the end: what comes late has the least effect on what follows.
    for (std::size_t end = changes_of(failed).size(); end > 0 && budget != 0;) {
      const std::vector<std::size_t> at = changes_of(failed);
      end = std::min(end, at.size());
      const std::size_t begin = end - std::min(end, part);
      std::vector<std::uint32_t> taken = failed.played().taken;
      for (std::size_t k = begin; k < end; ++k) taken[at[k]] = 0;
      smaller = try_instead(taken) || smaller;
      end = begin;
    }
    if (budget == 0 || (part == 1 && !smaller)) return failed;
    if (!smaller) part = part / 2;
  }
}

}  // namespace coir::detail
