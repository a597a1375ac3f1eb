// A fiber that has not started: no stack yet, just this record with the closure behind it, 64 bytes for a small one.
// Not for users. Records come from per-thread caches; the worker that runs one frees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/is_async.hpp>
#include <coir/source_location.hpp>
#include <coir/spawn_options.hpp>

namespace coir::inline COIR_ABI::detail {

class scheduler;

/// What a run queue holds: a suspended fiber (`timed`: one whose wake-up latency is being measured), a record whose
/// fiber has not started (`sized`: which is to run on a stack of a size of its own), or one that has been woken and
/// needs only a stack to go on (stackless.hpp). Fresh ones run newest first, the others oldest first.
struct runnable {
  enum class kind : std::uint8_t { suspended, fresh, woken, timed, sized };  // the last two: not on just any stack

  explicit runnable(kind k) noexcept : what(k) {}

  runnable* next = nullptr;  ///< link of the queue that it is in, if that queue is a linked one
  std::uint32_t line = 0;    ///< of the spawn site (here, and the depth, because there is room)
  std::uint8_t depth = 0;    ///< of the spawning fiber and one more; at most deepest
  kind what;
  std::uint8_t stack_class = 0;  ///< if sized: sized_stacks'; of a fiber: of its stack; 0: the runtime's size
  std::int8_t id_at = 0;         ///< of a record that has an id before it begins: where that lies, in words from here
#if defined(COIR_EXPLORE)
  std::uint32_t turn_number = 0;  ///< in an exploration: numbers those of one schedule; a fiber takes its record's
#endif

  bool has_not_started() const noexcept { return what == kind::fresh || what == kind::sized; }

  static constexpr std::uint8_t deepest = 255;
};

struct start_record : runnable {
  using entry = void (*)(start_record*);

  start_record(entry f, source_location where) noexcept : runnable(kind::fresh), run(f), file(where.file_name()) {
    line = where.line();
  }

  /// The id is in the same object, near the record.
  void note_id(const std::uint64_t& id) noexcept {
    const auto words = (reinterpret_cast<const char*>(&id) - reinterpret_cast<const char*>(this)) / 8;
    id_at = static_cast<std::int8_t>(words);
  }
  /// The id that its fiber takes when `run` begins; null: it keeps the one that it was given.
  const std::uint64_t* id() const noexcept {
    return id_at == 0 ? nullptr
                      : reinterpret_cast<const std::uint64_t*>(reinterpret_cast<const char*>(this) + id_at * 8);
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

/// By the fiber itself. Not null.
void name_this_fiber(std::unique_ptr<std::string> name) noexcept;

/// The scheduler of the calling fiber; throws not_in_runtime (naming `what`) outside one.
scheduler& current_scheduler(const char* what);

/// Makes the record runnable. From any thread. Takes ownership.
void start(scheduler& where, start_record* record) noexcept;

// ---- fibers with spawn_options -------------------------------------------------------------------------------------

/// A fiber's function, which first gives the fiber its name.
template <class F>
class named_function {
 public:
  template <class G>
  named_function(std::unique_ptr<std::string> name, G&& g) : name_(std::move(name)), function_(std::forward<G>(g)) {}

  std::invoke_result_t<F> operator()() && {
    if (name_) name_this_fiber(std::move(name_));
    return std::move(function_)();
  }

 private:
  std::unique_ptr<std::string> name_;  // made by the spawner, to which a lack of memory can be reported
  F function_;
};

/// What spawn_options say, checked, and prepared as far as that needs memory. Throws std::invalid_argument (the stack
/// size), std::bad_alloc.
class prepared_spawn {
 public:
  prepared_spawn(scheduler& where, const spawn_options& o);

  template <class F>
  named_function<std::decay_t<F>> function(F&& f) {
    return {std::move(name_), std::forward<F>(f)};
  }
  void start(start_record* record) noexcept {
    if (stack_class_ != 0) {
      record->what = runnable::kind::sized;
      record->stack_class = stack_class_;
    }
    detail::start(where_, record);
  }

 private:
  scheduler& where_;
  std::uint8_t stack_class_;
  std::unique_ptr<std::string> name_;
};

template <class F>
constexpr void check_function() {
  static_assert(std::is_invocable_v<std::decay_t<F>>, "coir: a fiber's function takes no arguments (capture instead)");
  static_assert(!is_async<std::remove_cvref_t<F>> && !is_async<std::invoke_result_t<std::decay_t<F>>>,
                "coir: spawn_options are a fiber's; a coroutine has no stack of its own, and names itself");
}

template <class F>
void go_in(scheduler& where, const spawn_options& o, F&& f, source_location at) {
  check_function<F>();
  decide(operation::spawn);
  prepared_spawn prepared(where, o);
  using record = go_record<named_function<std::decay_t<F>>>;
  prepared.start(make_record<record>(prepared.function(std::forward<F>(f)), at));
  decide(operation::spawn);
}

template <class F>
void go_in(scheduler& where, F&& f, source_location at) {
  static_assert(std::is_invocable_v<std::decay_t<F>>, "coir: a fiber's function takes no arguments (capture instead)");
  decide(operation::spawn);
  start(where, make_record<go_record<std::decay_t<F>>>(std::forward<F>(f), at));
  decide(operation::spawn);
}

}  // namespace coir::detail
