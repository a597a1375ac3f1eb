// The C++ snippets of docs/coming-from-go.md, in their order, so that each is compiled and run. A section of that page
// is a function here. To learn from, the other examples are better: they are whole programs.
#include <chrono>
#include <iostream>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include <coir/coir.hpp>

namespace {

using namespace std::chrono_literals;

// ---- starting fibers -----------------------------------------------------------------------------------------------

void go_statement() {
  auto lines = coir::make_chan<std::string>();
  std::string name = "coir";
  coir::go([lines, name] { lines.send("hello, " + name); });   // copies, as Go evaluates a go statement's arguments
  coir::task<int> answer = coir::spawn([] { return 6 * 7; });  // one that can be waited for, and has a result
  std::cout << *lines.recv() << ", " << answer.get() << '\n';
}

// ---- channels ------------------------------------------------------------------------------------------------------

void numbers_to(int last, coir::send_chan<int> out) {  // func numbersTo(last int, out chan<- int)
  for (int i = 1; i <= last; ++i) out.send(i);
  out.close();
}

int sum(coir::recv_chan<int> in) {  // func sum(in <-chan int) int
  int total = 0;
  for (int i : in) total += i;  // for i := range in
  return total;
}

void channels() {
  auto ch = coir::make_chan<int>();  // a chan<int>; it converts to both directions, never back
  coir::go([ch] { numbers_to(10, ch); });
  std::cout << "sum " << sum(ch) << '\n';

  if (std::optional<int> v = ch.recv())  // if v, ok := <-ch; ok
    std::cout << *v << '\n';
  else
    std::cout << "closed\n";
}

// ---- select --------------------------------------------------------------------------------------------------------

void select_statement() {
  auto ch = coir::make_chan<int>(1);
  auto out = coir::make_chan<int>(1);

  for (int i = 0; i < 2; ++i)
    coir::select(coir::on_recv(ch, [](std::optional<int> v) { std::cout << "received " << v.value() << '\n'; }),
                 coir::otherwise([&] {
                   std::cout << "nothing yet\n";
                   ch.send(1);
                 }));

  coir::select(coir::on_recv(ch), coir::on_send(out, 2, [] { std::cout << "sent\n"; }), coir::on_timeout(10s));
}

void merge(coir::recv_chan<int> a, coir::recv_chan<int> b, coir::send_chan<int> out) {
  while (a || b)
    coir::select(
        coir::on_recv(a, [&](std::optional<int> v) { v ? out.send(*v) : void(a = {}); }),  // a = nil: never ready again
        coir::on_recv(b, [&](std::optional<int> v) { v ? out.send(*v) : void(b = {}); }));
  out.close();
}

void merged() {
  auto a = coir::make_chan<int>(), b = coir::make_chan<int>(), both = coir::make_chan<int>();
  coir::go([a] { numbers_to(4, a); });
  coir::go([b] { numbers_to(5, b); });
  coir::go([=] { merge(a, b, both); });
  std::cout << "merged " << sum(both) << '\n';
}

// ---- closing -------------------------------------------------------------------------------------------------------

struct close_at_end {  // defer close(ch)
  coir::send_chan<int> ch;
  ~close_at_end() { ch.close(); }
};

void closing() {
  auto ch = coir::make_chan<int>(3);
  coir::go([ch] {
    const close_at_end closes{ch};
    ch.send(1);
    ch.send(2);
  });
  for (int v : ch) std::cout << v << ' ';
  std::cout << "closed\n";

  try {
    ch.send(3);
  } catch (const coir::closed_channel& e) {
    std::cout << e.what() << '\n';
  }
  std::cout << (ch.try_send(3) == coir::send_status::closed ? "still closed" : "sent") << '\n';
}

// ---- sync ----------------------------------------------------------------------------------------------------------

void locks() {
  coir::mutex lock;
  int hits = 0;

  coir::wait_group group;
  for (int i = 0; i < 100; ++i)
    group.go([&] {
      const std::scoped_lock guard(lock);  // lock.Lock(); defer lock.Unlock()
      ++hits;
    });
  group.wait();
  std::cout << hits << " hits\n";
}

void condition() {
  coir::mutex lock;
  coir::condition_variable changed;
  int stored = 0;
  coir::once greeted;

  coir::task<void> consumer = coir::spawn([&] {
    coir::call_once(greeted, [] { std::cout << "once\n"; });  // greeted.Do(func() { ... })
    std::unique_lock held(lock);
    changed.wait(held, [&] { return stored == 3; });  // for stored != 3 { changed.Wait() }
  });
  coir::call_once(greeted, [] { std::cout << "once\n"; });
  for (int i = 0; i < 3; ++i) {
    const std::scoped_lock guard(lock);
    ++stored;
    changed.notify_one();  // changed.Signal()
  }
  consumer.get();
}

// ---- panics and errors ---------------------------------------------------------------------------------------------

void errors() {
  coir::task<int> number = coir::spawn([] { return std::stoi("forty-two"); });
  try {
    std::cout << number.get() << '\n';
  } catch (const std::invalid_argument&) {
    std::cout << "not a number\n";
  }
}

// ---- stopping ------------------------------------------------------------------------------------------------------

void stopping() {
  auto numbers = coir::make_chan<int>();
  coir::task<void> endless = coir::spawn([numbers] {
    for (int i = 0;; ++i) numbers.send(i);
  });
  std::cout << *numbers.recv() << ' ' << *numbers.recv() << '\n';

  endless.request_stop();  // its send throws coir::cancelled
  try {
    endless.get();
  } catch (const coir::task_cancelled& e) {
    std::cout << e.what() << '\n';
  }

  coir::task<int> polite = coir::spawn([] {
    const std::stop_token stop = coir::this_fiber::stop_token();
    int rounds = 0;
    while (!stop.stop_requested()) ++rounds, coir::yield();  // computes: nothing here that would throw
    return rounds;
  });
  polite.request_stop();
  std::cout << (polite.get() >= 0 ? "stopped when it looked\n" : "");
}

// ---- groups --------------------------------------------------------------------------------------------------------

void group() {
  auto never = coir::make_chan<void>();
  coir::task_group group;
  group.spawn([] { throw std::runtime_error("the first failure"); });
  group.spawn([never] { never.recv(); });  // interrupted by the failure
  try {
    group.wait();  // all have ended
  } catch (const std::runtime_error& e) {
    std::cout << e.what() << '\n';
  }
}

void contexts() {
  auto [ctx, cancel] = coir::with_timeout(coir::context::background(), 1h);
  const coir::task<void> watcher = coir::spawn([ctx = ctx] { ctx.done().recv(); });  // <-ctx.Done()
  cancel(std::make_exception_ptr(std::runtime_error("no longer wanted")));
  watcher.wait();
  try {
    std::rethrow_exception(ctx.cause());
  } catch (const std::runtime_error& e) {
    std::cout << e.what() << '\n';
  }

  try {
    coir::timeout(5ms, [] { coir::sleep_for(1h); });
  } catch (const coir::timed_out& e) {
    std::cout << e.what() << '\n';
  }
}

// ---- time ----------------------------------------------------------------------------------------------------------

void waiting_for_a_while() {
  auto answers = coir::make_chan<int>();
  int answer = 0;
  if (answers.recv_for(answer, 5ms) == coir::recv_status::timed_out) std::cout << "no answer\n";

  const coir::task<void> slow = coir::spawn([] { coir::sleep_for(1h); });
  if (!slow.wait_for(5ms)) std::cout << "not done yet\n";  // its destructor stops it
}

// ---- deadlock ------------------------------------------------------------------------------------------------------

void report_deadlock() {
  try {
    coir::run([] { coir::make_chan<int>().send(1); });
  } catch (const coir::deadlock& e) {
    const std::string report = e.what();
    std::cout << report.substr(0, report.find('\n')) << '\n';
  }
}

}  // namespace

int main() {
  coir::run([] {
    go_statement();
    channels();
    select_statement();
    merged();
    closing();
    locks();
    condition();
    errors();
    stopping();
    group();
    contexts();
    waiting_for_a_while();
  });
  report_deadlock();
}
