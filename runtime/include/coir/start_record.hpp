// A fiber that has not started: no stack yet, just this record with the closure behind it, 64 bytes for a small one.
// Not for users. Records come from per-thread caches; whoever runs one frees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <coir/source_location.hpp>

namespace coir::detail {

class scheduler;

/// What a run queue holds: a suspended fiber (`timed`: one whose wake-up latency is being measured), a record whose
/// fiber has not started, or one that has been woken and needs but a stack to go on (stackless.hpp). Fresh ones run
/// newest first, the others oldest first.
struct runnable {
  enum class kind : std::uint8_t { suspended, fresh, woken, timed };

  explicit runnable(kind k) noexcept : what(k) {}

  runnable* next = nullptr;  ///< link of the queue that it is in, if that queue is a linked one
  std::uint32_t line = 0;    ///< of the spawn site (here, and the depth, because there is room)
  std::uint8_t depth = 0;    ///< of the spawning fiber and one more; at most deepest
  kind what;

  static constexpr std::uint8_t deepest = 255;
};

struct start_record : runnable {
  using entry = void (*)(start_record*);

  start_record(entry f, source_location where) noexcept : runnable(kind::fresh), run(f), file(where.file_name()) {
    line = where.line();
  }

  entry run;         ///< runs the closure, destroys it and frees the record; its exceptions are the fiber's
  const char* file;  ///< of the spawn site
};

/// Raw memory for a record; throws std::bad_alloc. `alignment` up to that of any type.
void* allocate_record(std::size_t size, std::size_t alignment);
void free_record(void* p, std::size_t size, std::size_t alignment) noexcept;

template <class Record, class... Args>
Record* make_record(Args&&... args) {
  void* memory = allocate_record(sizeof(Record), alignof(Record));
  if constexpr (std::is_nothrow_constructible_v<Record, Args...>) {
    return ::new (memory) Record(std::forward<Args>(args)...);
  } else {
    try {
      return ::new (memory) Record(std::forward<Args>(args)...);
    } catch (...) {
      free_record(memory, sizeof(Record), alignof(Record));
      throw;
    }
  }
}

template <class Record>
void destroy_record(Record* r) noexcept {
  r->~Record();
  free_record(r, sizeof(Record), alignof(Record));
}

/// The record of a fire-and-forget fiber.
template <class F>
struct go_record final : start_record {
  template <class G>
  go_record(G&& g, source_location where) noexcept(std::is_nothrow_constructible_v<F, G>)
      : start_record(&go_record::enter, where), closure(std::forward<G>(g)) {}

  static void enter(start_record* r) {
    struct owner {
      go_record* record;
      ~owner() { destroy_record(record); }
    } self{static_cast<go_record*>(r)};
    std::move(self.record->closure)();
  }

  F closure;
};

/// The scheduler of the calling fiber; throws not_in_runtime (naming `what`) outside one.
scheduler& current_scheduler(const char* what);

/// Makes the record runnable. From any thread. Takes ownership.
void start(scheduler& where, start_record* record) noexcept;

template <class F>
void go_in(scheduler& where, F&& f, source_location at) {
  static_assert(std::is_invocable_v<std::decay_t<F>>, "coir: a fiber's function takes no arguments (capture instead)");
  start(where, make_record<go_record<std::decay_t<F>>>(std::forward<F>(f), at));
}

}  // namespace coir::detail
