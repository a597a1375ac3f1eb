// The tree behind contexts. Not for users.
//
// A node is a cancel_node (with_cancel, with_deadline) or a value_node. It knows its parent, which it keeps alive, and
// its `scope`: itself or the nearest node above that can be cancelled. A cancel_node knows its *children*, the
// cancel_nodes of which it is the nearest one above. It does not keep them.
//
// There are two counts. *Handles*: contexts, cancel functions, nodes below, and the done channel as long as it has a
// handle. With the last one a node leaves the tree, because nobody could tell any more whether it is cancelled.
// *Memory*, of a cancel_node: all handles together, its alarm while that may ring, and a thread that is about to end it
// from above.
//
//   state of a cancel_node     by
//   live -> ended              the first of: its cancel function, its alarm, the ender of the node above. It takes the
//                              list of children, closes the channel, ends the children next, and takes the node off
//                              its parent's list when all below it have ended
//   live, ended -> gone        the last handle's drop; the node leaves its parent's list then, if it has not
//
// Locks: each cancel_node has one; a child's may be held when its parent's is taken, never the other way round. Nothing
// is woken, allocated or freed under one. The links of a list of children are guarded by the parent's lock.
//
// The last handle frees the user's objects (a value, a cause). An alarm may end a node, and no destructor of the user
// may run on the alarm's thread. So the ender of a node never has a handle, not even of the done channel: it holds
// `closing_` while it closes that channel. A thread that drops the channel's last handle meanwhile waits for
// `closing_`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <coir/chan.hpp>
#include <coir/detail/abi.hpp>
#include <coir/detail/alarm.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/spin_lock.hpp>
#include <coir/detail/start_record.hpp>

namespace coir::inline COIR_ABI::detail {

class cancel_node;

class context_node {
 public:
  context_node(const context_node&) = delete;
  context_node& operator=(const context_node&) = delete;

  void add_handle() noexcept { handles_.fetch_add(1, std::memory_order_relaxed); }
  /// Drops a handle of this node, and those of the nodes above that only it has kept. Without recursion: trees may be
  /// deep.
  void drop_handle() noexcept;

  const context_node* parent() const noexcept { return parent_; }
  cancel_node* scope() const noexcept { return scope_; }

  /// Throws what comparing keys throws.
  virtual bool has_key(const std::type_info& type, const void* key) const;
  virtual const void* value(const std::type_info& type) const noexcept;

 protected:
  /// With one handle, the maker's. `parent` may be null; it gets one more.
  context_node(context_node* parent, cancel_node* scope) noexcept;
  virtual ~context_node();

 private:
  virtual void dispose() noexcept = 0;  // no handle is left

  std::atomic<std::size_t> handles_{1};
  context_node* const parent_;
  cancel_node* const scope_;
};

/// A counted handle, or null.
class node_handle {
 public:
  node_handle() noexcept = default;
  explicit node_handle(context_node* adopted) noexcept : node_(adopted) {}
  node_handle(const node_handle& other) noexcept : node_(other.node_) {
    if (node_ != nullptr) node_->add_handle();
  }
  node_handle(node_handle&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  node_handle& operator=(node_handle other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~node_handle() {
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): a bound pair looks uninitialized to it
    if (node_ != nullptr) node_->drop_handle();
  }

  context_node* get() const noexcept { return node_; }

 private:
  context_node* node_ = nullptr;
};

class cancel_node final : public context_node {
 public:
  enum class state : std::uint8_t { live, cancelled, timed_out };

  /// A node under `parent` (or the background, null) that ends at `when`, if not before. Throws std::bad_alloc, and
  /// what alarm::arm() throws.
  static cancel_node* make(context_node* parent, deadline when);

  state now() const noexcept { return state_.load(std::memory_order_acquire); }
  std::exception_ptr error() const noexcept;
  std::exception_ptr cause() noexcept;
  deadline until() const noexcept { return until_; }
  recv_chan<void> done();

  /// Ends this node and all below it, unless it has ended. Returns when all of them have ended, whichever thread has
  /// ended them.
  void end(state how, const std::exception_ptr& cause) noexcept { end_all(how, cause, false); }

 private:
  struct done_channel;

  cancel_node(context_node* parent, deadline until) noexcept;
  ~cancel_node() override = default;

  // The alarm may release the memory last, on a thread of the library, where no operator delete of the user's may run.
  static void* operator new(std::size_t bytes) { return allocate_record(bytes, alignof(cancel_node)); }
  static void operator delete(void* p) noexcept { free_record(p, sizeof(cancel_node), alignof(cancel_node)); }

  void attach() noexcept;
  void detach() noexcept;
  void end_all(state how, const std::exception_ptr& cause, bool rung) noexcept;
  bool end_this(state how, const std::exception_ptr& cause, bool rung, cancel_node*& below) noexcept;
  void wait_for_end() noexcept;
  void dispose() noexcept override;
  void release_memory(std::size_t counts = 1) noexcept;
  static void ring(void* node, std::uint64_t) noexcept;

  cancel_node* const above_;  // the nearest cancel_node above
  const deadline until_;      // the earliest of its own and those above
  bool armed_ = false;        // the alarm was; constant once the node is made
  alarm alarm_;
  std::atomic<std::size_t> memory_{1};
  std::atomic<state> state_{state::live};  // written under the lock; release, for the channel's closing comes later
  std::atomic<bool> all_ended_{false};     // this node and all below it; set by the ender of this one

  spin_lock lock_;  // guards what follows, state_, and the links of the children
  bool gone_ = false;
  cancel_node* children_ = nullptr;
  std::exception_ptr cause_;
  chan_core* done_ = nullptr;  // not counted: it has a handle of this node, and takes itself away

  spin_lock closing_;  // taken under lock_ by the node's ender, and held while it closes the done channel

  // Guarded by above_'s lock.
  bool listed_ = false;
  cancel_node* next_ = nullptr;
  cancel_node* previous_ = nullptr;

  // The ender's stack of nodes that it has taken off their lists. A node stays behind those below it until they have
  // ended.
  cancel_node* next_below_ = nullptr;
  bool entered_ = false;
};

/// Keys are compared by == within their type. Strings of any form are compared as std::string.
template <class K>
using context_key =
    std::conditional_t<std::is_same_v<std::decay_t<K>, const char*> || std::is_same_v<std::decay_t<K>, char*> ||
                           std::is_same_v<std::decay_t<K>, std::string_view>,
                       std::string, std::decay_t<K>>;

template <class K, class V>
class value_node final : public context_node {
 public:
  template <class Key, class Value>
  value_node(context_node* parent, Key&& key, Value&& value)
      : context_node(parent, parent != nullptr ? parent->scope() : nullptr),
        key_(std::forward<Key>(key)),
        value_(std::forward<Value>(value)) {}

 private:
  bool has_key(const std::type_info& type, const void* key) const override {
    return type == typeid(K) && *static_cast<const K*>(key) == key_;
  }
  const void* value(const std::type_info& type) const noexcept override {
    return type == typeid(V) ? std::addressof(value_) : nullptr;
  }
  void dispose() noexcept override { delete this; }

  const K key_;
  const V value_;
};

}  // namespace coir::detail
