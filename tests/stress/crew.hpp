// Those who take part in one episode of a random program: fibers, coroutines and plain threads, joined at its end.
//
// A *whole* episode is not cancelled, so that all of its books must balance at the end; threads take part in those
// alone, since nobody could end them. Any other may be unwound at any moment: then nothing may be left behind.
#pragma once

#include <thread>
#include <utility>
#include <vector>

#include <coir/async.hpp>
#include <coir/error.hpp>
#include <coir/runtime.hpp>

#include "../runtime/counted.hpp"
#include "seeded.hpp"

namespace stress {

using runtime_test::counted;

/// Where an episode takes place.
struct place {
  choices random;
  int depth = 0;       ///< how many episodes it is a part of
  bool whole = false;  ///< those of which it is a part decide: cancelled or not
};

/// Gives others a chance to run, in one of many ways.
void dawdle(choices& random);

class crew {
 public:
  explicit crew(place& p) : place_(p) {}
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;
  ~crew() { join_threads(); }

  /// f(place&): as a fiber, or a thread. What it refers to outlives the crew.
  template <class F>
  void start(F f) {
    place theirs{place_.random.split(), place_.depth + 1, place_.whole};
    if (place_.whole && place_.random.draw(5) == 0)
      threads_.emplace_back([f, theirs, n = counted()]() mutable { f(theirs); });
    else if (place_.whole)
      tasks_.push_back(coir::spawn([f, theirs, n = counted()]() mutable {
        const coir::uncancellable to_the_end;
        f(theirs);
      }));
    else
      tasks_.push_back(coir::spawn([f, theirs, n = counted()]() mutable { f(theirs); }));
  }

  /// f(choices): a coroutine.
  template <class F>
  void start_coroutine(F f) {
    tasks_.push_back(coir::spawn(accompanied(f, place_.random.split(), place_.whole)));
  }

  /// Joins all. True: they have all come to their end, so what they did is complete. Throws what one of them threw,
  /// and `cancelled` if the caller is.
  bool end() {
    if (!place_.whole && place_.random.draw(3) == 0) {
      dawdle(place_.random);
      for (auto& t : tasks_) t.request_stop();
    }
    bool complete = true;
    for (auto& t : tasks_) {
      try {
        t.get();
      } catch (const coir::task_cancelled&) {  // `cancelled` is the caller's: those left are stopped and joined
        complete = false;
      }
    }
    tasks_.clear();
    join_threads();
    return complete;
  }

 private:
  template <class F>
  static coir::async<void> accompanied(F f, choices c, bool whole) {
    const counted local;
    if (whole) {
      const coir::uncancellable to_the_end;
      co_await f(c);
    } else {
      co_await f(c);
    }
  }

  void join_threads() {
    for (std::thread& t : threads_) coir::blocking([&] { t.join(); });
    threads_.clear();
  }

  place& place_;
  std::vector<std::thread> threads_;
  std::vector<coir::task<void>> tasks_;
};

}  // namespace stress
