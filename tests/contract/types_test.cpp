// The public API as programs outside this repository spell it: every name, every overload, what each returns, what may
// be copied, moved, const, constinit. Nearly all of it is checked by compiling. What a call does is tested elsewhere.
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <ranges>
#include <shared_mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <coir/coir.hpp>

#include "coir_test.hpp"

namespace {

using namespace std::chrono_literals;
using std::same_as;
using steady = std::chrono::steady_clock;
using wall = std::chrono::system_clock;
using seconds = std::chrono::duration<double>;

template <class T>
constexpr bool move_only = std::movable<T> && !std::copy_constructible<T> && !std::is_copy_assignable_v<T>;
template <class T>
constexpr bool immovable =
    !std::move_constructible<T> && !std::is_copy_assignable_v<T> && !std::is_move_assignable_v<T>;

/// How each call is asked: by the type of its result.
template <class Result, class Asked>
concept gives = same_as<Result, Asked>;

// ---- runtime.hpp ---------------------------------------------------------------------------------------------------

constexpr coir::options chosen{
    .processors = 2, .stack_size = 64 * 1024, .time_slice = 5ms, .when_main_returns = coir::on_main_return::cancel};
static_assert(chosen.processors == 2 && chosen.time_slice == 5ms);
static_assert(coir::options{}.processors == 0 && coir::options{}.stack_size == 256 * 1024);
static_assert(coir::options{}.time_slice == 10ms && coir::options{}.when_main_returns == coir::on_main_return::drain);

static_assert(immovable<coir::runtime> && std::constructible_from<coir::runtime, coir::options>);
static_assert(std::default_initializable<coir::runtime> && !std::convertible_to<coir::options, coir::runtime>);
static_assert(gives<decltype(coir::runtime::current()), coir::runtime&>);

struct own {
  std::unique_ptr<int> operator()() { return nullptr; }
};
static_assert(gives<decltype(coir::run(own{})), std::unique_ptr<int>>);
static_assert(gives<decltype(coir::run(chosen, own{})), std::unique_ptr<int>>);
static_assert(gives<decltype(std::declval<coir::runtime&>().run(own{})), std::unique_ptr<int>>);
static_assert(gives<decltype(coir::spawn(own{})), coir::task<std::unique_ptr<int>>>);
static_assert(gives<decltype(std::declval<coir::runtime&>().spawn(own{})), coir::task<std::unique_ptr<int>>>);
static_assert(gives<decltype(coir::blocking(own{})), std::unique_ptr<int>>);
static_assert(
    gives<decltype(coir::spawn({.name = "a", .stack_size = 1 << 20}, own{})), coir::task<std::unique_ptr<int>>>);
static_assert(requires(coir::runtime& rt, const coir::spawn_options& o) {
  rt.go(o, own{});
  coir::go(o, own{});
  { rt.spawn(o, own{}) } -> same_as<coir::task<std::unique_ptr<int>>>;
});
static_assert(gives<decltype(coir::timeout(1s, own{})), std::unique_ptr<int>>);

static_assert(gives<decltype(coir::this_fiber::get_id()), coir::this_fiber::id>);
static_assert(std::totally_ordered<coir::this_fiber::id> && std::regular<coir::this_fiber::id>);
static_assert(gives<decltype(coir::this_fiber::stop_token()), std::stop_token>);
static_assert(gives<decltype(coir::this_fiber::is_fiber()), bool>);
static_assert(gives<decltype(coir::this_fiber::name()), std::string>);

static_assert(move_only<coir::task<int>> && move_only<coir::task<void>> && move_only<coir::task<int&>>);
static_assert(std::is_nothrow_default_constructible_v<coir::task<int>>);
static_assert(requires(coir::task<int> t, coir::task<int&> r, coir::task<void> v) {
  { t.get() } -> same_as<int>;
  { r.get() } -> same_as<int&>;
  { v.get() } -> same_as<void>;
  t.detach();
});
static_assert(requires(const coir::task<int>& t) {
  t.wait();
  t.request_stop();
  { t.wait_for(1ms) } -> same_as<bool>;
  { t.wait_for(seconds(1)) } -> same_as<bool>;
  { t.wait_until(steady::now()) } -> same_as<bool>;
  { t.wait_until(wall::now()) } -> same_as<bool>;
  { t.ready() } -> same_as<bool>;
  { t.status() } -> same_as<coir::task_status>;
  { t.id() } -> same_as<coir::this_fiber::id>;
});

// ---- chan.hpp: all members are const; the handles' conversions are in tests/channel/types_test.cpp ------------------

static_assert(gives<decltype(coir::make_chan<int>()), coir::chan<int>>);
static_assert(gives<decltype(coir::make_chan<void>(1)), coir::chan<void>>);
static_assert(requires(const coir::chan<std::string>& c, std::string& v, const std::string& constant,
                       std::optional<std::string>& filled) {
  c.send(v);
  c.send(constant);
  c.send("a literal");
  c.send({});
  c.close();
  { c.recv() } -> same_as<std::optional<std::string>>;
  { c.send_for(v, 1ms) } -> same_as<bool>;
  { c.send_until(v, wall::now()) } -> same_as<bool>;
  { c.recv_for(v, seconds(1)) } -> same_as<coir::recv_status>;
  { c.recv_until(v, steady::now()) } -> same_as<coir::recv_status>;
  { c.try_send(v) } -> same_as<coir::send_status>;
  { c.try_send(std::move(v)) } -> same_as<coir::send_status>;
  { c.send_for(std::move(v), 1ms) } -> same_as<bool>;
  { c.send_for(constant, 1ms) } -> same_as<bool>;
  { c.try_send(constant) } -> same_as<coir::send_status>;
  { c.try_recv(v) } -> same_as<coir::recv_status>;
  { c.try_recv(filled) } -> same_as<coir::recv_status>;
  { c.recv_for(filled, seconds(1)) } -> same_as<coir::recv_status>;
  { c.recv_until(filled, wall::now()) } -> same_as<coir::recv_status>;
  { c.len() } -> same_as<std::size_t>;
  { c.cap() } -> same_as<std::size_t>;
  { c.is_nil() } -> same_as<bool>;
  { c == c } -> same_as<bool>;
});
// What cannot be copied must be moved, and says so where it is.
template <class Chan, class Value>
concept takes = requires(const Chan& c, Value&& v) {
  c.send(std::forward<Value>(v));
  c.try_send(std::forward<Value>(v));
  c.send_for(std::forward<Value>(v), 1ms);
  c.send_until(std::forward<Value>(v), steady::now());
};
using box = std::unique_ptr<int>;
static_assert(takes<coir::chan<box>, box> && !takes<coir::chan<box>, box&> && !takes<coir::chan<box>, const box&>);
static_assert(requires(const coir::chan<void>& c) {
  c.send();
  { c.recv() } -> same_as<bool>;
  { c.send_for(1ms) } -> same_as<bool>;
  { c.send_until(steady::now()) } -> same_as<bool>;
  { c.recv_for(1ms) } -> same_as<coir::recv_status>;
  { c.recv_until(wall::now()) } -> same_as<coir::recv_status>;
  { c.try_send() } -> same_as<coir::send_status>;
  { c.try_recv() } -> same_as<coir::recv_status>;
});

// ---- time.hpp ------------------------------------------------------------------------------------------------------

static_assert(gives<decltype(coir::after(seconds(1))), coir::recv_chan<steady::time_point>>);
static_assert(move_only<coir::timer> && move_only<coir::ticker> && move_only<coir::select_set>);
static_assert(gives<decltype(coir::after_func(1s, [] {})), coir::timer>);
template <class T>
concept stoppable = std::constructible_from<T, seconds> && requires(T& t, const T& constant) {
  { constant.c() } -> same_as<coir::recv_chan<steady::time_point>>;
  { t.stop() } -> same_as<bool>;
  { t.reset(1s) } -> same_as<bool>;
};
static_assert(stoppable<coir::timer> && stoppable<coir::ticker>);

// ---- sync ----------------------------------------------------------------------------------------------------------

// What needs no order of initialization among files.
[[maybe_unused]] constinit coir::mutex global_mutex;
[[maybe_unused]] constinit coir::timed_mutex global_timed_mutex;
[[maybe_unused]] constinit coir::recursive_mutex global_recursive_mutex;
[[maybe_unused]] constinit coir::shared_mutex global_shared_mutex;
[[maybe_unused]] constinit coir::condition_variable global_condition_variable;
[[maybe_unused]] constinit coir::wait_group global_wait_group;
[[maybe_unused]] constinit coir::once global_once;
[[maybe_unused]] constinit coir::latch global_latch{2};
[[maybe_unused]] constinit coir::barrier<> global_barrier{2};
coir::fiber_local<std::string> local;

static_assert(immovable<coir::mutex> && immovable<coir::timed_mutex> && immovable<coir::recursive_mutex>);
static_assert(immovable<coir::shared_mutex> && immovable<coir::condition_variable> && immovable<coir::wait_group>);
static_assert(immovable<coir::once> && immovable<coir::latch> && immovable<coir::barrier<>>);
static_assert(immovable<coir::semaphore> && immovable<coir::fiber_local<int>> && immovable<coir::task_group>);
static_assert(immovable<coir::single_flight<int, int>> && immovable<coir::uncancellable>);

template <class T>
concept timed_lockable = requires(T& m) {
  { m.try_lock_for(seconds(1)) } -> same_as<bool>;
  { m.try_lock_until(steady::now()) } -> same_as<bool>;
  { m.try_lock_until(wall::now()) } -> same_as<bool>;
};
static_assert(timed_lockable<coir::timed_mutex> && timed_lockable<coir::shared_mutex> && !timed_lockable<coir::mutex>);

// latch and barrier: what std's have, const as there.
static_assert(requires(coir::latch& l, const coir::latch& constant) {
  l.count_down();
  l.count_down(2);
  l.arrive_and_wait();
  l.arrive_and_wait(2);
  constant.wait();
  { constant.try_wait() } -> same_as<bool>;
  { coir::latch::max() } -> same_as<std::int64_t>;
});
static_assert(requires(coir::barrier<>& b, const coir::barrier<>& constant, coir::barrier<>::arrival_token t) {
  { b.arrive() } -> same_as<coir::barrier<>::arrival_token>;
  { b.arrive(2) } -> same_as<coir::barrier<>::arrival_token>;
  b.arrive_and_wait();
  b.arrive_and_drop();
  constant.wait(std::move(t));
  { coir::barrier<>::max() } -> same_as<std::int64_t>;
});
static_assert(!std::convertible_to<int, coir::latch> && !std::convertible_to<int, coir::barrier<>>);

static_assert(requires(coir::semaphore& s, const coir::semaphore& constant) {
  s.acquire();
  s.acquire(2);
  { s.try_acquire() } -> same_as<bool>;
  { s.try_acquire(2) } -> same_as<bool>;
  { s.acquire_for(1, 1ms) } -> same_as<bool>;
  s.release();
  s.release(2);
  { constant.locked() } -> same_as<bool>;
});

using lock_of_mutex = std::unique_lock<coir::mutex>;
static_assert(requires(coir::condition_variable& c, lock_of_mutex& l, std::stop_token stop, bool (*p)()) {
  c.notify_one();
  c.notify_all();
  c.wait(l);
  c.wait(l, p);
  { c.wait_for(l, 1ms) } -> same_as<std::cv_status>;
  { c.wait_until(l, steady::now()) } -> same_as<std::cv_status>;
  { c.wait_for(l, seconds(1), p) } -> same_as<bool>;
  { c.wait_until(l, wall::now(), p) } -> same_as<bool>;
  { c.wait(l, stop, p) } -> same_as<bool>;
  { c.wait_for(l, stop, 1ms, p) } -> same_as<bool>;
  { c.wait_until(l, stop, steady::now(), p) } -> same_as<bool>;
});

// ---- context.hpp, error.hpp ----------------------------------------------------------------------------------------

static_assert(std::copyable<coir::context> && gives<decltype(coir::context::background()), coir::context>);
static_assert(requires(const coir::context& ctx) {
  { ctx.done() } -> same_as<coir::recv_chan<void>>;
  { ctx.err() } -> same_as<std::exception_ptr>;
  { ctx.cause() } -> same_as<std::exception_ptr>;
  { ctx.deadline() } -> same_as<std::optional<steady::time_point>>;
  { ctx.value<int>("key") } -> same_as<const int*>;
  { coir::with_value(ctx, "key", 1) } -> same_as<coir::context>;
});

static_assert(std::derived_from<coir::error, std::runtime_error> && std::derived_from<coir::deadlock, coir::error>);
static_assert(std::derived_from<coir::closed_channel, coir::error>);
static_assert(std::derived_from<coir::timed_out, coir::error> && std::derived_from<coir::not_in_runtime, coir::error>);
static_assert(std::derived_from<coir::task_cancelled, coir::error>);
static_assert(std::derived_from<coir::context_cancelled, coir::error>);
// No loop over std::exception keeps a fiber alive that was told to stop.
static_assert(!std::derived_from<coir::cancelled, std::exception> && std::default_initializable<coir::cancelled>);
static_assert(std::copyable<coir::cancelled> && gives<decltype(coir::cancelled().what()), const char*>);

// ---- what only a call can show -------------------------------------------------------------------------------------

class Contract : public coir_test::with_processors {};

int calls = 0;
void called() { ++calls; }
void got_int(std::optional<int> v) { calls += v.value_or(100); }

TEST_P(Contract, SelectTakesHandlersOfEveryKindAndNone) {
  run([] {
    const auto ch = coir::make_chan<int>(1);
    const auto sig = coir::make_chan<void>(1);
    std::optional<int> out;
    bool open = false;
    calls = 0;
    EXPECT_EQ(coir::select(coir::on_send(ch, 1), coir::otherwise()), 0U);
    EXPECT_EQ(coir::select(coir::on_recv(ch, out), coir::otherwise(called)), 0U);
    EXPECT_EQ(out, 1);
    EXPECT_EQ(coir::select(coir::on_send(coir::send_chan<int>(ch), 2, called)), 0U);
    EXPECT_EQ(coir::select(coir::on_recv(coir::recv_chan<int>(ch), got_int)), 0U);
    EXPECT_EQ(calls, 3);
    ch.send(3);
    EXPECT_EQ(coir::select(coir::on_recv(ch, [own = std::make_unique<int>(4)](auto v) { calls += *own + *v; })), 0U);
    EXPECT_EQ(calls, 10);
    EXPECT_EQ(coir::select(coir::on_send(sig, called)), 0U);
    EXPECT_EQ(coir::select(coir::on_recv(sig, open)), 0U);
    EXPECT_TRUE(open);
    EXPECT_EQ(coir::select(coir::on_recv(ch), coir::on_timeout(seconds(0.0001))), 1U);
    EXPECT_EQ(coir::select(coir::on_recv(ch), coir::on_timeout(wall::now(), called)), 1U);
    std::stop_source source;
    source.request_stop();
    EXPECT_EQ(coir::select(coir::on_stop(source.get_token()), coir::on_stop({}, called)), 0U);

    coir::task<int> task = coir::spawn([] { return 1; });
    EXPECT_EQ(coir::select(coir::on_ready(task, called)), 0U);
    EXPECT_EQ(coir::select(coir::on_ready(std::as_const(task))), 0U);

    coir::select_set set;
    EXPECT_EQ(set.recv(ch, got_int), 0U);
    EXPECT_EQ(set.recv(sig, open), 1U);
    EXPECT_EQ(set.timeout(1h, called), 2U);
    EXPECT_EQ(set.timeout(wall::now() + 1h), 3U);
    EXPECT_EQ(set.stop({}, called), 4U);
    EXPECT_EQ(set.send(coir::chan<long>{}, 1, called), 5U);
    EXPECT_EQ(set.otherwise(called), 6U);
    EXPECT_EQ(set.wait(), 6U);
    ch.send(5);
    EXPECT_EQ(set.wait(), 0U);
    EXPECT_EQ(calls, 19);
  });
}

TEST_P(Contract, ContextsComeWithTheirCancelFunction) {
  run([] {
    auto [above, cancel_above] = coir::with_cancel(coir::context::background());
    auto [ctx, cancel] = coir::with_timeout(coir::with_value(above, "user", 7), 1h);
    const auto [late, cancel_late] = coir::with_deadline(ctx, wall::now() + 2h);
    EXPECT_EQ(*late.value<int>(std::string("user")), 7);
    EXPECT_EQ(late.value<long>("user"), nullptr);
    EXPECT_EQ(late.deadline(), ctx.deadline());
    cancel({});
    EXPECT_FALSE(late.done().recv());
    cancel_late();
    cancel_above(std::make_exception_ptr(std::out_of_range("enough")));
    EXPECT_THROW(std::rethrow_exception(late.err()), coir::context_cancelled);
    EXPECT_THROW(std::rethrow_exception(above.cause()), std::out_of_range);
  });
}

TEST_P(Contract, LocksAreThoseOfTheStandardLibrary) {
  run([] {
    coir::mutex mutex;
    coir::timed_mutex timed_mutex;
    coir::recursive_mutex recursive_mutex;
    coir::shared_mutex shared_mutex;
    {
      const std::scoped_lock all(mutex, timed_mutex, recursive_mutex, shared_mutex);
    }
    {
      const std::unique_lock timed(timed_mutex, seconds(1));
    }
    const std::shared_lock one(shared_mutex);
    const std::shared_lock two(shared_mutex, 1s);
    EXPECT_TRUE(one.owns_lock() && two.owns_lock());
    std::unique_lock held(mutex);
    coir::condition_variable condition;
    EXPECT_EQ(condition.wait_for(held, 0s), std::cv_status::timeout);
  });
}

TEST_P(Contract, SeveralThingsAtOnceAreOneCall) {
  run([] {
    auto [number, nothing] = coir::concurrently([] { return 1; }, [] {});
    static_assert(gives<decltype(number), int> && gives<decltype(nothing), std::monostate>);
    static_assert(gives<decltype(coir::race([] { return 1; }, [] { return 2L; }, [] {})),
                        std::variant<int, long, std::monostate>>);
    static_assert(
        gives<decltype(coir::map_concurrently(std::vector<int>(), 3, [](int) { return 1L; })), std::vector<long>>);
    static_assert(gives<decltype(coir::map_concurrently(std::vector<int>(), 3, [](int) {})), void>);
    static_assert(std::derived_from<coir::race_failed, coir::error>);
    static_assert(
        gives<decltype(std::declval<const coir::race_failed&>().exceptions()), const std::vector<std::exception_ptr>&>);

    std::vector<int> v(10);
    coir::parallel_for(0, 10, [&](int i) { v[static_cast<std::size_t>(i)] = 10 - i; });
    coir::parallel_for(v, [](int& n) { ++n; }, {.grain = 4});
    coir::parallel_for(v.begin(), v.end(), [](int& n) { --n; }, coir::parallel_options{});
    EXPECT_EQ(coir::parallel_reduce(v, 0, [](int n) { return n; }, std::plus<>()), 55);
    EXPECT_EQ(coir::parallel_reduce(v.begin(), v.end(), 0, [](int n) { return n; }, std::plus<>(), {.grain = 2}), 55);
    EXPECT_EQ(coir::parallel_reduce(0, 10, 0L, [](int n) { return n; }, std::plus<>()), 45);
    coir::parallel_sort(v);
    EXPECT_EQ(v.front(), 1);
    coir::parallel_sort(v, std::greater<>());
    EXPECT_EQ(v.front(), 10);
    coir::parallel_invoke([&] { v[0] = 0; }, [&] { v[1] = 0; });
  });
}

TEST_P(Contract, WaitingForOthersIsSpelledAsInTheStandardLibrary) {
  run([] {
    coir::once once;
    coir::call_once(once, [](const std::unique_ptr<int>& n) { EXPECT_EQ(*n, 1); }, std::make_unique<int>(1));
    coir::latch latch(2);
    coir::wait_group group;
    group.go([&] { latch.arrive_and_wait(); });
    latch.arrive_and_wait();
    group.wait();
    int phases = 0;
    coir::barrier barrier(2, [&]() noexcept { ++phases; });
    auto first = barrier.arrive();
    barrier.arrive_and_drop();
    barrier.wait(std::move(first));
    barrier.arrive_and_wait();
    EXPECT_EQ(phases, 2);
    coir::semaphore semaphore(2);
    semaphore.acquire(2);
    EXPECT_TRUE(semaphore.locked());
    semaphore.release(2);
    EXPECT_TRUE(local->empty() && (*local).empty());
    coir::single_flight<std::string, std::string> flight;
    EXPECT_EQ(flight.run("key", [] { return "a literal"; }), "a literal");
    flight.forget("key");
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, Contract, coir_test::processors, coir_test::processors_name);

}  // namespace
