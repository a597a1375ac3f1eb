// poll(), select(), epoll_wait() and their kin; nanosleep() and its kin; a storm of many fibers.
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>

#include <atomic>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>

#include "hooks_test.hpp"

namespace hooks_test {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

class hooked_poll : public hook_test {};

extern "C" int __poll_chk(::pollfd* fds, ::nfds_t n, int time, std::size_t room);

/// Waits until a descriptor can be read; milliseconds, -1: for ever. Returns how many can, or -1.
struct named_call {
  const char* name;
  std::function<int(int fd, int time)> call;
};

::timespec spec(int milliseconds) { return {milliseconds / 1000, milliseconds % 1000 * 1'000'000L}; }

int select_one(int fd, int time, bool as_pselect) {
  ::fd_set set;
  FD_ZERO(&set);
  FD_SET(fd, &set);
  const ::timespec exact = spec(time);
  ::timeval limit{time / 1000, time % 1000 * 1000L};
  const int n = as_pselect ? ::pselect(fd + 1, &set, nullptr, nullptr, time < 0 ? nullptr : &exact, nullptr)
                           : ::select(fd + 1, &set, nullptr, nullptr, time < 0 ? nullptr : &limit);
  return n == 1 && !FD_ISSET(fd, &set) ? -2 : n;
}

const std::vector<named_call>& calls() {
  static const std::vector<named_call> all = {
      {"poll",
       [](int fd, int time) {
         ::pollfd one{fd, POLLIN, 0};
         return ::poll(&one, 1, time);
       }},
      {"__poll_chk",
       [](int fd, int time) {
         ::pollfd one{fd, POLLIN, 0};
         return __poll_chk(&one, 1, time, sizeof one);
       }},
      {"ppoll",
       [](int fd, int time) {
         ::pollfd one{fd, POLLIN, 0};
         const ::timespec limit = spec(time);
         return ::ppoll(&one, 1, time < 0 ? nullptr : &limit, nullptr);
       }},
      {"select", [](int fd, int time) { return select_one(fd, time, false); }},
      {"pselect", [](int fd, int time) { return select_one(fd, time, true); }},
  };
  return all;
}

TEST_P(hooked_poll, ParksUntilADescriptorIsReady) {
  run([] {
    for (const named_call& each : calls()) {
      const pair ends = pair::sockets();
      EXPECT_EQ(parks([&] { return each.call(ends.a, -1); }, [&] { put(ends.b, "x"); }), (outcome{1, 0})) << each.name;
      EXPECT_EQ(finishes([&] { return each.call(ends.a, 10'000); }), (outcome{1, 0})) << each.name;
    }
  });
}

TEST_P(hooked_poll, EndsWhenTheTimeIsOverAndNotBefore) {
  run([] {
    for (const named_call& each : calls()) {
      const pair ends = pair::sockets();
      EXPECT_EQ(outcome_of([&] { return each.call(ends.a, 0); }), (outcome{0, 0})) << each.name;
      const auto before = clock::now();
      EXPECT_EQ(finishes([&] { return each.call(ends.a, 5); }), (outcome{0, 0})) << each.name;
      EXPECT_GE(clock::now() - before, 5ms);
    }
  });
}

TEST_P(hooked_poll, FailsWithECANCELEDWhenTheFiberIsCancelled) {
  run([] {
    for (const named_call& each : calls()) {
      const pair ends = pair::sockets();
      EXPECT_EQ(cancelled([&] { return each.call(ends.a, -1); }), (outcome{-1, ECANCELED})) << each.name;
      EXPECT_EQ(cancelled([&] { return each.call(ends.a, 1'000'000); }), (outcome{-1, ECANCELED})) << each.name;
    }
  });
}

TEST_P(hooked_poll, KnowsAnyNumberOfDescriptorsAndBothWays) {
  run([] {
    std::vector<pair> all;
    std::vector<::pollfd> fds{{-1, POLLIN, 0}};
    for (int i = 0; i < 20; ++i) {
      all.push_back(pair::sockets());
      fds.push_back({all.back().a, POLLIN, 0});
    }
    EXPECT_EQ(parks([&] { return ::poll(fds.data(), fds.size(), -1); }, [&] { put(all[7].b, "x"); }), (outcome{1, 0}));
    EXPECT_EQ(fds[8].revents, POLLIN);
    fds[3].events = POLLIN | POLLOUT;
    EXPECT_EQ(outcome_of([&] { return ::poll(fds.data(), fds.size(), -1); }), (outcome{2, 0}));
    EXPECT_EQ(fds[3].revents, POLLOUT);
    ::pollfd bad{1'000'000, POLLIN, 0};
    EXPECT_EQ(outcome_of([&] { return ::poll(&bad, 1, -1); }), (outcome{1, 0}));
    EXPECT_EQ(bad.revents, POLLNVAL);
  });
}

TEST_P(hooked_poll, SelectTellsWhatIsLeftOfTheTimeAndOfBadDescriptors) {
  run([] {
    const pair ends = pair::sockets();
    ::fd_set readable;
    FD_ZERO(&readable);
    FD_SET(ends.a, &readable);
    ::fd_set writable = readable;
    ::timeval limit{1000, 0};
    EXPECT_EQ(::select(ends.a + 1, &readable, &writable, nullptr, &limit), 1);
    EXPECT_FALSE(FD_ISSET(ends.a, &readable));
    EXPECT_TRUE(FD_ISSET(ends.a, &writable));
    EXPECT_LE(limit.tv_sec, 1000);
    EXPECT_GT(limit.tv_sec, 0);
    FD_ZERO(&readable);
    file gone(::dup(ends.a));
    const int closed = gone;
    gone.close();
    FD_SET(closed, &readable);
    EXPECT_EQ(outcome_of([&] { return ::select(closed + 1, &readable, nullptr, nullptr, nullptr); }),
              (outcome{-1, EBADF}));
  });
}

TEST_P(hooked_poll, AnEpollOfTheProgramsOwnCanBeWaitedFor) {
  run([] {
    const file epoll(::epoll_create1(0));
    const pair ends = pair::sockets();
    ::epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = 42;
    ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, ends.a, &event), 0);
    ::epoll_event found{};
    char text[8];
    const ::timespec long_time{1'000, 0};
    const std::function<int(int)> waits[] = {
        [&](int time) { return ::epoll_wait(epoll, &found, 1, time); },
        [&](int time) { return ::epoll_pwait(epoll, &found, 1, time, nullptr); },
        [&](int time) { return ::epoll_pwait2(epoll, &found, 1, time < 0 ? nullptr : &long_time, nullptr); },
    };
    for (const auto& wait : waits) {
      EXPECT_EQ(parks([&] { return wait(-1); }, [&] { put(ends.b, "x"); }), (outcome{1, 0}));
      EXPECT_EQ(found.data.u32, 42U);
      EXPECT_EQ(outcome_of([&] { return wait(100'000); }), (outcome{1, 0}));  // level-triggered
      EXPECT_EQ(::read(ends.a, text, sizeof text), 1);
      EXPECT_EQ(cancelled([&] { return wait(100'000); }), (outcome{-1, ECANCELED}));
    }
    EXPECT_EQ(::epoll_wait(epoll, &found, 1, 2), 0);
    EXPECT_EQ(outcome_of([&] { return ::epoll_wait(epoll, &found, 0, -1); }), (outcome{-1, EINVAL}));
  });
}

// ---- sleeping

struct named_sleep {
  const char* name;
  std::function<int(int milliseconds)> call;
  std::chrono::milliseconds least = 5ms;
};

const std::vector<named_sleep>& sleeps() {
  static const std::vector<named_sleep> all = {
      {"nanosleep",
       [](int time) {
         const ::timespec t = spec(time);
         return ::nanosleep(&t, nullptr);
       }},
      {"clock_nanosleep",
       [](int time) {
         const ::timespec t = spec(time);
         return ::clock_nanosleep(CLOCK_REALTIME, 0, &t, nullptr);
       }},
      {"clock_nanosleep until",
       [](int time) {
         ::timespec t{};
         ::clock_gettime(CLOCK_REALTIME, &t);
         const ::timespec more = spec(time);
         t.tv_nsec += more.tv_nsec;
         t.tv_sec += more.tv_sec + t.tv_nsec / 1'000'000'000;
         t.tv_nsec %= 1'000'000'000;
         return ::clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, nullptr);
       },
       0ms},
      {"usleep", [](int time) { return ::usleep(static_cast<::useconds_t>(time) * 1000); }},
      {"this_thread::sleep_for",
       [](int time) {
         std::this_thread::sleep_for(std::chrono::milliseconds(time));
         return 0;
       }},
  };
  return all;
}

TEST_P(hooked_poll, SleepsParkAndEndInTime) {
  run([] {
    for (const named_sleep& each : sleeps()) {
      const auto before = clock::now();
      coir::task<int> task = coir::spawn([&] { return each.call(5); });
      EXPECT_EQ(task.get(), 0);
      EXPECT_GE(clock::now() - before, each.least);
    }
    ::timespec invalid{0, 2'000'000'000};
    EXPECT_EQ(outcome_of([&] { return ::nanosleep(&invalid, nullptr); }), (outcome{-1, EINVAL}));
    EXPECT_EQ(::clock_nanosleep(CLOCK_MONOTONIC, 0, &invalid, nullptr), EINVAL);
  });
}

TEST_P(hooked_poll, ACancelledSleeperIsToldWhatIsLeft) {
  run([] {
    ::timespec rest{};
    EXPECT_EQ(cancelled([&] {
                const ::timespec long_time{1'000, 0};
                return ::nanosleep(&long_time, &rest);
              }),
              (outcome{-1, ECANCELED}));
    EXPECT_GT(rest.tv_sec, 0);
    EXPECT_EQ(cancelled([&] {
                const ::timespec long_time{1'000, 0};
                return ::clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, nullptr);
              }),
              (outcome{ECANCELED, 0}));
    EXPECT_GT(cancelled([&] { return static_cast<int>(::sleep(1'000)); }).returned, 0);
  });
}

// ---- many

TEST_P(hooked_poll, ThousandsOfFibersWaitOnFewThreads) {
  constexpr int most = 2'000;
  ::rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const int count = std::min<int>(coir_test::thread_sanitizer ? 200 : most, static_cast<int>(files.rlim_cur / 2) - 100);
  run([&] {
    std::vector<pair> all;
    std::vector<coir::task<int>> echoes;
    for (int i = 0; i < count; ++i) all.push_back(pair::sockets());
    for (int i = 0; i < count; ++i) {
      echoes.push_back(coir::spawn([fd = int(all[static_cast<std::size_t>(i)].a)] {
        int n = 0;
        for (char one; ::read(fd, &one, 1) == 1; ++n)
          if (::write(fd, &one, 1) != 1) break;
        return n;
      }));
    }
    coir_test::until_blocked(echoes);
    // Processors, the monitor, main, and spare threads for those that the kernel has put to sleep for a moment.
    EXPECT_LT(entries("task"), 40);
    for (int round = 0; round < 3; ++round) {
      for (const pair& each : all) put(each.b, "x");
      for (const pair& each : all) {
        char one;
        EXPECT_EQ(::read(each.b, &one, 1), 1);
      }
    }
    all.clear();
    for (coir::task<int>& each : echoes) EXPECT_EQ(each.get(), 3);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, hooked_poll, coir_test::processors, coir_test::processors_name);

}  // namespace
}  // namespace hooks_test
