#include "observe/blocked_watch.hpp"

#include <algorithm>
#include <cstdio>
#include <new>
#include <sstream>
#include <string>
#include <utility>

#include <coir/detail/abi.hpp>

#include "base/futex.hpp"
#include "observe/fiber_listing.hpp"
#include "observe/fiber_snapshot.hpp"
#include "sched/registry.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::int64_t looks_in_limit = 4;
constexpr std::int64_t shortest_pause = 1'000'000;
constexpr std::int64_t longest_pause = 1'000'000'000;
constexpr std::int64_t most_of_a_core = 10;  // a tenth, however many fibers there are

}  // namespace

blocked_watch::blocked_watch(scheduler& s, std::int64_t limit)
    : scheduler_(s), limit_(limit), thread_(runtime_threads::start([this] { watch(); })) {}

blocked_watch::~blocked_watch() {
  runtime_threads::forget(1);
  ending_.store(1, std::memory_order_release);
  futex_wake(ending_);
  thread_.join();
}

void blocked_watch::watch() noexcept {
  const std::int64_t pause = std::clamp(limit_ / looks_in_limit, shortest_pause, longest_pause);
  while (ending_.load(std::memory_order_acquire) == 0) {
    const std::int64_t begin = scheduler_.clock().now();
    try {
      look(begin);
    } catch (const std::bad_alloc&) {  // perhaps at the next look
    }
    const std::int64_t end = scheduler_.clock().now();
    futex_wait(ending_, 0, end + std::max(pause, (end - begin) * (most_of_a_core - 1)));
  }
}

void blocked_watch::look(std::int64_t now) {
  scheduler_.set_coarse_time(now);
  looks_.push_back(now);
  while (looks_.size() > 1 && now - looks_[1] >= limit_) looks_.pop_front();
  if (now - looks_.front() < limit_) return;
  const std::int64_t before = looks_.front();

  std::unordered_map<const fiber*, std::uint64_t> still;
  fiber_listing news;
  std::size_t count = 0;
  fiber_snapshot copy;
  for (fiber* f : scheduler_.stacks().all()) {
    const auto wait = glimpse_wait(*f);
    if (!wait || wait->ends_by_itself || wait->since >= before) continue;
    const auto known = overdue_.find(f);
    if (known == overdue_.end() || known->second != wait->word) {
      if (!take_snapshot(*f, copy) || copy.word != wait->word) continue;  // it has been woken
      news.add(copy, now);
      ++count;
    }
    still.emplace(f, wait->word);
  }
  overdue_ = std::move(still);
  if (count == 0) return;
  std::ostringstream out;
  out << "coir: " << count_of(count, "fiber") << (count == 1 ? " has" : " have") << " been blocked for longer than "
      << duration_text(limit_) << ":\n";
  news.write_entries(out);
  out << '\n';
  std::fputs(out.str().c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace coir::detail
