// The values of one fiber's (or plain thread's) fiber_locals, of any type. Not for users.
//
// A key is a place in the tables and an id. Places are reused once their key is gone, ids never. So a value that
// another key has left in a place is not taken for the new key's. It is destroyed when the new key needs the place, or
// at the fiber's end.
//
// A table is made at a fiber's first use of any key, and destroyed at its end: a fiber that uses none pays one look at
// a null pointer. Only its own fiber touches it.
#pragma once

#include <cstdint>
#include <vector>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

class local_key {
 public:
  /// Throws std::bad_alloc. From any thread, at any time.
  local_key();
  ~local_key();
  local_key(const local_key&) = delete;
  local_key& operator=(const local_key&) = delete;

  std::uint32_t place() const noexcept { return place_; }
  std::uint64_t id() const noexcept { return id_; }

 private:
  std::uint32_t place_;
  std::uint64_t id_;
};

class local_table {
 public:
  using destroyer = void (*)(void*) noexcept;

  local_table() noexcept = default;
  ~local_table() { destroy_all(); }
  local_table(const local_table&) = delete;
  local_table& operator=(const local_table&) = delete;

  /// Null: the key has no value here.
  void* find(const local_key& key) const noexcept {
    return key.place() < values_.size() && values_[key.place()].id == key.id() ? values_[key.place()].object : nullptr;
  }

  /// Takes the object over. Destroys what is in the place. Throws std::bad_alloc, nothing being changed then.
  void put(const local_key& key, void* object, destroyer destroy);

  /// The youngest first, those that destructors make meanwhile too. Ends the process if they never stop making more.
  void destroy_all() noexcept;

 private:
  struct value {
    std::uint64_t id = 0;  // 0 is no key's
    void* object = nullptr;
    destroyer destroy = nullptr;
  };

  std::vector<value> values_;         // by place
  std::vector<std::uint32_t> order_;  // the places that hold something, by age
};

/// The calling fiber's table, or plain thread's; null if it has none yet.
local_table* this_locals() noexcept;
/// Makes it if need be. Throws std::bad_alloc.
local_table& make_locals();

/// Destroys the calling fiber's values, and its table. What their destructors block on is not cancelled. For code that
/// announces a fiber's end; otherwise it happens when the fiber has ended.
void end_locals() noexcept;

}  // namespace coir::detail
