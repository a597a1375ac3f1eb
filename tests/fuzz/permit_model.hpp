// The reference for what hands out permits first come, first served: semaphore, shared_mutex (a reader takes one
// permit, a writer all) and timed_mutex (of one permit). It knows nothing of threads; with one step at a time, each
// after all is still, everything is foretold: who proceeds, who blocks, who is woken, and with what.
//
// Invariant: the first in the queue wants more than is free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace coir_fuzz {

enum class permit_kind { semaphore, shared_mutex, timed_mutex };

struct permit_operation {
  enum class action {
    acquire,  ///< with the patience below
    attempt,  ///< the try form
    release,
    is_locked,  ///< of a semaphore alone
  } what = action::acquire;
  enum class patience { endless, none, little, long_ } until = patience::endless;
  std::int64_t permits = 1;  ///< of a shared_mutex: one, or all that there are

  bool ends_soon() const noexcept { return what == action::acquire && until == patience::little; }
};

struct permit_outcome {
  enum class end {
    yes,  ///< acquired; released; locked
    no,   ///< not acquired, it would have blocked; not locked
    timed_out,
    too_many,         ///< std::invalid_argument: never so many, or negative
    not_so_many_out,  ///< std::logic_error of a release
    cancelled,
    broken,  ///< something a user must never see; `what` tells
  } how = end::broken;
  std::string what;

  bool was_cancelled() const noexcept { return how == end::cancelled; }
};

std::string to_string(const permit_operation& op);
std::string to_string(const permit_outcome& o);

class permit_model {
 public:
  using outcomes = std::map<std::size_t, permit_outcome>;  // by actor

  /// `newest_first` breaks the model on purpose, to see that a difference is noticed.
  permit_model(permit_kind kind, std::int64_t total, bool newest_first = false)
      : kind_(kind), total_(total), free_(total), newest_first_(newest_first) {}

  /// Actor f did op, and these actors finished since. Empty: as it should be; else what is wrong.
  std::string after_operation(std::size_t f, const permit_operation& op, const outcomes& finished);
  std::string after_cancel(std::size_t f, const outcomes& finished);

  bool blocked(std::size_t f) const;
  std::int64_t total() const noexcept { return total_; }
  std::int64_t out() const noexcept { return total_ - free_; }

 private:
  using end = permit_outcome::end;

  struct waiting {
    std::size_t actor;
    std::int64_t permits;
  };

  bool must_wait(std::int64_t n) const { return !queue_.empty() || n > free_; }
  bool may_release(std::int64_t n) const;
  /// Nothing: it blocks.
  std::optional<end> apply(const permit_operation& op);
  void grant(std::map<std::size_t, end>& expected);

  permit_kind kind_;
  std::int64_t total_;
  std::int64_t free_;
  bool newest_first_;
  std::deque<waiting> queue_;
};

}  // namespace coir_fuzz
