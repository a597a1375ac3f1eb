#include "sched/registry.hpp"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <string>

#include <dirent.h>

#include <coir/detail/abi.hpp>

#include "base/immortal.hpp"
#include "sched/outside_timers.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

std::atomic<std::size_t> own_threads{0};

#if defined(COIR_TSAN)
// ThreadSanitizer has a thread of its own, which blocks all signals; others do so only for a moment, while they start a
// thread, begin or end.
bool is_sanitizer_thread(const std::string& task) {
  std::ifstream in("/proc/self/task/" + task + "/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("SigBlk:", 0) == 0) return line.find("fffffff") != std::string::npos;
  return false;
}
#endif

std::size_t threads_of_process() {
  std::size_t n = 0;
#if defined(COIR_TSAN)
  if (DIR* tasks = ::opendir("/proc/self/task")) {
    bool seen = false;  // there is one of them
    while (const dirent* entry = ::readdir(tasks)) {
      if (entry->d_name[0] == '.') continue;
      if (!seen && is_sanitizer_thread(entry->d_name))
        seen = true;
      else
        ++n;
    }
    ::closedir(tasks);
  }
#else
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("Threads:", 0) == 0) n = std::stoul(line.substr(8));
#endif
  return n;
}

struct registry {
  registry() { runtimes_for_debuggers = &all; }

  std::mutex lock;  // lock order: before the idle set's
  internal_vector<scheduler*> all;
  internal_vector<scheduler*> open;                    // to start_in()
  runtime_threads::blocked_in_run* blocked = nullptr;  // a list of those in run() or wait()
};

registry& the_registry() { return immortal<registry>(); }

}  // namespace

namespace runtime_threads {

std::thread start(std::function<void()> body) {
  std::thread t(std::move(body));
  own_threads.fetch_add(1);
  return t;
}

int start(native_thread& t, native_thread::body f, void* arg) noexcept {
  const int error = t.start(f, arg);
  if (error == 0) own_threads.fetch_add(1);
  return error;
}

void forget(std::size_t count) noexcept { own_threads.fetch_sub(count); }

blocked_in_run::blocked_in_run(const std::function<bool()>& done) noexcept : done_(done) {
  registry& r = the_registry();
  const std::lock_guard locked(r.lock);
  next_ = r.blocked;
  if (next_ != nullptr) next_->previous_ = this;
  r.blocked = this;
}

blocked_in_run::~blocked_in_run() {
  registry& r = the_registry();
  const std::lock_guard locked(r.lock);
  (previous_ != nullptr ? previous_->next_ : r.blocked) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

}  // namespace runtime_threads

namespace runtime_registry {

void add(scheduler& s) {
  registry& r = the_registry();
  const std::lock_guard locked(r.lock);
  r.open.reserve(r.open.size() + 1);
  r.all.push_back(&s);
  r.open.push_back(&s);
}

void close(scheduler& s) noexcept {
  s.close();
  registry& r = the_registry();
  const std::lock_guard locked(r.lock);
  std::erase(r.open, &s);
}

bool start_in(std::uint64_t serial, start_record* record) noexcept {
  registry& r = the_registry();
  const std::lock_guard locked(r.lock);
  const auto found = std::find_if(r.open.begin(), r.open.end(), [&](scheduler* s) { return s->serial() == serial; });
  if (found == r.open.end()) return false;
  (*found)->start(record, runnable::deepest);
  return true;
}

void remove(scheduler& s) noexcept {
  registry& r = the_registry();
  const std::lock_guard locked(r.lock);
  std::erase(r.all, &s);
  std::erase(r.open, &s);
}

internal_vector<std::uint64_t> serials() {
  registry& r = the_registry();
  const std::lock_guard locked(r.lock);
  internal_vector<std::uint64_t> all;
  for (const scheduler* s : r.all) all.push_back(s->serial());
  return all;
}

bool visit(std::uint64_t serial, const std::function<void(scheduler&)>& f) {
  registry& r = the_registry();
  const std::lock_guard locked(r.lock);
  const auto found = std::find_if(r.all.begin(), r.all.end(), [&](scheduler* s) { return s->serial() == serial; });
  if (found == r.all.end()) return false;
  f(**found);
  return true;
}

void if_all_quiescent(const std::function<void(const internal_vector<scheduler*>&)>& f) {
  registry& r = the_registry();
  const std::lock_guard locked(r.lock);
  // Looking at one runtime after the other proves nothing by itself: the first may have been woken by the second, which
  // then went to sleep. So look twice, and let the epochs say that none was busy in between.
  internal_vector<std::uint64_t> epochs;
  for (scheduler* s : r.all) {
    const quiescence seen = s->look();
    if (!seen.holds || seen.timers) return;
    epochs.push_back(seen.epoch);
  }
  const std::size_t own = own_threads.load();
  const std::size_t threads = threads_of_process();
  // The smaller count of before and after: a thread that was counted in between must not hide another one.
  std::size_t blocked = 0;
  for (const auto* b = r.blocked; b != nullptr; b = b->next()) ++blocked;
  if (threads == 0 || threads > std::min(own, own_threads.load()) + blocked) return;
  // Asked between the two looks, as the threads are counted: what an alarm has woken before this shows in the epochs.
  if (outside_timers::pending()) return;
  // A thread whose wait is over is about to continue.
  for (const auto* b = r.blocked; b != nullptr; b = b->next())
    if (b->done()) return;
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    const quiescence seen = r.all[i]->look();
    if (!seen.holds || seen.timers || seen.epoch != epochs[i]) return;
  }
  f(r.all);
}

}  // namespace runtime_registry

}  // namespace coir::detail
