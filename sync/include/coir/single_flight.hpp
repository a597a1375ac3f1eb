// single_flight: if several callers ask for the same thing at the same time, one of them (the leader) gets it for all.
// As golang.org/x/sync/singleflight.
//
//   coir::single_flight<std::string, page> pages;
//   page p = pages.run(url, [&] { return fetch(url); });  // one fetch, however many ask meanwhile
//
// Nothing is cached: after the leader's call has ended, the next run() of the key begins anew.
// Thread safety: fibers and threads may call all members at once. No lock is held while f runs. The leader's call
// happens before the returns of all runs that share it. The single_flight must outlive all its runs.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include <coir/async.hpp>
#include <coir/condition_variable.hpp>
#include <coir/detail/abi.hpp>
#include <coir/error.hpp>
#include <coir/mutex.hpp>
#include <coir/this_fiber.hpp>

namespace coir::inline COIR_ABI {

/// Calls of the same key at the same time become one call, whose result all get.
template <class K, class V, class Hash = std::hash<K>, class Equal = std::equal_to<K>>
class single_flight {
  static_assert(std::is_void_v<V> || std::is_copy_constructible_v<V>, "coir: every caller gets a copy of the result");

 public:
  single_flight() = default;
  single_flight(const single_flight&) = delete;
  single_flight& operator=(const single_flight&) = delete;

  /// If no call is running for this key, runs f as the leader of the key. Otherwise blocks until the leader's call has
  /// ended. All callers get a copy of its result, or the exception that it threw. But if the leader was cancelled
  /// (`cancelled` left its f), one of the waiting callers becomes the leader and runs its own f. f must not run the
  /// same key: it would wait for itself. Throws what the leader's f or copying the result throws; before that, what
  /// Hash and Equal throw. A cancellation point if it has to wait for a leader: throws `cancelled`.
  template <class F>
  V run(const K& key, F&& f) {
    static_assert(std::is_invocable_v<F>, "coir: the function of a single_flight takes no arguments (capture instead)");
    std::unique_lock lock(mutex_);
    const auto [joined, leads] = board(key);
    if (!leads && !take_over(key, *joined, lock)) {
      lock.unlock();
      return joined->get();
    }
    lock.unlock();
    lead(key, *joined, std::forward<F>(f));
    return joined->get();
  }

  /// `co_await flights.async_run(key, f)` in a coir::async: as run(), but the coroutine waits instead of a fiber.
  /// Coroutines and callers of run() may share a call. f is an ordinary function, or it returns an async, which is
  /// awaited. Copies the key. Allocates frames.
  template <class F>
  async<V> async_run(const K& key, F&& f) {
    detail::check_made_in_co_await<F>();
    return async_fly<std::decay_t<F>>(key, std::forward<F>(f));
  }

  /// Makes the next run() of the key begin anew, even if a call is under way. Callers that share that call still get
  /// its result. Throws what Hash and Equal throw.
  void forget(const K& key) {
    const std::scoped_lock lock(mutex_);
    flights_.erase(key);
  }

 private:
  enum class stage { running, leaderless, ended };
  struct nothing {};

  struct flight {
    stage now = stage::running;  // guarded by mutex_, as the next
    std::size_t waiting = 0;
    condition_variable changed;
    // The leader writes these until the flight has ended; then they are constant.
    std::optional<std::conditional_t<std::is_void_v<V>, nothing, V>> value;
    std::exception_ptr error;

    V get() const {
      if (error) std::rethrow_exception(error);
      if constexpr (!std::is_void_v<V>) return *value;
    }
  };

  /// Under mutex_: the flight of the key, and whether it is new, so that the caller leads it.
  std::pair<std::shared_ptr<flight>, bool> board(const K& key) {
    const auto [place, leads] = flights_.try_emplace(key);
    if (leads) {
      try {
        place->second = std::make_shared<flight>();
      } catch (...) {
        flights_.erase(place);
        throw;
      }
    }
    return {place->second, leads};
  }

  /// Waits for the flight's end (false), or until its leader has left it and the caller leads it (true).
  bool take_over(const K& key, flight& joined, std::unique_lock<mutex>& lock) {
    ++joined.waiting;
    try {
      joined.changed.wait(lock, [&joined] { return joined.now != stage::running; });
    } catch (...) {
      give_up(key, joined, lock);
      throw;
    }
    return succeeds(joined);
  }

