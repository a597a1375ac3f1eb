// fiber_local<T>: a variable of which every fiber has its own, as every thread has its own thread_local. A fiber moves
// between threads, so a thread_local does not belong to a fiber (docs/thread-local-storage.md).
//
//   coir::fiber_local<request_id> current_request;  // usually at namespace scope, or a static member
//   ...
//   current_request->number = 7;                    // this fiber's
//
// The first use in a fiber makes a T{}. The value is destroyed when the fiber ends, before a join of its task returns.
// The youngest value is destroyed first. The destructors may block; nothing cancels them. They may use this or other
// fiber_locals, which makes new values if need be. A plain thread has a value of its own too, which is destroyed when
// the thread ends.
//
// A fiber_local may be destroyed before its values. Those live until their fibers end.
// Thread safety: all members may be called at once. A value belongs to its fiber. A use costs a few nanoseconds; the
// first use in a fiber also costs an allocation.
#pragma once

#include <memory>
#include <type_traits>

#include <coir/detail/abi.hpp>
#include <coir/detail/local_table.hpp>

namespace coir::inline COIR_ABI {

/// A variable of which each fiber has its own.
template <class T>
class fiber_local {
  static_assert(std::is_object_v<T> && !std::is_const_v<T> && !std::is_array_v<T>,
                "coir: a fiber_local is of an object type, not a reference, array or const type");

 public:
  /// T.
  using value_type = T;

  /// Throws std::bad_alloc.
  fiber_local() = default;
  fiber_local(const fiber_local&) = delete;
  fiber_local& operator=(const fiber_local&) = delete;

  /// The calling fiber's value. It stays where it is until the fiber ends. The first use throws what T{} throws (then
  /// the next use tries again), and std::bad_alloc.
  T& operator*() const {
    if (const detail::local_table* table = detail::this_locals())
      if (void* value = table->find(key_)) return *static_cast<T*>(value);
    return make();
  }
  /// A member of the calling fiber's value.
  T* operator->() const { return std::addressof(**this); }

 private:
  [[gnu::noinline]] T& make() const {
    static_assert(
        requires { T{}; }, "coir: the first use of a fiber_local makes a T{}, which this type does not allow");
    std::unique_ptr<T> fresh(new T{});  // may itself use fiber_locals, so the table is looked up after it
    detail::make_locals().put(key_, fresh.get(), [](void* value) noexcept { delete static_cast<T*>(value); });
    return *fresh.release();
  }

  detail::local_key key_;
};

}  // namespace coir
