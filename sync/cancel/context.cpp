#include <coir/context.hpp>

#include <algorithm>
#include <memory>

#include <coir/detail/abi.hpp>
#include <coir/error.hpp>

namespace coir::inline COIR_ABI {

namespace detail {

// ---- nodes ---------------------------------------------------------------------------------------------------------

context_node::context_node(context_node* parent, cancel_node* scope) noexcept : parent_(parent), scope_(scope) {
  if (parent != nullptr) parent->add_handle();
}

/// If a handle is left here, it is the maker's: the constructor of the derived class has thrown.
context_node::~context_node() {
  if (handles_.load(std::memory_order_relaxed) != 0 && parent_ != nullptr) parent_->drop_handle();
}

void context_node::drop_handle() noexcept {
  context_node* node = this;
  // acq_rel: the last has seen what all others did.
  while (node != nullptr && node->handles_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    context_node* parent = node->parent_;
    node->dispose();
    node = parent;
  }
}

bool context_node::has_key(const std::type_info&, const void*) const { return false; }
const void* context_node::value(const std::type_info&) const noexcept { return nullptr; }

// ---- the done channel ----------------------------------------------------------------------------------------------

/// A chan<void> that nobody sends to. It has a handle of its node, so that it is closed even if nobody kept a context.
/// The pointer to the node lies behind the core.
struct cancel_node::done_channel {
  static constexpr std::size_t place = typed_element<unit>::operations.offset;

  static cancel_node*& node_of(void* core) noexcept {
    return *reinterpret_cast<cancel_node**>(static_cast<std::byte*>(core) + place);
  }

  /// When its last handle is gone.
  static bool dropped(void* core) noexcept {
    cancel_node* node = node_of(core);
    node->lock_.lock();
    if (node->done_ == core) node->done_ = nullptr;
    node->lock_.unlock();
    node->closing_.lock();  // the closing thread has woken all, and is about to leave
    node->closing_.unlock();
    node->drop_handle();
    return true;
  }

  static constexpr element_operations operations = [] {
    element_operations o = typed_element<unit>::operations;
    o.trailer = sizeof(void*);  // a cancel_node*
    o.dropped = &dropped;
    return o;
  }();

