// Element types of every shape, the handles as types, and what a channel does with the values left in it.
#include <algorithm>
#include <concepts>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <coir/chan.hpp>
#include <coir/select.hpp>

#include "coir_test.hpp"
#include "values.hpp"

namespace {

using coir::chan;
using coir::make_chan;
using coir::recv_chan;
using coir::recv_status;
using coir::send_chan;
using coir::send_status;
using coir_test::until_blocked;

// ---- the handles ---------------------------------------------------------------------------------------------------

static_assert(std::ranges::input_range<chan<int>> && std::ranges::input_range<const chan<int>>);
static_assert(std::ranges::input_range<recv_chan<int>> && std::ranges::input_range<chan<std::unique_ptr<int>>>);
static_assert(!std::ranges::forward_range<chan<int>>, "a channel can be read once");
static_assert(!std::ranges::range<send_chan<int>>);
static_assert(std::same_as<std::ranges::range_value_t<chan<int>>, int>);

static_assert(std::regular<chan<int>> && std::regular<send_chan<int>> && std::regular<recv_chan<int>>);
static_assert(std::is_nothrow_move_constructible_v<chan<int>> && std::is_nothrow_default_constructible_v<chan<int>>);
static_assert(std::copyable<chan<std::unique_ptr<int>>>, "a handle can be copied whatever its values are");

static_assert(std::convertible_to<chan<int>, send_chan<int>> && std::convertible_to<chan<int>, recv_chan<int>>);
static_assert(std::convertible_to<chan<void>, send_chan<void>> && std::convertible_to<chan<void>, recv_chan<void>>);
static_assert(!std::constructible_from<chan<int>, send_chan<int>> &&
              !std::constructible_from<chan<int>, recv_chan<int>>);
static_assert(!std::constructible_from<recv_chan<int>, send_chan<int>>);
static_assert(!std::constructible_from<send_chan<int>, recv_chan<int>>);
static_assert(!std::constructible_from<chan<long>, chan<int>> && !std::constructible_from<recv_chan<long>, chan<int>>);
static_assert(!std::convertible_to<chan<int>, bool> && std::constructible_from<bool, chan<int>>);

template <class C>
concept can_receive = requires(const C& c) { c.recv(); };
template <class C>
concept can_send = requires(const C& c) { c.send(1); };
template <class C>
concept can_close = requires(const C& c) { c.close(); };
static_assert(can_receive<recv_chan<int>> && !can_send<recv_chan<int>> && !can_close<recv_chan<int>>);
static_assert(can_send<send_chan<int>> && can_close<send_chan<int>> && !can_receive<send_chan<int>>);

template <class T>
concept can_send_lvalue = requires(const chan<T>& c, T& value) { c.send(value); };
static_assert(can_send_lvalue<std::string> && !can_send_lvalue<std::unique_ptr<int>>, "sending never moves in silence");

static_assert(std::same_as<decltype(chan<int>{}.recv()), std::optional<int>>);
static_assert(std::same_as<decltype(chan<void>{}.recv()), bool>);
static_assert(std::same_as<decltype(chan<void>{}.send()), void>);
static_assert(std::same_as<decltype(chan<int>{}.len()), std::size_t>);
static_assert(std::same_as<decltype(make_chan<int>(1)), chan<int>>);

class ChannelTypes : public coir_test::with_processors {};

/// Every way through a channel, at several capacities. make(i) makes a value, check(i, v) looks at one.
template <class T, class Make, class Check>
void pass_through(Make make, Check check) {
  for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
    const chan<T> ch = make_chan<T>(capacity);
    coir::task<void> sender = coir::spawn([&] {
      for (int i = 0; i < 100; ++i) ch.send(make(i));
    });
    for (int i = 0; i < 50; ++i) check(i, *ch.recv());
    for (int i = 50; i < 100; ++i)
      coir::select(coir::on_recv(ch, [&](std::optional<T> v) { check(i, *std::move(v)); }), coir::on_recv(chan<int>{}));
    sender.get();

    // A blocked receiver is handed the value, a blocked sender's is taken from it, and the buffer hands on what is
    // left.
    coir::task<void> receiver = coir::spawn([&] { check(1, *ch.recv()); });
    until_blocked(receiver);
    coir::select(coir::on_send(ch, make(1)));
    receiver.get();
    std::vector<coir::task<void>> senders;
    for (int i = 0; i < 5; ++i) {
      senders.push_back(coir::spawn([&, i] { ch.send(make(i)); }));
      while (senders.back().status() != coir::task_status::blocked && ch.len() <= static_cast<std::size_t>(i))
        coir::yield();
    }
    T value = make(99);
    EXPECT_EQ(ch.try_recv(value), recv_status::done);
    check(0, std::move(value));
    int expected = 1;
    for (int i = 1; i < 5; ++i) check(expected++, *ch.recv());
    for (auto& t : senders) t.get();
    EXPECT_EQ(ch.try_send(make(0)), capacity == 0 ? send_status::would_block : send_status::done);
    ch.close();
  }
}

