// Receiving in a range-for: begin() and ++ receive and block as recv() does, `*` gives the received value away, and the
// end is the closed and drained channel. Holds its own reference to the channel. Not for users: they write
// `for (T v : ch)`.
#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/chan_operations.hpp>

namespace coir::inline COIR_ABI::detail {

template <class T>
class chan_iterator {
 public:
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  chan_iterator() noexcept = default;
  explicit chan_iterator(const core_reference& channel) : channel_(channel) { ++*this; }
  chan_iterator(chan_iterator&& other) noexcept : channel_(std::move(other.channel_)) { take(other); }
  chan_iterator& operator=(chan_iterator&& other) noexcept {
    if (this != &other) {
      channel_ = std::move(other.channel_);
      take(other);
    }
    return *this;
  }

  T&& operator*() const noexcept { return std::move(*value_); }

  chan_iterator& operator++() {
    value_.reset();
    receive_into_value();
    return *this;
  }
  void operator++(int) { ++*this; }

  friend bool operator==(const chan_iterator& i, std::default_sentinel_t) noexcept { return !i.value_.has_value(); }

 private:
  void receive_into_value() {
    chan_core* core = channel_.get();
    if (core == nullptr) park_forever({"chan receive (nil chan)"});
    core->lock.lock();
    receive_locked(*core, value_, no_deadline);
  }

  // Not std::optional's assignment: it would ask for an assignable T.
  void take(chan_iterator& other) noexcept {
    value_.reset();
    if (other.value_) value_.emplace(std::move(*other.value_));
  }

  core_reference channel_;
  mutable std::optional<T> value_;  // mutable: * moves out of it, which is const to an iterator
};

}  // namespace coir::detail