  /// For a caller that stops waiting, because the wait has thrown.
  void give_up(const K& key, flight& joined, std::unique_lock<mutex>& lock) {
    // It did not get the mutex if a deadlock is being unwound. Whoever has that unwinds too, or this throws again.
    if (!lock.owns_lock()) lock.lock();
    --joined.waiting;
    if (joined.now == stage::leaderless) seek_leader(key, joined);
  }

  /// Under mutex_, for a caller that has waited: whether it leads from now on.
  static bool succeeds(flight& joined) noexcept {
    --joined.waiting;
    if (joined.now == stage::ended) return false;
    joined.now = stage::running;
    return true;
  }

  template <class F>
  void lead(const K& key, flight& led, F&& f) {
    bool left = false;
    std::exception_ptr own;
    try {
      if constexpr (std::is_void_v<V>) {
        std::forward<F>(f)();
        led.value.emplace();
      } else {
        static_assert(std::is_constructible_v<V, std::invoke_result_t<F>>, "coir: f must return what V is made from");
        led.value.emplace(std::forward<F>(f)());
      }
    } catch (const cancelled&) {
      left = true;
      own = std::current_exception();
    } catch (...) {
      led.error = std::current_exception();
    }
    {
      const uncancellable end;
      const std::scoped_lock lock(mutex_);
      end_lead(key, led, left);
    }
    if (left) std::rethrow_exception(own);
  }

  /// Under mutex_. `left`: its leader was cancelled.
  void end_lead(const K& key, flight& led, bool left) {
    if (left) {
      led.now = stage::leaderless;
      seek_leader(key, led);
    } else {
      led.now = stage::ended;
      led.changed.notify_all();
      remove(key, led);
    }
  }

  template <class F>
  async<V> async_fly(K key, F f) {
    co_await mutex_.async_lock();
    std::unique_lock lock(mutex_, std::adopt_lock);
    const std::pair<std::shared_ptr<flight>, bool> boarded = board(key);
    flight& joined = *boarded.first;
    bool leads = boarded.second;
    if (!leads) {
      ++joined.waiting;
      const auto landed = [&joined] { return joined.now != stage::running; };
      try {
        co_await joined.changed.async_wait(lock, landed);
      } catch (...) {
        give_up(key, joined, lock);
        throw;
      }
      leads = succeeds(joined);
    }
    lock.unlock();
    if (leads) {
      bool begun = false;
      try {
        co_await async_lead(key, joined, f, begun);
      } catch (...) {
        if (begun) throw;
        joined.error = std::current_exception();  // there was no memory for the frame
      }
      if (!begun) {
        const uncancellable end;
        co_await mutex_.async_lock();
        const std::unique_lock landed(mutex_, std::adopt_lock);
        end_lead(key, joined, false);
      }
    }
    if constexpr (std::is_void_v<V>)
      joined.get();
    else
      co_return joined.get();
  }

  template <class F>
  async<void> async_lead(const K& key, flight& led, F& f, bool& begun) {
    begun = true;
    bool left = false;
    std::exception_ptr own;
    try {
      if constexpr (detail::is_async<std::invoke_result_t<F&>>) {
        if constexpr (std::is_void_v<V>) {
          co_await f();
          led.value.emplace();
        } else {
          auto&& result = co_await f();
          led.value.emplace(std::forward<decltype(result)>(result));
        }
      } else if constexpr (std::is_void_v<V>) {
        f();
        led.value.emplace();
      } else {
        led.value.emplace(f());
      }
    } catch (const cancelled&) {
      left = true;
      own = std::current_exception();
    } catch (...) {
      led.error = std::current_exception();
    }
    {
      const uncancellable end;
      co_await mutex_.async_lock();
      const std::unique_lock lock(mutex_, std::adopt_lock);
      end_lead(key, led, left);
    }
    if (left) std::rethrow_exception(own);
  }

  /// Under mutex_.
  void seek_leader(const K& key, flight& led) {
    if (led.waiting == 0)
      remove(key, led);
    else
      led.changed.notify_one();
  }

  /// Under mutex_. The key may belong to another flight by now. The search for the key may throw, but the flight's
  /// result must be removed all the same.
  void remove(const K& key, const flight& led) {
    auto place = flights_.end();
    const auto is_its = [&led](const auto& entry) { return entry.second.get() == &led; };
    try {
      place = flights_.find(key);
    } catch (...) {
      place = std::find_if(flights_.begin(), flights_.end(), is_its);
    }
    if (place != flights_.end() && is_its(*place)) flights_.erase(place);
  }

  mutex mutex_;
  std::unordered_map<K, std::shared_ptr<flight>, Hash, Equal> flights_;
};

}  // namespace coir