TEST_P(ChannelTypes, Void) {
  run([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{2}}) {
      const chan<void> ch = make_chan<void>(capacity);
      EXPECT_EQ(ch.cap(), capacity);
      coir::task<void> sender = coir::spawn([ch] {
        for (int i = 0; i < 100; ++i) ch.send();
        ch.close();
      });
      int received = 0;
      while (ch.recv()) ++received;
      EXPECT_EQ(received, 100);
      EXPECT_FALSE(ch.recv());
      EXPECT_EQ(ch.try_recv(), recv_status::closed);
      EXPECT_EQ(ch.recv_for(std::chrono::hours(1)), recv_status::closed);
      EXPECT_EQ(ch.try_send(), send_status::closed);
      EXPECT_THROW(ch.send(), coir::closed_channel);
      EXPECT_THROW(ch.send_for(std::chrono::hours(1)), coir::closed_channel);
    }
    const chan<void> one = make_chan<void>(1);
    EXPECT_EQ(one.try_send(), send_status::done);
    EXPECT_EQ(one.len(), 1U);
    EXPECT_EQ(one.try_send(), send_status::would_block);
    EXPECT_FALSE(one.send_for(std::chrono::nanoseconds(1)));
    EXPECT_EQ(one.try_recv(), recv_status::done);
    EXPECT_EQ(one.try_recv(), recv_status::would_block);
    EXPECT_EQ(one.recv_for(std::chrono::nanoseconds(1)), recv_status::timed_out);
  });
}

TEST_P(ChannelTypes, ZeroSize) {
  run([] {
    pass_through<channel_test::nothing>([](int) { return channel_test::nothing{}; },
                                        [](int, channel_test::nothing v) { EXPECT_EQ(v, channel_test::nothing{}); });
  });
}

TEST_P(ChannelTypes, MoveOnly) {
  run([] {
    pass_through<std::unique_ptr<int>>([](int i) { return std::make_unique<int>(i); },
                                       [](int i, std::unique_ptr<int> v) { EXPECT_EQ(*v, i); });
  });
}

TEST_P(ChannelTypes, MoveOnlyAndTriviallyCopyable) {
  run([] {
    pass_through<channel_test::ticket>([](int i) { return channel_test::ticket(i); },
                                       [](int i, channel_test::ticket v) { EXPECT_EQ(v.number, i); });
    const chan<channel_test::ticket> ch = make_chan<channel_test::ticket>(1);
    ch.send(channel_test::ticket(3));
    ch.close();
    for (channel_test::ticket t : ch) EXPECT_EQ(t.number, 3);
  });
}

/// Says by itself what is sent back to whom, as Go's `type request struct { reply chan request }` does.
struct request {
  int number = 0;
  chan<request> reply;
  send_chan<request> to;
  recv_chan<request> from;
};

TEST_P(ChannelTypes, ChannelsOfWhatHoldsSuchAChannel) {
  run([] {
    const chan<request> ch = make_chan<request>();
    coir::task<void> server = coir::spawn([ch] {
      for (const request& r : ch) r.to.send({r.number + 1, {}, {}, {}});
    });
    const chan<request> reply = make_chan<request>(1);
    ch.send({1, reply, reply, reply});
    EXPECT_EQ(reply.recv()->number, 2);
    ch.close();
    server.get();
  });
}

TEST_P(ChannelTypes, NotDefaultConstructible) {
  run([] {
    pass_through<channel_test::no_default>([](int i) { return channel_test::no_default{i}; },
                                           [](int i, channel_test::no_default v) { EXPECT_EQ(v.value, i); });
  });
}

TEST_P(ChannelTypes, NeitherAssignableNorDefaultConstructible) {
  run([] {
    struct fixed_number {
      const int value;
    };
    static_assert(!std::is_move_assignable_v<fixed_number> && !std::is_default_constructible_v<fixed_number>);
    const chan<fixed_number> ch = make_chan<fixed_number>(1);
    ch.send(fixed_number{7});
    EXPECT_EQ(ch.recv()->value, 7);
    coir::task<void> sender = coir::spawn([ch] { ch.send(fixed_number{8}); });
    EXPECT_EQ(ch.recv()->value, 8);
  });
}

