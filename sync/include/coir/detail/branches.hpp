// The parts of concurrently, race and map_concurrently. Not for users.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/detail/crew.hpp>
#include <coir/detail/is_async.hpp>
#include <coir/detail/start_record.hpp>
#include <coir/error.hpp>
#include <coir/semaphore.hpp>
#include <coir/source_location.hpp>
#include <coir/task.hpp>
#include <coir/task_group.hpp>

namespace coir::inline COIR_ABI::detail {

template <class T>
using or_monostate = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class F>
using branch_value = or_monostate<std::invoke_result_t<F>>;

template <class T>
struct racer {
  using type = or_monostate<T>;
};
template <class T>
struct racer<T&> {
  using type = std::reference_wrapper<T>;
};
/// What a variant can hold of it.
template <class F>
using racer_value = typename racer<std::invoke_result_t<F>>::type;

/// f's value, std::monostate if that is void.
template <class F>
decltype(auto) value_of(F&& f) {
  static_assert(!is_async<std::invoke_result_t<F>>,
                "coir: this would drop the async and not run it; spawn() it, and get() it in a branch");
  if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
    std::invoke(std::forward<F>(f));
    return std::monostate{};
  } else {
    return std::invoke(std::forward<F>(f));
  }
}

// ---- concurrently --------------------------------------------------------------------------------------------------

template <class T>
class branch_slot {
 public:
  template <class F>
  void fill(F&& f) {
    value_.emplace(value_of(std::forward<F>(f)));
  }
  T take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
};

template <class T>
class branch_slot<T&> {
 public:
  template <class F>
  void fill(F&& f) {
    value_ = std::addressof(value_of(std::forward<F>(f)));
  }
  T& take() { return *value_; }

 private:
  T* value_ = nullptr;
};

/// If the branch itself throws `cancelled`, though nobody has cancelled it, there is no result for the call. That is a
/// failure. To the caller it is the cancellation of another fiber.
template <class F, class Slot>
void run_branch(F&& f, Slot& slot) {
  try {
    slot.fill(std::forward<F>(f));
  } catch (const cancelled&) {
    throw_task_cancelled();
  }
}

template <class... Functions, std::size_t... I>
std::tuple<branch_value<Functions>...> all_of(std::index_sequence<I...>, std::remove_reference_t<Functions>&... f) {
  std::tuple<branch_slot<branch_value<Functions>>...> slots;
  task_group branches;
  (branches.spawn([&slot = std::get<I>(slots), &f] { run_branch(std::forward<Functions>(f), slot); }), ...);
  branches.wait();  // throws unless every slot is filled
  return std::tuple<branch_value<Functions>...>{std::get<I>(slots).take()...};
}

// ---- race ----------------------------------------------------------------------------------------------------------

/// The untyped part: the winner, and the exceptions of the others.
class race_track {
 public:
  explicit race_track(std::size_t racers) : failures_(racers) {}  // NOLINT(bugprone-throw-keyword-missing): a vector

  bool win() noexcept { return !won_.exchange(true, std::memory_order_relaxed); }
  void fail(std::size_t racer, std::exception_ptr why) noexcept { failures_[racer] = std::move(why); }

  /// Blocks until all have ended.
  void join(task_group& racers);
  [[noreturn]] void throw_failed();

  /// The winner ends the others with this, as a group's first failure does, after its captures have been destroyed.
  struct won {};

 private:
  std::atomic<bool> won_{false};  // relaxed: its consequences are read after the join
  std::vector<std::exception_ptr> failures_;
};

template <std::size_t I, class F, class Result>
void run_racer(race_track& track, F&& f, std::optional<Result>& result) {
  bool won = false;
  try {
    decltype(auto) value = value_of(std::forward<F>(f));
    won = track.win();
    if (!won) return;
    result.emplace(std::in_place_index<I>, std::forward<decltype(value)>(value));
  } catch (...) {
    if (won) throw;  // the move: nobody can win any more
    track.fail(I, std::current_exception());
    return;
  }
  throw race_track::won();
}

