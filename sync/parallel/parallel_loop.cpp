#include <coir/detail/parallel_loop.hpp>

#include <algorithm>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>
#include <coir/runtime.hpp>

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::int64_t chunk_time = 20'000;       // ns; a chunk costs its member some 60 ns
constexpr std::int64_t worth_helping = 20'000;    // ns; less work than that is done before a helper has come
constexpr std::uint64_t growth = 8;               // of one chunk to the next, at most
constexpr std::uint64_t chunks_of_share = 8;      // at least
constexpr std::uint64_t steps_worth_a_look = 64;  // for each processor; see run()

}  // namespace

/// Aligned, so that members do not share cache lines.
struct alignas(64) parallel_loop::share {
  spin_lock lock;                       // guards changes of the next two
  std::atomic<std::uint64_t> first{0};  // read by others as hints
  std::atomic<std::uint64_t> last{0};
  share* next = nullptr;  // under members_lock_
  share* previous = nullptr;

  // relaxed: all that is concluded from a hint is checked under the lock.
  std::uint64_t left() const noexcept {
    const std::uint64_t from = first.load(std::memory_order_relaxed);
    const std::uint64_t to = last.load(std::memory_order_relaxed);
    return to > from ? to - from : 0;
  }
  void set(std::uint64_t from, std::uint64_t to) noexcept {
    first.store(from, std::memory_order_relaxed);
    last.store(to, std::memory_order_relaxed);
  }
};

/// How large the next chunk is to be, from how long the last one took.
class parallel_loop::pace {
 public:
  explicit pace(bool one_step) noexcept : one_step_(one_step) {}

  std::uint64_t next(std::uint64_t left) const noexcept {
    if (one_step_) return 1;
    // Near the end of a share, chunks do not become ever smaller.
    const std::uint64_t fair = std::max({left / chunks_of_share, steps_ / chunks_of_share, std::uint64_t{1}});
    return std::min({left, steps_, fair});
  }

  void took(std::uint64_t steps, std::int64_t time) noexcept {
    time = std::max<std::int64_t>(time, 1);
    step_time_ = static_cast<double>(time) / static_cast<double>(steps);
    if (one_step_) return;
    const double fitting = static_cast<double>(chunk_time) / step_time_;
    const double most = static_cast<double>(std::max(steps_, steps)) * static_cast<double>(growth);
    steps_ = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::min(fitting, most)));
  }

  bool worth_help(std::uint64_t left) const noexcept {
    return static_cast<double>(left) * step_time_ >= static_cast<double>(worth_helping);
  }

 private:
  const bool one_step_;
  std::uint64_t steps_ = 1;
  double step_time_ = 0;  // ns
};

/// A member that others can take from.
class parallel_loop::membership {
 public:
  membership(parallel_loop& of, share& mine) noexcept : of_(of), mine_(mine) {
    of_.members_lock_.lock();
    mine_.next = of_.members_;
    if (mine_.next != nullptr) mine_.next->previous = &mine_;
    of_.members_ = &mine_;
    of_.members_lock_.unlock();
  }
  ~membership() {
    of_.members_lock_.lock();
    (mine_.previous != nullptr ? mine_.previous->next : of_.members_) = mine_.next;
    if (mine_.next != nullptr) mine_.next->previous = mine_.previous;
    of_.members_lock_.unlock();
  }
  membership(const membership&) = delete;
  membership& operator=(const membership&) = delete;

 private:
  parallel_loop& of_;
  share& mine_;
};

parallel_loop::parallel_loop(const char* what, std::uint64_t count, std::uint64_t grain, chunk_body body, void* context,
                             source_location at)
    : steps_(grain == 0 ? count : count / grain + (count % grain != 0 ? 1 : 0)),
      count_(count),
      grain_(grain),
      body_(body),
      context_(context),
      at_(at),
      crew_(what),
      processors_(runtime::current().processors()) {}

