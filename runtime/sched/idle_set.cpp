#include "sched/idle_set.hpp"

#include <algorithm>
#include <utility>

#include <coir/detail/abi.hpp>

#include "sched/processor.hpp"
#include "sched/worker.hpp"

namespace coir::inline COIR_ABI::detail {

void idle_set::put(processor& p) noexcept {
  processors_.push_back(&p);
  word_.fetch_add(1, std::memory_order_seq_cst);
  publish_earliest();
}

processor& idle_set::hand_over(worker& w) noexcept {
  processor& p = *processors_.back();
  processors_.pop_back();
  p.give_to(&w);
  w.held = &p;
  end_keeping(w);
  epoch_.add();
  word_.fetch_sub(1, std::memory_order_seq_cst);
  publish_earliest();
  return p;
}

worker* idle_set::take_sleeper() noexcept {
  if (sleepers_.empty()) return nullptr;
  // Only the worker in the poller and the keeper have a cost, so this ends soon.
  auto best = sleepers_.end() - 1;
  for (auto each = best; cost_of_taking(**best) != 0 && each != sleepers_.begin();)
    if (cost_of_taking(**--each) < cost_of_taking(**best)) best = each;
  worker* w = *best;
  *best = sleepers_.back();
  sleepers_.pop_back();
  return w;
}

int idle_set::cost_of_taking(const worker& w) const noexcept { return polls(w) ? 2 : keeps(w) ? 1 : 0; }

bool idle_set::begin_polling(const worker& w) noexcept {
  if (anybody_polls()) return false;
  poller_.store(&w, std::memory_order_relaxed);
  return true;
}

void idle_set::end_polling(const worker& w) noexcept {
  if (polls(w)) poller_.store(nullptr, std::memory_order_relaxed);
}

bool idle_set::keep(const worker& w, deadline next) noexcept {
  if (next >= keeper_deadline_) return false;
  keeper_ = &w;
  keeper_deadline_ = next;
  return true;
}

void idle_set::end_keeping(const worker& w) noexcept {
  if (keeper_ != &w) return;
  keeper_ = nullptr;
  keeper_deadline_ = no_deadline;
}

void idle_set::publish_earliest() noexcept {
  deadline earliest = no_deadline;
  for (const processor* p : processors_) earliest = std::min(earliest, p->timers.earliest());
  deadline_.store(earliest, std::memory_order_relaxed);
}

}  // namespace coir::detail
