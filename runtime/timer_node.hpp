// A timer. Its state word says who frees it: a timer whose owner has migrated is cancelled lazily, by the word alone.
//
//   armed -> dead        the owner cancelled it first: the heap frees the node when it comes to the top, or when half
//                        of all is dead
//   armed -> fired       the heap popped it first: the owner of the wait frees the node, when it has woken
//
// Two more for alarms (alarm.cpp), whose owner may be anywhere, and may live on when the runtime has ended:
//
//   armed -> cancelling  the owner, who is going to touch the heap from outside; the heap does not go before the word
//   cancelling -> dead   says dead: the owner has done, the heap frees the node
//   armed -> orphaned    the heap is going: the owner frees the node
//
// The heap reads all it needs before it moves the word to `fired`, and does not touch the node after that.
#pragma once

#include <atomic>
#include <cstdint>

#include <coir/park.hpp>

namespace coir::detail {

class processor;

struct timer_node {
  enum class state : std::uint8_t { armed, fired, dead, cancelling, orphaned };

  deadline when;
  // Where it lies; of the holder of the processor.
  std::uint32_t index = 0;
  std::uint16_t slot = 0;
  std::atomic<state> word{state::armed};
  bool announced = false;                                 // to ThreadSanitizer: arming it happens before the call
  processor* home;                                        // null: the outside timers
  void (*fire)(void* arg, std::uint64_t stamp) noexcept;  // called with no processor held; must not block
  void* arg;
  std::uint64_t stamp;
};

/// As the heap and the wheel hold it: comparing needs no look at the node.
struct timer_entry {
  deadline when;
  timer_node* node;
};

/// A node for a timer of `home`; freed by free_timer().
timer_node* make_timer(processor* home, deadline when, void (*fire)(void*, std::uint64_t) noexcept, void* arg,
                       std::uint64_t stamp);
void free_timer(timer_node* n) noexcept;

}  // namespace coir::detail
