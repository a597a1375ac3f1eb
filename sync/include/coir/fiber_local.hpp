// fiber_local<T>: a variable of which every fiber has its own, as thread_local gives one to every thread. A fiber moves
// between threads, so what is thread_local is not its own (docs/thread-local-storage.md).
//
//   coir::fiber_local<request_id> current_request;  // usually at namespace scope, or a static member
//   ...
//   current_request->number = 7;                    // this fiber's
//
// The first use in a fiber makes a T{}. It is destroyed when the fiber ends, before a join of its task returns; the
// youngest value first. The destructors may block (nothing cancels them) and may use this or other fiber_locals, which
// makes new values if need be. Plain threads have one each, too, destroyed at the thread's end.
//
// A fiber_local may be destroyed before its values: those live until their fibers end.
// Thread safety: all members at once; a value belongs to its fiber. A use costs a few nanoseconds, the first one in a
// fiber an allocation.
#pragma once

#include <memory>
#include <type_traits>

#include <coir/detail/abi.hpp>
#include <coir/detail/local_table.hpp>

namespace coir::inline COIR_ABI {

template <class T>
class fiber_local {
  static_assert(std::is_object_v<T> && !std::is_const_v<T> && !std::is_array_v<T>,
                "coir: a fiber_local is of an object type, not a reference, array or const type");

 public:
  using value_type = T;

  /// Throws std::bad_alloc.
  fiber_local() = default;
  fiber_local(const fiber_local&) = delete;
  fiber_local& operator=(const fiber_local&) = delete;

  /// The calling fiber's value; it stays where it is until the fiber ends. Throws what T{} throws (then the next use
  /// tries again), std::bad_alloc.
  T& operator*() const {
    if (const detail::local_table* table = detail::this_locals())
      if (void* value = table->find(key_)) return *static_cast<T*>(value);
    return make();
  }
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
