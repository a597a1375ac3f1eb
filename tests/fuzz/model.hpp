// The reference: what channels and select do, said as plainly as possible. It knows nothing of threads: the driver lets
// one fiber take one step at a time, waits until everything is still, and hands over who finished with what; the model
// says whether that is one of the allowed results, and takes it as what happened (where several are allowed, as in a
// select with two ready cases, the model cannot know beforehand).
//
// Invariants: a channel has no receivers waiting while it holds a value, and no senders waiting while it has room.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operation.hpp"

namespace coir_fuzz {

class model {
 public:
  /// An empty capacity is the nil channel. `newest_first` breaks the model on purpose (it then serves waiters in the
  /// wrong order), to see that a difference is noticed.
  model(const std::vector<std::optional<std::size_t>>& capacities, std::size_t fibers, std::size_t stops,
        bool newest_first = false);

  using outcomes = std::map<std::size_t, outcome>;  // by fiber

  /// Fiber f did op, and these fibers finished since. Empty: allowed; else what is wrong.
  std::string after_operation(std::size_t f, const operation& op, const outcomes& finished);
  std::string after_stop(std::size_t source, const outcomes& finished);
  std::string after_cancel(std::size_t f, const outcomes& finished);

  std::size_t actors() const noexcept { return fibers_.size(); }
  bool blocked(std::size_t f) const { return fibers_[f].waits; }
  std::size_t length(std::size_t index) const { return channels_[index].buffer.size(); }
  bool stop_requested(std::size_t source) const { return stopped_[source]; }

  /// Tokens in buffers and in the hands of blocked fibers.
  long tokens() const;

 private:
  struct channel {
    std::size_t capacity = 0;
    bool nil = false;
    bool closed = false;
    std::deque<std::uint64_t> buffer;
    std::vector<std::size_t> senders;  // fibers, in order of arrival
    std::vector<std::size_t> receivers;
  };
  struct fiber {
    bool waits = false;
    operation op;
  };

  bool ready(const transfer& t) const;
  void enqueue(std::size_t f, const operation& op);
  void dequeue(std::size_t f);
  std::string after_close(std::size_t f, const operation& op, const outcomes& finished);
  std::string fire(std::size_t f, const operation& op, const outcome& o, const outcomes& finished);
  std::string wake_partner(std::size_t index, bool sender, const outcomes& finished, std::size_t& partner,
                           std::uint64_t& number);
  std::string nobody_but(const std::vector<std::size_t>& allowed, const outcomes& finished) const;

  std::vector<channel> channels_;
  std::vector<fiber> fibers_;
  std::vector<bool> stopped_;
  bool newest_first_;
};

}  // namespace coir_fuzz
