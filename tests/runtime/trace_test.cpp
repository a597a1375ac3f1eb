// Traces: the file is JSON, whole, in the form that Perfetto opens; what a processor ran does not overlap; each arrow
// has both ends, and leads from the slice of who woke to that of who was woken; starting and stopping disturbs nobody.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <semaphore>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <coir/async.hpp>
#include <coir/trace.hpp>
#include <coir_test.hpp>

#include "gate.hpp"
#include "json.hpp"

namespace {

using coir_test::scaled;
using coir_test::until_blocked;
using runtime_test::gate;
using runtime_test::json;
using namespace std::chrono_literals;

class temporary_file {
 public:
  temporary_file() {
    char name[] = "coir_trace_XXXXXX";
    const int file = ::mkstemp(name);
    if (file >= 0) ::close(file);
    path_ = name;
  }
  ~temporary_file() { std::remove(path_.c_str()); }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;

  const std::string& path() const { return path_; }
  std::string text() const {
    std::ifstream in(path_);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }

 private:
  std::string path_;
};

struct slice {
  double begin;
  double end;
  std::string name;
  std::string ended_by;
  double fiber;
};

using track = std::pair<double, double>;  // process, thread

constexpr double first_lost_thread = 10'001;

/// What a trace says, checked in itself.
struct parsed_trace {
  std::map<track, std::vector<slice>> slices;
  std::map<std::string, int> instants;
  std::size_t arrows = 0;
  double recorded = 0;
  double dropped = 0;

