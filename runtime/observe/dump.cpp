// dump(): fibers are copied a few hundred at a time, under the registry's lock, and unwound when it is released
// (fiber_listing.hpp). So the program waits for nothing but, for a moment, the spin lock of a name or a queue.
#include <coir/dump.hpp>

#include <array>
#include <new>
#include <ostream>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/detail/stackless.hpp>

#include "observe/fiber_listing.hpp"
#include "observe/fiber_snapshot.hpp"
#include "sched/async_list.hpp"
#include "sched/registry.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI {

namespace detail {

namespace {

constexpr std::size_t batch_fibers = 256;
constexpr std::size_t batch_bytes = std::size_t{1} << 20;
constexpr std::size_t injected_looked_at = 1000;

void collect(fiber_listing& all, std::uint64_t runtime) {
  internal_vector<fiber*> stacks;
  std::vector<stackless::view> asyncs;
  std::vector<fiber_snapshot> batch(batch_fibers);
  std::size_t next = 0;
  std::int64_t now = 0;
  const bool lives = runtime_registry::visit(runtime, [&](scheduler& s) {
    stacks = s.stacks().all();
    scheduler::unstarted_fibers fresh = s.list_unstarted();
    for (const source_location& at : fresh.seen) all.add_unstarted(at);
    all.add_more_unstarted(fresh.more);
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
  all.add_runtime();
  for (const stackless::view& each : asyncs) all.add(each);
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
    for (std::size_t i = 0; i < taken; ++i) all.add(batch[i], now);
  }
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
  found.more += queues_.spilled_fresh().count();
  // The suspended ones among them have a stack, and are listed with it.
  std::vector<source_location> injected(injected_looked_at);
  std::size_t looked_at = 0;
  std::size_t n = 0;
  queues_.injected().peek(injected.size(), [&](const runnable& r) {
    ++looked_at;
    if (!r.has_not_started()) return;
    const auto& fresh = static_cast<const start_record&>(r);
    injected[n++] = {fresh.file, fresh.line};
  });
  found.seen.insert(found.seen.end(), injected.begin(), injected.begin() + static_cast<std::ptrdiff_t>(n));
  const std::size_t size = queues_.injected().size();
  if (looked_at == injected.size() && size > looked_at) found.more += size - looked_at;
  return found;
}

}  // namespace detail

void dump(std::ostream& out) {
  detail::fiber_listing all;
  for (const std::uint64_t runtime : detail::runtime_registry::serials()) detail::collect(all, runtime);
  all.write(out);
}

}  // namespace coir