template <class... Functions, std::size_t... I>
std::variant<racer_value<Functions>...> first_of(std::index_sequence<I...>, std::remove_reference_t<Functions>&... f) {
  using result_type = std::variant<racer_value<Functions>...>;
  std::optional<result_type> result;
  race_track track(sizeof...(Functions));
  task_group racers;
  (racers.spawn([&track, &result, &f] { run_racer<I>(track, std::forward<Functions>(f), result); }), ...);
  track.join(racers);
  if (!result) track.throw_failed();
  return *std::move(result);
}

// ---- map_concurrently ----------------------------------------------------------------------------------------------

/// What a fiber keeps of an element. The references of a forward range stay valid while other elements are looked at.
/// Any other element has to be taken along.
template <class Range>
using kept_element = std::conditional_t<
    std::ranges::forward_range<Range> && std::is_lvalue_reference_v<std::ranges::range_reference_t<Range>>,
    std::ranges::range_reference_t<Range>,
    std::conditional_t<std::ranges::forward_range<Range>, std::remove_cvref_t<std::ranges::range_reference_t<Range>>,
                       std::ranges::range_value_t<Range>>>;

template <class Range>
using element_argument = kept_element<Range>&&;

template <class Range, class F>
using mapped_result = std::remove_cvref_t<std::invoke_result_t<F&, element_argument<Range>>>;

template <class Range, class F>
using mapped = std::conditional_t<std::is_void_v<mapped_result<Range, F>>, void,
                                  std::vector<or_monostate<mapped_result<Range, F>>>>;

/// The untyped part: the crew, and its room.
class map_crew {
 public:
  map_crew(std::size_t limit, source_location at);

  bool over() const noexcept { return crew_.over(); }

 protected:
  template <class F>
  void lead(F&& f) {
    crew_.lead(std::forward<F>(f));
  }

  /// Blocks while there is no room. Then the caller starts a call, or returns.
  void wait_for_room() {
    check_cancelled();  // there may be room for ever
    room_.acquire();
  }

  template <class F>
  void start(F call) {
    crew_.help(
        [this, call = std::optional<F>(std::move(call))]() mutable {
          const struct at_end {
            semaphore& room;
            ~at_end() { room.release(); }
          } leaves{room_};
          try {
            (*call)();
          } catch (...) {
            crew_.helper_failed();  // before there is room for another
          }
          call.reset();  // the element, before there is room for another
        },
        at_);
  }

 private:
  semaphore room_;
  const source_location at_;
  crew crew_;  // destroyed first: its helpers use the members above
};

template <class Range, class F>
class mapping : private map_crew {
 public:
  mapping(std::size_t limit, std::remove_reference_t<F>& f, source_location at) : map_crew(limit, at), f_(f) {}

  mapped<Range, F> run(std::remove_reference_t<Range>& range) {
    lead([&] { walk(range); });
    if constexpr (!std::is_void_v<result>) {
      std::vector<result> results;
      results.reserve(slots_.size());
      for (std::optional<result>& slot : slots_) results.push_back(*std::move(slot));
      return results;
    }
  }

 private:
  using result = mapped_result<Range, F>;
  using element = kept_element<Range>;

  void walk(std::remove_reference_t<Range>& range) {
    wait_for_room();
    auto i = std::ranges::begin(range);
    for (const auto end = std::ranges::end(range); i != end; ++i) {
      if (over()) return;
      if constexpr (std::is_lvalue_reference_v<element>)
        start_call([this, e = std::addressof(*i)]() -> decltype(auto) { return std::invoke(f_, *e); });
      else
        start_call(
            [this, e = static_cast<element>(*i)]() mutable -> decltype(auto) { return std::invoke(f_, std::move(e)); });
      wait_for_room();
    }
  }

  template <class Call>
  void start_call(Call call) {
    if constexpr (std::is_void_v<result>) {
      start(std::move(call));
    } else {
      std::optional<result>& slot = slots_.emplace_back();
      start([&slot, call = std::move(call)]() mutable { slot.emplace(call()); });
    }
  }

  std::remove_reference_t<F>& f_;
  std::deque<std::optional<or_monostate<result>>> slots_;  // which stay where they are
};

}  // namespace coir::detail
