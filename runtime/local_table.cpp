// Instrumented by ThreadSanitizer, unlike the rest of the runtime: nothing here is called inside the runtime bracket,
// and all synchronization is the lock's.
#include <coir/detail/local_table.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/spin_lock.hpp>
#include <coir/this_fiber.hpp>

#include "base/at_thread_end.hpp"
#include "base/immortal.hpp"
#include "base/report.hpp"
#include "fiber/fiber.hpp"
#include "sched/worker.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

/// If destructors make this many values for each that was there, that is a mistake.
constexpr std::size_t most_made_anew = 1'000;

/// Free places. Never destroyed: keys with static storage may end after it.
struct place_store {
  std::mutex lock;  // innermost
  internal_vector<std::uint32_t> free;
  std::uint32_t never_used = 0;
  std::uint64_t last_id = 0;
};

place_store& places() { return immortal<place_store>(); }

thread_local local_table* table_of_this_thread = nullptr;

[[gnu::noinline]] local_table*& thread_table() noexcept {
  asm volatile("" ::: "memory");
  return table_of_this_thread;
}

local_table*& this_table() noexcept {
  fiber* f = current_fiber();
  return f != nullptr ? f->locals : thread_table();
}

void end(local_table*& table) noexcept {
  const uncancellable guard;
  table->destroy_all();  // in its place: destructors may use it
  delete std::exchange(table, nullptr);
}

void end_thread(void*) { end(thread_table()); }

}  // namespace

local_key::local_key() {
  place_store& all = places();
  const std::lock_guard locked(all.lock);
  if (all.free.empty()) {
    all.free.reserve(all.never_used + 1);  // for its return
    place_ = all.never_used++;
  } else {
    place_ = all.free.back();
    all.free.pop_back();
  }
  id_ = ++all.last_id;
}

local_key::~local_key() {
  place_store& all = places();
  const std::lock_guard locked(all.lock);
  all.free.push_back(place_);  // there is room: reserved by the constructor
}

void local_table::put(const local_key& key, void* object, destroyer destroy) {
  if (key.place() >= values_.size()) values_.resize(key.place() + std::size_t{1});
  order_.reserve(values_.size());
  value& here = values_[key.place()];
  if (here.object != nullptr) order_.erase(std::find(order_.begin(), order_.end(), key.place()));
  order_.push_back(key.place());
  const value before = std::exchange(here, {key.id(), object, destroy});
  if (before.object != nullptr) before.destroy(before.object);
}

void local_table::destroy_all() noexcept {
  std::size_t left = (order_.size() + 1) * most_made_anew;
  while (!order_.empty()) {
    const value last = std::exchange(values_[order_.back()], {});
    order_.pop_back();
    if (left-- == 0) fatal("the destructors of fiber_local values make new ones without end");
    last.destroy(last.object);
  }
}

[[gnu::noinline]] local_table* this_locals() noexcept { return this_table(); }

local_table& make_locals() {
  local_table*& table = this_table();
  if (table == nullptr) {
    auto fresh = std::make_unique<local_table>();
    if (current_fiber() == nullptr) at_thread_end(&end_thread);
    table = fresh.release();
  }
  return *table;
}

void end_locals() noexcept {
  fiber* f = current_fiber();
  if (f != nullptr && f->locals != nullptr) end(f->locals);
}

}  // namespace coir::detail