void parallel_loop::run() {
  if (steps_ == 0) return;
  crew_.lead([this] {
    share mine;
    mine.set(0, steps_);
    const membership joined(*this, mine);
    pace chunks(grain_ != 0);
    std::int64_t turn_began = now();
    // If there are few bodies they are likely to be large, and help is called before the first one. If there are many,
    // the first ones tell what they cost.
    if (steps_ > 1 && steps_ <= steps_worth_a_look * processors_) call_helpers();
    do work_through(mine, chunks, turn_began);
    while (!crew_.over() && steal(mine));
  });
}

/// A helper's part.
void parallel_loop::take_part() {
  to_come_.fetch_sub(1, std::memory_order_relaxed);
  struct at_end {
    std::atomic<std::uint32_t>& helpers;
    ~at_end() { helpers.fetch_sub(1, std::memory_order_relaxed); }
  } const leaves{helpers_};
  share mine;
  const membership joined(*this, mine);
  pace chunks(grain_ != 0);
  std::int64_t turn_began = now();
  while (!crew_.over() && steal(mine)) work_through(mine, chunks, turn_began);
}

/// Works until the share is empty, or a member has failed.
void parallel_loop::work_through(share& mine, pace& chunks, std::int64_t& turn_began) {
  std::int64_t begin = now();
  while (!crew_.over()) {
    mine.lock.lock();
    const std::uint64_t left = mine.left();
    if (left == 0) return mine.lock.unlock();
    const std::uint64_t first = mine.first.load(std::memory_order_relaxed);
    const std::uint64_t steps = chunks.next(left);
    mine.first.store(first + steps, std::memory_order_relaxed);
    mine.lock.unlock();

    if (grain_ == 0)
      body_(context_, first, first + steps);
    else
      body_(context_, first * grain_, steps == steps_ - first ? count_ : (first + steps) * grain_);

    const std::int64_t end = now();
    chunks.took(steps, end - begin);
    if (left == steps) return;
    check_cancelled();
    if (chunks.worth_help(left - steps)) call_helpers();
    begin = end_turn(turn_began, end);
  }
}

/// Takes the upper half of the largest share.
bool parallel_loop::steal(share& mine) noexcept {
  members_lock_.lock();
  bool found = false;
  for (;;) {
    share* victim = nullptr;
    std::uint64_t most = 0;
    for (share* s = members_; s != nullptr; s = s->next) {
      if (const std::uint64_t left = s->left(); left > most) {
        most = left;
        victim = s;
      }
    }
    if (victim == nullptr) break;
    victim->lock.lock();
    const std::uint64_t left = victim->left();
    const std::uint64_t last = victim->last.load(std::memory_order_relaxed);
    const std::uint64_t taken = left - left / 2;
    victim->last.store(last - taken, std::memory_order_relaxed);
    victim->lock.unlock();
    if (taken == 0) continue;
    mine.lock.lock();
    mine.set(last - taken, last);
    mine.lock.unlock();
    found = true;
    break;
  }
  members_lock_.unlock();
  return found;
}

/// Calls as many helpers as there are processors without work, and as may still join.
void parallel_loop::call_helpers() {
  const std::uint32_t idle = processors_without_work();
  if (idle == 0) return;
  std::uint32_t to_come = to_come_.load(std::memory_order_relaxed);
  while (to_come < idle) {
    if (helpers_.fetch_add(1, std::memory_order_relaxed) + 1 >= processors_) {
      helpers_.fetch_sub(1, std::memory_order_relaxed);
      return;
    }
    to_come = to_come_.fetch_add(1, std::memory_order_relaxed) + 1;
    try {
      crew_.help([this] { take_part(); }, at_);
    } catch (...) {
      helpers_.fetch_sub(1, std::memory_order_relaxed);
      to_come_.fetch_sub(1, std::memory_order_relaxed);
      throw;
    }
  }
}

}  // namespace coir::detail
