// Locks: taken in a wrong order, held over something that waits, taken again, or not around all that belongs together.
#include <atomic>
#include <cstddef>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "kernels.hpp"

namespace kernels {

namespace {

/// Two transfers between the same two accounts, in opposite directions.
template <bool mended>
void opposite_orders() {
  coir::mutex a;
  coir::mutex b;
  auto there = coir::spawn([&] {
    const std::scoped_lock from(a);
    const std::scoped_lock to(b);
  });
  auto back = coir::spawn([&] {
    const std::scoped_lock from(mended ? a : b);
    const std::scoped_lock to(mended ? b : a);
  });
  there.get();
  back.get();
}

/// Each of three philosophers takes the left fork first.
template <bool mended>
void philosophers() {
  coir::mutex forks[3];
  coir::wait_group table;
  for (std::size_t i = 0; i < 3; ++i)
    table.go([&forks, i] {
      std::size_t first = i;
      std::size_t second = (i + 1) % 3;
      if (mended && first > second) std::swap(first, second);
      const std::scoped_lock left(forks[first]);
      const std::scoped_lock right(forks[second]);
    });
  table.wait();
}

/// A function that locks is called by one that holds the lock, but only if the stock is empty.
template <bool mended>
void double_lock() {
  coir::mutex lock;
  int stock = 1;
  const auto add_locked = [&] { ++stock; };
  const auto add = [&] {
    const std::scoped_lock held(lock);
    add_locked();
  };
  const auto take = [&] {
    const std::scoped_lock held(lock);
    if (stock == 0) mended ? add_locked() : add();
    --stock;
  };
  auto one = coir::spawn(take);
  auto other = coir::spawn(take);
  add();
  one.get();
  other.get();
}

/// A lock is held while a value is sent. The receiver needs the lock before it receives.
template <bool mended>
void lock_over_send() {
  coir::mutex lock;
  auto ch = coir::make_chan<int>();
  int sum = 0;
  auto sender = coir::spawn([&] {
    std::unique_lock held(lock);
    const int value = sum;
    if (mended) held.unlock();
    ch.send(value);
  });
  {
    const std::scoped_lock held(lock);
    ++sum;
  }
  ch.recv();
  sender.get();
}

/// A lock is held while its owner waits for a fiber that needs it.
template <bool mended>
void lock_over_join() {
  coir::mutex lock;
  coir::latch done(1);
  int sum = 0;
  auto owner = coir::spawn([&] {
    if (mended) done.wait();
    const std::scoped_lock held(lock);
    done.wait();
  });
  {
    const std::scoped_lock held(lock);
    ++sum;
  }
  done.count_down();
  owner.get();
}

/// A publisher calls its subscriber under its lock. The subscriber calls the publisher under its own.
template <bool mended>
void callback_under_lock() {
  coir::mutex of_publisher;
  coir::mutex of_subscriber;
  bool subscribed = true;
  int received = 0;
  const auto receive = [&] {
    const std::scoped_lock held(of_subscriber);
    ++received;
  };
  auto publisher = coir::spawn([&] {
    std::unique_lock held(of_publisher);
    const bool wanted = subscribed;
    if (mended) held.unlock();
    if (wanted) receive();
  });
  auto subscriber = coir::spawn([&] {
    const std::scoped_lock held(of_subscriber);
    const std::scoped_lock unsubscribe(of_publisher);
    subscribed = false;
  });
  publisher.get();
  subscriber.get();
}

/// A reader locks again what it holds. A writer that has queued in between waits for the reader, and the reader for it.
template <bool mended>
void read_lock_again() {
  coir::shared_mutex lock;
  int value = 1;
  const auto get = [&] {
    const std::shared_lock held(lock);
    return value;
  };
  auto reader = coir::spawn([&] {
    const std::shared_lock held(lock);
    return mended ? value + value : value + get();
  });
  auto writer = coir::spawn([&] {
    const std::scoped_lock held(lock);
    ++value;
  });
  reader.get();
  writer.get();
}

/// A reader gives its lock up for a writer's, and does not look again at what it has seen.
template <bool mended>
void upgrade_without_recheck() {
  coir::shared_mutex lock;
  bool made = false;
  int times = 0;
  const auto make = [&] {
    {
      const std::shared_lock held(lock);
      if (made) return;
    }
    const std::scoped_lock held(lock);
    if (mended && made) return;
    made = true;
    ++times;
  };
  auto other = coir::spawn(make);
  make();
  other.get();
  require(times == 1, "made twice");
}

/// An early return leaves the mutex locked.
template <bool mended>
void return_without_unlock() {
  coir::mutex lock;
  bool closed = false;
  const auto close = [&] {
    lock.lock();
    if (closed) {
      if (mended) lock.unlock();
      return;
    }
    closed = true;
    lock.unlock();
  };
  auto other = coir::spawn(close);
  {
    const std::scoped_lock held(lock);
    if (!closed) closed = true;
  }
  {
    const std::scoped_lock held(lock);
    closed = false;
  }
  other.get();
  const std::scoped_lock held(lock);
}

/// A counter is read in one section, and written in the next.
template <bool mended>
void two_sections() {
  coir::mutex lock;
  int count = 0;
  const auto add = [&] {
    std::unique_lock held(lock);
    const int seen = count;
    if (!mended) {
      held.unlock();
      held.lock();
    }
    count = seen + 1;
  };
  auto other = coir::spawn(add);
  add();
  other.get();
  require(count == 2, "an update is lost");
}

/// The balance is checked in one section, and the money taken in the next.
template <bool mended>
void checked_too_early() {
  coir::mutex lock;
  int balance = 100;
  const auto withdraw = [&] {
    std::unique_lock held(lock);
    if (balance < 100) return;
    if (!mended) {
      held.unlock();
      held.lock();
    }
    balance -= 100;
  };
  auto other = coir::spawn(withdraw);
  withdraw();
  other.get();
  require(balance == 0, "overdrawn");
}

/// Two variables belong together, and are written in two sections.
template <bool mended>
void half_of_a_pair() {
  coir::mutex lock;
  int length = 0;
  int contents = 0;
  bool torn = false;
  auto writer = coir::spawn([&] {
    std::unique_lock held(lock);
    length = 5;
    if (!mended) {
      held.unlock();
      held.lock();
    }
    contents = 5;
  });
  {
    const std::scoped_lock held(lock);
    torn = length != contents;
  }
  writer.get();
  require(!torn, "the length is not that of the contents");
}

/// The same variable is guarded by two different locks.
template <bool mended>
void different_locks() {
  coir::mutex one;
  coir::mutex other;
  std::atomic<int> count = 0;
  const auto add_under = [&](coir::mutex& lock) {
    const std::scoped_lock held(lock);
    const int seen = count;
    decision();
    count = seen + 1;
  };
  auto fiber = coir::spawn([&] { add_under(one); });
  add_under(mended ? one : other);
  fiber.get();
  require(count == 2, "an update is lost");
}

/// A try_lock that fails drops the work.
template <bool mended>
void dropped_by_try_lock() {
  coir::mutex lock;
  int sum = 0;
  const auto add = [&] {
    std::unique_lock held(lock, std::defer_lock);
    if (mended)
      held.lock();
    else if (!held.try_lock())
      return;
    ++sum;
  };
  auto other = coir::spawn(add);
  add();
  other.get();
  require(sum == 2, "an update is lost");
}

/// Two fibers need two permits each, and take them one by one.
template <bool mended>
void permits_one_by_one() {
  coir::semaphore permits(2);
  const auto use_two = [&] {
    if (mended) {
      permits.acquire(2);
    } else {
      permits.acquire();
      permits.acquire();
    }
    permits.release(2);
  };
  auto other = coir::spawn(use_two);
  use_two();
  other.get();
}

constexpr kernel all[] = {
    {"opposite_orders", "Two fibers take two locks in opposite orders", effect::deadlock,  //
     opposite_orders<false>, opposite_orders<true>},
    {"philosophers", "Three fibers take three locks in a ring", effect::deadlock,  //
     philosophers<false>, philosophers<true>},
    {"double_lock", "A function that locks is called under the lock, on a rare path", effect::deadlock,  //
     double_lock<false>, double_lock<true>},
    {"lock_over_send", "A lock is held over a send; the receiver needs it first", effect::deadlock,  //
     lock_over_send<false>, lock_over_send<true>},
    {"lock_over_join", "A lock is held while its owner waits for a fiber that needs it", effect::deadlock,  //
     lock_over_join<false>, lock_over_join<true>},
    {"callback_under_lock", "A callback is called under a lock, and locks the other way round", effect::deadlock,  //
     callback_under_lock<false>, callback_under_lock<true>},
    {"read_lock_again", "A reader locks again while a writer waits", effect::deadlock,  //
     read_lock_again<false>, read_lock_again<true>},
    {"upgrade_without_recheck", "A reader becomes a writer and does not check again", effect::exception,
     upgrade_without_recheck<false>, upgrade_without_recheck<true>},
    {"return_without_unlock", "An early return leaves a mutex locked", effect::deadlock,  //
     return_without_unlock<false>, return_without_unlock<true>},
    {"two_sections", "Read in one critical section, written in the next", effect::exception,  //
     two_sections<false>, two_sections<true>},
    {"checked_too_early", "Checked in one critical section, acted upon in the next", effect::exception,
     checked_too_early<false>, checked_too_early<true>},
    {"half_of_a_pair", "Two variables that belong together are written in two sections", effect::exception,
     half_of_a_pair<false>, half_of_a_pair<true>},
    {"different_locks", "One variable is guarded by two locks", effect::exception,  //
     different_locks<false>, different_locks<true>},
    {"dropped_by_try_lock", "A try_lock that fails drops the work", effect::exception,  //
     dropped_by_try_lock<false>, dropped_by_try_lock<true>},
    {"permits_one_by_one", "Two permits are taken one by one by two fibers", effect::deadlock,  //
     permits_one_by_one<false>, permits_one_by_one<true>},
};

}  // namespace

std::span<const kernel> locks() { return all; }

}  // namespace kernels