  explicit parsed_trace(const std::string& text) {
    const json all = json::parse(text);  // throws what is wrong
    recorded = all.at("otherData").at("recorded").number();
    dropped = all.at("otherData").at("dropped").number();
    std::map<double, std::pair<track, double>> begins;
    std::map<double, std::pair<track, double>> ends;
    std::map<track, std::string> names;
    for (const json& e : all.at("traceEvents").array()) {
      const std::string& kind = e.at("ph").string();
      if (kind == "M") {
        if (e.at("name").string() == "thread_name")
          names[{e.at("pid").number(), e.at("tid").number()}] = e.at("args").at("name").string();
        continue;
      }
      const track where{e.at("pid").number(), e.at("tid").number()};
      const double time = e.at("ts").number();
      EXPECT_GE(time, 0);
      if (kind == "X") {
        slices[where].push_back({time, time + e.at("dur").number(), e.at("name").string(),
                                 e.at("args").at("ended by").string(), e.at("args").at("fiber").number()});
        EXPECT_NE(e.at("args").at("spawned").string().find("pp:"), std::string::npos);
      } else if (kind == "s") {
        EXPECT_TRUE(begins.emplace(e.at("id").number(), std::pair(where, time)).second);
      } else if (kind == "f") {
        EXPECT_EQ(e.at("bp").string(), "e");
        EXPECT_TRUE(ends.emplace(e.at("id").number(), std::pair(where, time)).second);
      } else {
        EXPECT_EQ(kind, "i");
        ++instants[e.at("name").string()];
      }
    }
    for (auto& [where, all_of] : slices) {
      EXPECT_EQ(names.count(where), 1U) << "a track without a name: " << where.second;
      std::sort(all_of.begin(), all_of.end(),
                [](const slice& a, const slice& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
      for (std::size_t i = 1; i < all_of.size(); ++i)
        EXPECT_LE(all_of[i - 1].end, all_of[i].begin + 1e-6) << all_of[i - 1].name << " and " << all_of[i].name;
    }
    arrows = begins.size();
    EXPECT_EQ(begins.size(), ends.size());
    for (const auto& [id, from] : begins) {
      const auto& to = ends.at(id);
      EXPECT_LE(from.second, to.second);
      EXPECT_TRUE(inside(from)) << "an arrow from nowhere";
      EXPECT_TRUE(inside(to)) << "an arrow to nowhere";
    }
  }

  bool inside(const std::pair<track, double>& point) const {
    const auto all_of = slices.find(point.first);
    if (all_of == slices.end()) return false;
    // They do not overlap, so it can only be one of the last two that begin before it.
    const auto& in_order = all_of->second;
    auto after = std::upper_bound(in_order.begin(), in_order.end(), point.second + 1e-6,
                                  [](double time, const slice& s) { return time < s.begin; });
    for (int i = 0; i < 2 && after != in_order.begin(); ++i)
      if (point.second <= (--after)->end + 1e-6) return true;
    return false;
  }

  std::vector<slice> named(const std::string& name) const {
    std::vector<slice> result;
    for (const auto& [where, all_of] : slices)
      for (const slice& s : all_of)
        if (s.name == name) result.push_back(s);
    return result;
  }
};

class Trace : public coir_test::with_processors {};

void compute_for(std::chrono::microseconds d) {
  const auto end = std::chrono::steady_clock::now() + d;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// ---- what is in it -------------------------------------------------------------------------------------------------

TEST_P(Trace, SlicesHaveNamesAndSayWhyTheyEnded) {
  const temporary_file file;
  run([&] {
    coir::trace_start(file.path());
    gate door;
    coir::task<void> sleeper = coir::spawn([&] {
      coir::this_fiber::set_name("a \"quoted\" name that is long");
      door.pass();
    });
    until_blocked(sleeper);
    coir::task<void> other = coir::spawn([&] { door.open(); });
    other.get();
    sleeper.get();
    const coir::trace_summary summary = coir::trace_stop();
    EXPECT_LT(summary.dropped, 5U);  // a run that is being counted while the trace begins or ends
    EXPECT_GT(summary.recorded, 4U);
  });
  const parsed_trace t(file.text());
  const std::vector<slice> s = t.named("a \"quoted\" name that is ");
  ASSERT_EQ(s.size(), 2U);
  EXPECT_EQ(s[0].ended_by == "gate" ? s[1].ended_by : s[0].ended_by, "end");
  EXPECT_TRUE(s[0].ended_by == "gate" || s[1].ended_by == "gate");
  EXPECT_GE(t.arrows, 1U);
}

double own_id_in_trace() { return static_cast<double>(coir::this_fiber::get_id().number()); }

TEST_P(Trace, EverySliceHasTheIdOfWhatRan) {
  const temporary_file file;
  double of_main = 0;
  double of_go = 0;
  double of_task = 0;
  double of_async = 0;
  double of_go_async = 0;
  run([&] {
    coir::trace_start(file.path());
    of_main = own_id_in_trace();
    gate door;
    coir::task<void> task = coir::spawn([&] {
      of_task = own_id_in_trace();
      door.pass();
    });
    gate went;
    coir::go([&] {
      of_go = own_id_in_trace();
      coir::yield();
      went.open();
    });
    went.pass();
    const auto sleeps = [](double& id) -> coir::async<void> {
      id = own_id_in_trace();
      for (int i = 0; i < 3; ++i) {
        co_await coir::async_sleep(1us);
        EXPECT_EQ(own_id_in_trace(), id);
      }
    };
    coir::task<void> async = coir::spawn(sleeps(of_async));
    async.get();
    coir::go(sleeps(of_go_async));
    until_blocked(task);
    door.open();
    const auto expected = static_cast<double>(task.id().number());
    task.get();
    EXPECT_EQ(of_task, expected);
  });
  coir::trace_stop();  // now each slice has been recorded
  const std::set<double> ids{of_main, of_go, of_task, of_async, of_go_async};
  ASSERT_EQ(ids.size(), 5U);
  std::map<double, std::map<std::string, int>> ends;
  for (const auto& [where, all_of] : parsed_trace(file.text()).slices) {
    for (const slice& s : all_of) {
      EXPECT_EQ(ids.count(s.fiber), 1U) << s.name << ", ended by " << s.ended_by << ", is nobody";
      EXPECT_EQ(s.name, "fiber " + std::to_string(static_cast<std::uint64_t>(s.fiber)));
      ++ends[s.fiber][s.ended_by];
    }
  }
  for (const double id : ids) EXPECT_EQ(ends[id]["end"], 1) << id;
  EXPECT_EQ(ends[of_task]["gate"], 1);
  EXPECT_EQ(ends[of_async]["co_await"], 3);
  EXPECT_EQ(ends[of_go_async]["co_await"], 3);
}

TEST_P(Trace, AFiberThatLosesItsProcessorGoesOnOnAnotherTrack) {
  const temporary_file file;
  run([&] {
    coir::trace_start(file.path());
    for (unsigned i = 0; i < GetParam() + 1; ++i) {
      coir::task<void> blocked = coir::spawn([] {
        coir::this_fiber::set_name("blocker");
        std::binary_semaphore ran{0};
        coir::go([&ran] { ran.release(); });
        coir::blocking([&] { ran.acquire(); });
      });
      blocked.get();
    }
    coir::trace_stop();
  });
  const parsed_trace t(file.text());
  bool lost = false;
  bool without = false;
  for (const auto& [where, all_of] : t.slices) {
    for (const slice& s : all_of) lost = lost || s.ended_by == "blocking()" || s.ended_by == "retaken";
    without = without || where.second >= first_lost_thread;
  }
  EXPECT_TRUE(lost);
  EXPECT_TRUE(without);
}

// Slices are about as long as their fiber computed, by the other clock: neither shorter, nor longer than all the time
// that passed. (More than one, if its processor was retaken because the machine did not let its thread run.)
TEST(TraceAlone, SlicesAreAsLongAsTheFiberRan) {
  using std::chrono::steady_clock;
  using microseconds = std::chrono::duration<double, std::micro>;
  const temporary_file file;
  microseconds computed{0};
  const auto begin = steady_clock::now();
  coir::options o;
  o.processors = 1;
  o.time_slice = 1h;
  coir::run(o, [&] {
    coir::trace_start(file.path());
    coir::task<void> t = coir::spawn([&] {
      coir::this_fiber::set_name("computes");
      const auto from = steady_clock::now();
      compute_for(20ms);
      computed = steady_clock::now() - from;
    });
    t.get();
    coir::trace_stop();
  });
  const microseconds passed = steady_clock::now() - begin;
  const parsed_trace t(file.text());
  double all = 0;
  for (const slice& s : t.named("computes")) all += s.end - s.begin;
  EXPECT_GT(all, computed.count() * 0.9);  // how long a tick is has been measured in little time
  EXPECT_LT(all, passed.count() * 1.1);
}

// ---- while much is going on ----------------------------------------------------------------------------------------

TEST_P(Trace, StartAndStopWhileThousandsRun) {
  std::vector<std::unique_ptr<temporary_file>> files;
  for (int i = 0; i < 5; ++i) files.push_back(std::make_unique<temporary_file>());
  {
    coir::runtime rt{opts()};
    std::atomic<std::uint64_t> rounds{0};
    std::atomic<bool> stop{false};
    std::vector<coir::task<void>> busy;
    for (int i = 0; i < scaled(1'000) + 10; ++i) {
      busy.push_back(rt.spawn([&stop, &rounds] {
        while (!stop) {
          gate g;
          coir::go([&g] { g.open(); });
          g.pass();
          ++rounds;
          coir::sleep_for(200us);
        }
      }));
    }
    for (const auto& file : files) {
      coir::trace_start(file->path());
      const std::uint64_t begin = rounds;
      coir_test::until([&] { return rounds > begin + 2'000; });  // one each, for most
      coir::trace_stop();
    }
    stop = true;
    for (coir::task<void>& t : busy) t.get();
  }
  for (const auto& file : files) {
    const parsed_trace t(file->text());
    EXPECT_GT(t.recorded, 0);
  }
}

// More than the buffers hold: what is dropped is counted, and what is kept is still consistent.
TEST_P(Trace, WhatDoesNotFitIsCounted) {
  const auto fibers = static_cast<unsigned>(scaled(200'000));
  const temporary_file file;
  coir::trace_summary summary;
  run([&] {
    coir::trace_start(file.path());
    for (unsigned n = 0; n < fibers; ++n) coir::spawn([] {}).get();
    summary = coir::trace_stop();
  });
  const parsed_trace t(file.text());
  EXPECT_EQ(t.recorded, static_cast<double>(summary.recorded));
  EXPECT_EQ(t.dropped, static_cast<double>(summary.dropped));
  EXPECT_GT(summary.recorded, 1'000U);
  EXPECT_GE(summary.recorded + summary.dropped, fibers);  // each has run
  if (summary.dropped != 0) {
    EXPECT_GE(t.instants.count("events dropped"), 1U);
  }
}

TEST_P(Trace, SeveralRuntimesAreInOneFile) {
  const temporary_file file;
  {
    coir::runtime before{opts()};
    coir::trace_start(file.path());
    coir::runtime after{opts()};
    before.run([] { coir::yield(); });
    after.run([] { coir::yield(); });
  }
  run([] { coir::yield(); });
  coir::trace_stop();
  run([] { coir::yield(); });
  const parsed_trace t(file.text());
  std::vector<double> runtimes;
  for (const auto& [where, all_of] : t.slices) runtimes.push_back(where.first);
  runtimes.erase(std::unique(runtimes.begin(), runtimes.end()), runtimes.end());
  EXPECT_EQ(runtimes.size(), 3U);
}

// The thread that writes the file is no reason to believe that somebody could wake the blocked.
TEST_P(Trace, ADeadlockIsStillSeen) {
  const temporary_file file;
  coir::trace_start(file.path());
  EXPECT_THROW(run([] {
                 gate never;
                 never.pass();
               }),
               coir::deadlock);
  coir::trace_stop();
  const parsed_trace t(file.text());
  EXPECT_GT(t.recorded, 0);
}

// ---- starting and stopping -----------------------------------------------------------------------------------------

TEST(TraceAlone, OneAtATime) {
  const temporary_file file;
  coir_test::expect_throw_message<std::logic_error>([] { coir::trace_stop(); }, "no trace is being recorded");
  coir::trace_start(file.path());
  coir_test::expect_throw_message<std::logic_error>([&] { coir::trace_start(file.path()); }, "while a trace is being");
  coir::trace_stop();
  coir_test::expect_throw_message<std::logic_error>([] { coir::trace_stop(); }, "no trace is being recorded");
  parsed_trace{file.text()};
}

TEST(TraceAlone, AFileThatCannotBeWritten) {
  coir_test::expect_throw_message<std::system_error>([] { coir::trace_start("/nonexistent/trace"); },
                                                     "cannot write the trace /nonexistent/trace");
  const temporary_file file;
  coir::trace_start(file.path());  // that is no reason not to start another
  coir::trace_stop();
}

// COIR_TRACE: the file is whole whenever no runtime lives, and goes on with the next.
TEST(TraceAlone, OfTheEnvironment) {
  const temporary_file file;
  ASSERT_EQ(::setenv("COIR_TRACE", file.path().c_str(), 1), 0);
  coir::run([] { coir::this_fiber::set_name("first"); });
  EXPECT_EQ(parsed_trace(file.text()).named("first").size(), 1U);
  coir::run([] { coir::this_fiber::set_name("second"); });
  const parsed_trace both(file.text());
  EXPECT_EQ(both.named("first").size(), 1U);
  EXPECT_EQ(both.named("second").size(), 1U);
  coir::trace_stop();  // ends it for good
  coir::run([] { coir::this_fiber::set_name("third"); });
  ASSERT_EQ(::unsetenv("COIR_TRACE"), 0);
  EXPECT_TRUE(parsed_trace(file.text()).named("third").empty());
}

INSTANTIATE_TEST_SUITE_P(Processors, Trace, coir_test::processors, coir_test::processors_name);

}  // namespace
