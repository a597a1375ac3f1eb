// task_group: fibers that belong together. They are joined together, and the first failure cancels the others. As
// golang.org/x/sync/errgroup, and the nurseries of structured concurrency.
//
//   coir::task_group group;
//   for (const auto& page : pages) group.spawn([&page] { fetch(page); });
//   group.wait();  // rethrows what the first failing fetch threw, once all have ended
//
// A child fails when an exception other than `cancelled` leaves it. The first failure cancels the other children (their
// blocking calls throw `cancelled`), and wait() rethrows it. Later failures are dropped. After the first failure the
// group is over: spawn() does nothing. A group without a failure may be used again after wait().
//
// A child that ended by its cancellation has not done its work, so wait() does not return as if it had: it throws
// task_cancelled, as task::get() does. That is so if something else cancelled the child (runtime::cancel(), the
// unwinding of a deadlock), which does not cancel its siblings, or if another wait() of the group was cancelled. A
// child that throws `cancelled` itself, although it was not cancelled, has ended normally.
//
// No child outlives the group: the destructor cancels and joins what is left.
//
// Thread safety: fibers and plain threads may call all members at once, except the destructor. Only fibers may call
// spawn(); children of the group may too. A child that waits for its own group waits for itself.
// Happens-before: spawn() happens before the child's function starts. The end of every child, after what it captured
// and its fiber_locals were destroyed, happens before wait() returns or throws.
//
// Invariant, under lock_: running_ counts the children that are linked, and the spawners that were granted a place and
// have not linked their child yet. The fiber that takes it to zero wakes the joiners with its last touch of the group.
// The child that fails first still counts while it stops the others, so the group exists meanwhile.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include <coir/async.hpp>
#include <coir/context.hpp>
#include <coir/detail/abi.hpp>
#include <coir/detail/wait_list.hpp>
#include <coir/error.hpp>
#include <coir/runtime.hpp>
#include <coir/source_location.hpp>
#include <coir/task.hpp>
#include <coir/timeout.hpp>

namespace coir::inline COIR_ABI {

class task_group;

namespace detail {

class crew;

/// A child. Its fiber frees it, or the caller that stops it, whichever uses it last.
class group_child : public task_state {
 protected:
  using destroyer = void (*)(group_child*) noexcept;  ///< frees the record that the child is

  /// `f` runs the function, `d` frees the record, and `where` is the spawn site.
  group_child(entry f, destroyer d, task_group& g, source_location where) noexcept
      : task_state(f, where), group_(&g), destroy_(d) {}

  /// The fiber's first step.
  using task_state::begin;
  /// The fiber's last step, after the closure is destroyed. `error` is the exception that left it.
  void end() noexcept;

 private:
  friend class coir::task_group;

  void release() noexcept {
    // acq_rel: the last release has seen the other's use.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy_(this);
  }

  task_group* group_;
  destroyer destroy_;
  std::atomic<int> references_{1};
  group_child* next_ = nullptr;  // in the group, under its lock
  group_child* previous_ = nullptr;
  group_child* next_to_stop_ = nullptr;  // in the list of the caller that stops them
};

template <class F>
class group_record final : public group_child {
 public:
  template <class G>
  group_record(G&& f, task_group& g, source_location where)
      : group_child(&enter, &destroy_this, g, where), closure_(std::in_place, std::forward<G>(f)) {}

 private:
  static void enter(start_record* r) {
    auto* self = static_cast<group_record*>(r);
    self->begin();
    try {
      std::move (*self->closure_)();
      self->closure_.reset();
    } catch (...) {
      self->error = std::current_exception();
      self->closure_.reset();
    }
    self->end();
  }

  static void destroy_this(group_child* c) noexcept { destroy_record(static_cast<group_record*>(c)); }

  std::optional<F> closure_;
};

}  // namespace detail

/// Fibers that belong together: none outlives the group, and the first failure cancels the others.
class task_group {
 public:
  /// No limit to how many children run at once.
  static constexpr std::size_t no_limit = static_cast<std::size_t>(-1);