TEST_P(ChannelTypes, FourKibibytes) {
  run([] {
    pass_through<channel_test::page>([](int i) { return channel_test::page::of(static_cast<std::uint64_t>(i)); },
                                     [](int i, const channel_test::page& v) {
                                       EXPECT_EQ(v, channel_test::page::of(static_cast<std::uint64_t>(i)));
                                     });
  });
}

TEST_P(ChannelTypes, OverAligned) {
  run([] {
    pass_through<channel_test::aligned>([](int i) { return channel_test::aligned{i}; },
                                        [](int i, const channel_test::aligned& v) { EXPECT_EQ(v.value, i); });
    EXPECT_FALSE(channel_test::aligned::misplaced);
  });
}

TEST_P(ChannelTypes, SharedPointersLeakNoReference) {
  auto shared = std::make_shared<int>(5);
  run([&] {
    pass_through<std::shared_ptr<int>>([&](int) { return shared; },
                                       [&](int, const std::shared_ptr<int>& v) { EXPECT_EQ(v, shared); });
  });
  EXPECT_EQ(shared.use_count(), 1);
}

TEST_P(ChannelTypes, AChannelOfChannels) {
  run([] {
    const chan<chan<int>> requests = make_chan<chan<int>>();
    coir::task<void> server = coir::spawn([requests] {
      for (const chan<int>& reply : requests) reply.send(42);
    });
    for (int i = 0; i < 100; ++i) {
      const chan<int> reply = make_chan<int>();
      requests.send(reply);
      EXPECT_EQ(reply.recv(), 42);
    }
    requests.close();
    server.get();
  });
}

TEST_P(ChannelTypes, CopiesAndDirectionsAreTheSameChannel) {
  run([] {
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): that is what is tested
    const chan<int> ch = make_chan<int>(1), copy = ch, other = make_chan<int>(1);
    const send_chan<int> in = ch;
    const recv_chan<int> out = copy;
    EXPECT_TRUE(ch == copy);
    EXPECT_FALSE(ch == other);
    EXPECT_TRUE(in == send_chan<int>(copy));
    EXPECT_TRUE(out == recv_chan<int>(ch));
    in.send(3);
    EXPECT_EQ(other.len(), 0U);
    EXPECT_EQ(out.len(), 1U);
    EXPECT_EQ(out.recv(), 3);
    in.close();
    EXPECT_EQ(ch.recv(), std::nullopt);
  });
}

TEST_P(ChannelTypes, ValuesLeftInADroppedChannelAreDestroyedOnce) {
  run([] {
    {
      chan<channel_test::counted> ch = make_chan<channel_test::counted>(5);
      for (int i = 0; i < 5; ++i) ch.send(channel_test::counted{i});
      ch.recv();
      ch.recv();
      ch.send(channel_test::counted{5});  // the buffer has wrapped around
      EXPECT_EQ(channel_test::counted::alive(), 4);
      const recv_chan<channel_test::counted> last = ch;
      ch = {};
      EXPECT_EQ(channel_test::counted::alive(), 4);
    }
    EXPECT_EQ(channel_test::counted::alive(), 0);
    {
      const chan<channel_test::counted> closed = make_chan<channel_test::counted>(2);
      closed.send(channel_test::counted{1});
      closed.close();
    }
    EXPECT_EQ(channel_test::counted::alive(), 0);
  });
}

/// Looks at its channel whenever it is moved.
struct onlooker {
  static inline const chan<onlooker>* watched = nullptr;
  static inline std::size_t least = 0;
  onlooker() = default;
  onlooker(onlooker&& other) noexcept {
    if (watched != nullptr) least = std::min(least, watched->len());
    static_cast<void>(other);
  }
};

// Who looks without the lock may come between the taking of a value and the refilling of its place: try_recv() and a
// select with otherwise() would report an empty channel though a receive could proceed at every instant.
TEST_P(ChannelTypes, AFullChannelWithAWaitingSenderIsNeverSeenEmpty) {
  run([] {
    const chan<onlooker> ch = make_chan<onlooker>(1);
    ch.send(onlooker{});
    coir::task<void> sender = coir::spawn([ch] { ch.send(onlooker{}); });
    coir_test::until_blocked(sender);
    onlooker::least = 1;
    onlooker::watched = &ch;
    const std::optional<onlooker> first = ch.recv();
    onlooker::watched = nullptr;
    EXPECT_EQ(onlooker::least, 1U);
    EXPECT_TRUE(first.has_value());
    sender.get();
    EXPECT_EQ(ch.len(), 1U);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, ChannelTypes, coir_test::processors, coir_test::processors_name);

}  // namespace