  static core_reference make(cancel_node& node) {
    core_reference core(chan_core::make(0, operations));
    node.add_handle();
    ::new (static_cast<void*>(&node_of(core.get()))) cancel_node*(&node);
    return core;
  }
};

recv_chan<void> cancel_node::done() {
  const auto channel = [](core_reference core) { return chan_access::make<chan<void>>(std::move(core)); };
  lock_.lock();
  if (done_ != nullptr && done_->try_add_reference()) {
    core_reference there(done_);
    lock_.unlock();
    return channel(std::move(there));
  }
  lock_.unlock();
  core_reference fresh = done_channel::make(*this);
  // Nobody may see an open channel of a node that has ended. If the node is live, the thread that ends it finds it.
  for (bool closed = false;; closed = true) {
    if (closed) fresh.get()->close();
    lock_.lock();
    if (done_ != nullptr && done_->try_add_reference()) {  // another was faster
      core_reference there(done_);
      lock_.unlock();
      return channel(std::move(there));
    }
    if (closed || state_.load(std::memory_order_relaxed) == state::live) {
      done_ = fresh.get();
      lock_.unlock();
      return channel(std::move(fresh));
    }
    lock_.unlock();
  }
}

// ---- making and freeing --------------------------------------------------------------------------------------------

cancel_node::cancel_node(context_node* parent, deadline until) noexcept
    : context_node(parent, this), above_(parent != nullptr ? parent->scope() : nullptr), until_(until) {}

namespace {

/// Never destroyed, and shared by all contexts: to make one needs memory, and an alarm could not report that there is
/// none.
template <class Error>
const std::exception_ptr& the_error(const char* what) {
  static const auto* error = new std::exception_ptr(std::make_exception_ptr(Error(what)));
  return *error;
}

const std::exception_ptr& ended_by_cancel() { return the_error<context_cancelled>("context cancelled"); }
const std::exception_ptr& ended_by_deadline() { return the_error<timed_out>("context deadline passed"); }

}  // namespace

cancel_node* cancel_node::make(context_node* parent, deadline when) {
  ended_by_cancel();  // made here, where a failure can be thrown
  ended_by_deadline();
  const cancel_node* above = parent != nullptr ? parent->scope() : nullptr;
  const deadline earlier = above != nullptr ? above->until_ : no_deadline;
  auto* node = new cancel_node(parent, std::min(when, earlier));
  const bool past = when != no_deadline && when <= detail::now();
  if (when < earlier && !past) {  // otherwise the node above ends this one
    node->armed_ = true;
    announce_release(node->lock_);
    node->memory_.fetch_add(1, std::memory_order_relaxed);  // the alarm's
    try {
      node->alarm_.arm(when, &ring, node);
    } catch (...) {
      node->armed_ = false;
      node->release_memory();
      node->drop_handle();
      throw;
    }
  }
  node->attach();
  if (past) node->end(state::timed_out, nullptr);
  return node;
}

/// Goes onto the list of the node above. If that has ended, this node ends in the same way. The alarm may have rung
/// meanwhile.
void cancel_node::attach() noexcept {
  if (above_ == nullptr) return;
  lock_.lock();
  above_->lock_.lock();
  const state how = above_->state_.load(std::memory_order_relaxed);
  std::exception_ptr cause = above_->cause_;
  if (how == state::live && state_.load(std::memory_order_relaxed) == state::live) {
    listed_ = true;
    next_ = above_->children_;
    if (next_ != nullptr) next_->previous_ = this;
    above_->children_ = this;
  }
  above_->lock_.unlock();
  lock_.unlock();
  if (how != state::live) end(how, cause);
}

/// Under the lock: leaves the list of the node above, which exists until this node is gone.
void cancel_node::detach() noexcept {
  if (above_ == nullptr) return;
  above_->lock_.lock();
  if (std::exchange(listed_, false)) {
    (previous_ != nullptr ? previous_->next_ : above_->children_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
  }
  above_->lock_.unlock();
}

void cancel_node::dispose() noexcept {
  lock_.lock();
  gone_ = true;
  const bool live = state_.load(std::memory_order_relaxed) == state::live;
  detach();
  const std::exception_ptr cause = std::move(cause_);  // freed here, not by the thread that frees the memory
  lock_.unlock();
  // If the node was ended, the thread that ended it disarms the alarm.
  release_memory(live && armed_ && alarm_.disarm() ? 2U : 1U);
}

void cancel_node::release_memory(std::size_t counts) noexcept {
  // acq_rel: the last has seen the others' use.
  if (memory_.fetch_sub(counts, std::memory_order_acq_rel) == counts) delete this;
}

// ---- ending --------------------------------------------------------------------------------------------------------

void cancel_node::ring(void* node, std::uint64_t) noexcept {
  auto* self = static_cast<cancel_node*>(node);
  announce_acquire(self->lock_);  // of what came before arm()
  self->end_all(state::timed_out, nullptr, true);
  self->release_memory();
}

void cancel_node::end_all(state how, const std::exception_ptr& cause, bool rung) noexcept {
  cancel_node* below = nullptr;
  if (!end_this(how, cause, rung, below)) {
    if (!rung) wait_for_end();
    return;
  }
  while (below != nullptr) {
    cancel_node* node = below;
    if (!std::exchange(node->entered_, true)) {
      if (!node->end_this(how, cause, false, below)) node->wait_for_end();
      continue;
    }
    below = node->next_below_;  // all that was in front of it has ended
    node->all_ended_.store(true, std::memory_order_release);
    node->release_memory();
  }
  all_ended_.store(true, std::memory_order_release);
  // Not before all have ended: a thread that ends the node above meanwhile must find this one, and wait for it.
  lock_.lock();
  if (!gone_) detach();
  lock_.unlock();
}

/// Another thread has ended this node. Returns when that thread has ended the nodes below, too. That thread is running,
/// not asleep. If it waits in its turn, it waits for nodes further down.
void cancel_node::wait_for_end() noexcept {
  // acquire: pairs with the stores in end_all().
  for (backoff pause; !all_ended_.load(std::memory_order_acquire);) pause();
}

/// Ends this node. False: another thread has ended it, and it is not gone. Its children, each with a count of memory,
/// go to the front of `below`. `rung`: its own alarm ends it, which the maker of the node may still be arming.
bool cancel_node::end_this(state how, const std::exception_ptr& cause, bool rung, cancel_node*& below) noexcept {
  lock_.lock();
  if (gone_ || state_.load(std::memory_order_relaxed) != state::live) {
    const bool gone = gone_;
    lock_.unlock();
    return gone;
  }
  cause_ = cause;
  state_.store(how, std::memory_order_release);
  for (cancel_node* child = std::exchange(children_, nullptr); child != nullptr; child = child->next_) {
    child->listed_ = false;
    child->memory_.fetch_add(1, std::memory_order_relaxed);  // it was listed, so it is not gone
    child->next_below_ = std::exchange(below, child);
  }
  closing_.lock();
  chan_core* const done = done_;  // stays while closing_ is held
  lock_.unlock();
  if (armed_ && !rung && alarm_.disarm()) release_memory();  // not the last: the caller has one, or a handle
  if (done != nullptr) done->close(true);
  closing_.unlock();
  return true;
}

// ---- err() and cause() ---------------------------------------------------------------------------------------------

std::exception_ptr cancel_node::error() const noexcept {
  switch (now()) {
    case state::live:
      return nullptr;
    case state::cancelled:
      return ended_by_cancel();
    case state::timed_out:
      break;
  }
  return ended_by_deadline();
}

std::exception_ptr cancel_node::cause() noexcept {
  if (now() == state::live) return nullptr;
  lock_.lock();
  std::exception_ptr given = cause_;
  lock_.unlock();
  return given ? given : error();
}

std::pair<context, cancel_function> context_access::cancellable(const context& parent, deadline when) {
  const node_handle made(cancel_node::make(node(parent), when));
  return {context(made), cancel_function(made)};
}

}  // namespace detail

std::optional<std::chrono::steady_clock::time_point> context::deadline() const noexcept {
  const auto node = cancellable();
  if (node == nullptr || node->until() == detail::no_deadline) return std::nullopt;
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(node->until()));
}

const void* context::find(const std::type_info& key_type, const void* key, const std::type_info& type) const {
  for (const detail::context_node* n = node_.get(); n != nullptr; n = n->parent())
    if (n->has_key(key_type, key)) return n->value(type);
  return nullptr;
}

void cancel_function::operator()(const std::exception_ptr& cause) const noexcept {
  detail::decide(detail::operation::cancel, node_.get());
  if (node_.get() != nullptr) node_.get()->scope()->end(detail::cancel_node::state::cancelled, cause);
}

}  // namespace coir