  task_group() noexcept = default;

  /// Cancels the children that are left, and joins them. What they throw is dropped. Blocks, even in a cancelled fiber.
  /// Not a cancellation point.
  ~task_group();
  task_group(const task_group&) = delete;
  task_group& operator=(const task_group&) = delete;

  /// Starts f in a fiber of the group, in the calling fiber's runtime. What f returns is dropped. Blocks while as many
  /// children run as the limit allows; spawners are served in the order in which they came. Once the group is over, it
  /// starts nothing and destroys f. Throws not_in_runtime outside a fiber, and std::bad_alloc. A cancellation point if
  /// it has to wait: throws `cancelled`.
  template <class F>
  void spawn(F&& f, source_location at = source_location::current()) {
    using closure = std::decay_t<F>;
    static_assert(std::is_invocable_v<closure>, "coir: a fiber's function takes no arguments (capture instead)");
    static_assert(!detail::is_async<std::invoke_result_t<closure>>,
                  "coir: this would drop the async and not run it; spawn() it, and get() it in a child");
    detail::scheduler& where = detail::current_scheduler("coir::task_group::spawn");
    start(where, *detail::make_record<detail::group_record<closure>>(std::forward<F>(f), *this, at));
  }

  /// Sets how many children may run at once; no_limit at first. May be changed at any time: a lower limit takes effect
  /// as children end, and a higher one lets blocked spawners on. Does not block. Throws std::invalid_argument if n is
  /// 0.
  void set_limit(std::size_t n);

  /// Blocks until no child is left. Then rethrows the first failure, if there was one. Otherwise throws task_cancelled
  /// if a child or the group was cancelled, see above; but `cancelled` if the calling fiber is being cancelled itself.
  /// Each further call does the same. If the calling fiber is cancelled while it waits, cancels the children, joins
  /// them, and throws `cancelled`; the group is then over. May be called from a plain thread.
  void wait();

  /// `co_await group.async_wait()` in a coir::async: as wait(), but the coroutine waits instead of a fiber.
  /// Allocates a frame.
  async<void> async_wait();

 private:
  friend class detail::group_child;
  friend class detail::crew;

  void start(detail::scheduler& where, detail::group_child& child);
  bool admit(detail::group_child& child);
  void link(detail::group_child& child) noexcept;
  void unlink(detail::group_child& child) noexcept;
  void child_failed(std::exception_ptr error) noexcept;
  void child_ended(detail::group_child& child, bool unwound) noexcept;
  void leave(detail::wake_list& wakes) noexcept;
  void grant(detail::wake_list& wakes) noexcept;
  detail::group_child* end_group(detail::wake_list& wakes) noexcept;
  void stop() noexcept;
  static void stop_all(detail::group_child* chain) noexcept;
  void join_uncancellable() noexcept;
  void rethrow_failure();

  /// The wait until no child is left; see queued_wait.hpp.
  class join final : public detail::queued_wait {
   public:
    join(task_group& of, const char* what) noexcept : of_(&of), what_(what) {}

    detail::wait_place place() const noexcept { return {of_->lock_, of_->joiners_}; }
    detail::wait_reason why() const noexcept { return {what_, of_}; }
    bool enter() noexcept;
    detail::wake leave(detail::wake how) noexcept;
    static detail::wake outcome(detail::wake how) noexcept { return how; }  // a cancelled waiter has more to do

   private:
    task_group* of_;
    const char* what_;
  };

  detail::spin_lock lock_;  // innermost; guards all that follows
  bool over_ = false;       // failed, or cancelled
  bool unwound_ = false;    // a child has ended by its cancellation
  std::size_t running_ = 0;
  std::size_t limit_ = no_limit;
  detail::group_child* children_ = nullptr;
  detail::wait_queue spawners_;  // node.ok: granted a place, counted in running_; else the group is over
  detail::wait_queue joiners_;
  std::exception_ptr error_;
};

}  // namespace coir
