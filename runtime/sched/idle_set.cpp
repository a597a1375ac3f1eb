#include "sched/idle_set.hpp"

#include <algorithm>
#include <utility>

#include "sched/processor.hpp"
#include "sched/worker.hpp"

namespace coir::detail {

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
  if (sleepers_.back() == keeper_) std::swap(sleepers_.back(), sleepers_.front());
  worker* w = sleepers_.back();
  sleepers_.pop_back();
  return w;
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
