// <coir/metrics.hpp>: counters that add up exactly once nothing runs, gauges that say what is there, and a text that
// Prometheus understands.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <semaphore>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <coir/metrics.hpp>
#include <coir_test.hpp>

#include "gate.hpp"

namespace {

using coir::metrics_snapshot;
using coir_test::scaled;
using coir_test::until_blocked;
using runtime_test::gate;
using namespace std::chrono_literals;

class Metrics : public coir_test::with_processors {};

template <class Number>
std::uint64_t sum(const metrics_snapshot& m, Number coir::processor_metrics::* member) {
  std::uint64_t all = 0;
  for (const coir::processor_metrics& p : m.processors) all += p.*member;
  return all;
}

// ---- counters ------------------------------------------------------------------------------------------------------

TEST_P(Metrics, WhatStartedHasEnded) {
  coir::runtime rt{opts()};
  const int n = scaled(20'000);
  rt.run([] {
    for (int i = 0; i < n; ++i) coir::go([] { coir::yield(); });
  });
  for (int i = 0; i < 10; ++i) rt.go([] {});  // from outside
  rt.wait();
  const metrics_snapshot m = rt.metrics();
  const auto all = static_cast<std::uint64_t>(n) + 11;
  EXPECT_EQ(m.started, all);
  EXPECT_EQ(m.ended, all);
  EXPECT_EQ(m.live, 0U);
  EXPECT_GE(m.runs, m.started);
  if (m.retaken == 0) {          // else a fiber without a processor has pushed, or was pushed, in the same way
    EXPECT_EQ(m.injected, 11U);  // main, and the ten
    EXPECT_EQ(m.started - sum(m, &coir::processor_metrics::started), 11U);
  }
  EXPECT_EQ(m.ready + m.fresh + m.next + m.injected_queue + m.spilled_ready + m.spilled_fresh, 0U);
  EXPECT_EQ(m.processors.size(), GetParam());
  EXPECT_EQ(m.idle, GetParam());
  EXPECT_EQ(m.free_stacks, m.stacks);
}

TEST_P(Metrics, EachParkIsCountedAndEndsInARun) {
  coir::runtime rt{opts()};
  const int n = scaled(5'000);
  rt.run([] {
    gate there;
    gate back;
    coir::task<void> other = coir::spawn([&] {
      for (int i = 0; i < n; ++i) {
        there.pass();
        there.shut();
        back.open();
      }
    });
    for (int i = 0; i < n; ++i) {
      there.open();
      back.pass();
      back.shut();
    }
    other.get();
  });
  rt.wait();
  const metrics_snapshot m = rt.metrics();
  // With one processor that is not retaken each round blocks both; else they need not wait for each other.
  if (GetParam() == 1 && m.retaken == 0) {
    EXPECT_GE(m.parked, 2 * static_cast<std::uint64_t>(n) - 1);
  }
  EXPECT_GE(m.runs, m.parked);  // all have been woken
  EXPECT_LE(m.wake_latency.count(), m.parked);
}

TEST_P(Metrics, BlockingHandsTheProcessorOff) {
  coir::runtime rt{opts()};
  rt.run([&] {
    for (unsigned i = 0; i < GetParam(); ++i) {
      std::binary_semaphore ran{0};
      coir::task<void> other;
      coir::blocking([&] {
        other = coir::runtime::current().spawn([&ran] { ran.release(); });
        ran.acquire();
      });
      other.get();
    }
  });
  rt.wait();
  const metrics_snapshot m = rt.metrics();
  EXPECT_LE(m.handed_off, GetParam());
  EXPECT_GE(m.handed_off + m.retaken, GetParam());  // the monitor may be faster
}

TEST(MetricsAlone, TheMonitorsRetakesAreCounted) {
  coir::options o;
  o.processors = 1;
  coir::runtime rt{o};
  rt.run([] {
    std::atomic<bool> ran{false};
    coir::go([&ran] { ran = true; });
    while (!ran) {
    }
  });
  rt.wait();
  EXPECT_GE(rt.metrics().retaken, 1U);
}

// ---- gauges --------------------------------------------------------------------------------------------------------

TEST_P(Metrics, LiveFibersTimersAndStacks) {
  coir::runtime rt{opts()};
  gate end;
  constexpr int n = 100;
  std::vector<coir::task<void>> blocked;
  std::vector<coir::task<void>> asleep;
  for (int i = 0; i < n; ++i) blocked.push_back(rt.spawn([&end] { end.pass(); }));
  for (int i = 0; i < n; ++i) asleep.push_back(rt.spawn([] { coir::sleep_for(1h); }));
  until_blocked(blocked);
  until_blocked(asleep);
  const metrics_snapshot m = rt.metrics();
  EXPECT_EQ(m.live, 2U * n);
  EXPECT_EQ(m.timers, n);
  EXPECT_EQ(m.timers, sum(m, &coir::processor_metrics::timers));
  EXPECT_GE(m.stacks, m.free_stacks + 2U * n);
  EXPECT_EQ(m.running + m.asleep + m.lost, m.threads);
  end.open();
  for (coir::task<void>& t : asleep) t.request_stop();
  blocked.clear();
  asleep.clear();
  rt.wait();
  EXPECT_EQ(rt.metrics().live, 0U);
}

TEST(MetricsAlone, WhatWaitsInTheQueuesIsCounted) {
  coir::options o;
  o.time_slice = 1h;
  const auto [before, m] = coir_test::on_one_processor(
      [] {
        metrics_snapshot at_first = coir::metrics();
        for (int i = 0; i < 1'000; ++i) coir::go([] {});  // more than a processor's queue holds
        return std::pair(std::move(at_first), coir::metrics());
      },
      o);
  EXPECT_EQ(m.fresh + m.spilled_fresh - before.fresh - before.spilled_fresh, 1'000U);
  EXPECT_GT(m.spilled_fresh, 0U);
  EXPECT_EQ(m.running, 1U);
  EXPECT_EQ(m.idle, 0U);
  EXPECT_FALSE(m.processors[0].idle);
  EXPECT_EQ(m.live, 1'001U);
}

TEST_P(Metrics, CanBeReadWhileThousandsRun) {
  coir::runtime rt{opts()};
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    metrics_snapshot last = rt.metrics();
    while (!stop) {
      const metrics_snapshot m = rt.metrics();
      EXPECT_GE(m.started, m.ended);
      EXPECT_GE(m.started, last.started);
      EXPECT_GE(m.ended, last.ended);
      EXPECT_GE(m.parked, last.parked);
      EXPECT_LT(m.live, 1'000'000U);
      last = m;
    }
  });
  rt.run([] {
    for (int round = 0; round < scaled(50); ++round) {
      std::vector<coir::task<void>> tasks;
      for (int i = 0; i < 1'000; ++i) tasks.push_back(coir::spawn([] { coir::yield(); }));
    }
  });
  rt.wait();
  stop = true;
  reader.join();
}

TEST_P(Metrics, OutsideARuntimeThereIsNoCurrentOne) {
  coir_test::expect_throw_message<coir::not_in_runtime>([] { coir::metrics(); },
                                                        "coir::metrics called outside a fiber");
}

// ---- the histogram -------------------------------------------------------------------------------------------------

TEST(LatencyHistogram, EachLatencyIsWithinTheBoundsOfItsBucket) {
  using h = coir::latency_histogram;
  for (std::int64_t ns : {0L, 1L, 255L, 256L, 257L, 511L, 512L, 513L, 1'000'000L, 4'294'967'295L, 4'294'967'297L}) {
    const std::size_t i = h::bucket_of(ns);
    EXPECT_LE(ns, h::bound(i).count());
    if (i != 0) {
      EXPECT_GT(ns, h::bound(i - 1).count());
    }
  }
  EXPECT_EQ(h::bucket_of(-5), 0U);
  EXPECT_EQ(h::bucket_of(std::int64_t{1} << 62), h::buckets - 1);
}

TEST(LatencyHistogram, QuantilesAreBoundsOfBuckets) {
  coir::latency_histogram h;
  EXPECT_EQ(h.quantile(0.5), 0ns);
  h.counts[2] = 90;
  h.counts[7] = 10;
  EXPECT_EQ(h.count(), 100U);
  EXPECT_EQ(h.quantile(0), h.bound(2));
  EXPECT_EQ(h.quantile(0.9), h.bound(2));
  EXPECT_EQ(h.quantile(0.91), h.bound(7));
  EXPECT_EQ(h.quantile(1), h.bound(7));
}

// The fiber that was woken first while another computes waits at least as long as that takes.
TEST(LatencyHistogram, MeasuresFromWakingToRunning) {
  coir::options o;
  o.processors = 1;
  o.time_slice = 1h;
  coir::runtime rt{o};
  gate go;
  coir::task<void> sleeper = rt.spawn([&] { go.pass(); });
  until_blocked(sleeper);
  std::chrono::nanoseconds computed{0};
  rt.run([&] {
    for (int i = 0; i < 300; ++i) coir::yield();  // into a new period
    go.open();
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < 5ms) {
    }
    computed = std::chrono::steady_clock::now() - begin;
  });
  sleeper.get();
  const coir::latency_histogram h = rt.metrics().wake_latency;
  EXPECT_GE(h.sum, computed);
  EXPECT_GE(h.quantile(1), 5ms);
}

// ---- Prometheus ----------------------------------------------------------------------------------------------------

/// A strict reader of the text exposition format, as far as coir uses it.
struct exposition {
  std::map<std::string, std::string> types;               // by metric
  std::map<std::string, double> samples;                  // by name and labels, as written
  std::map<std::string, std::vector<std::string>> order;  // of a metric's samples

  static bool is_name(const std::string& s) {
    if (s.empty() || (s[0] >= '0' && s[0] <= '9')) return false;
    return s.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:") == std::string::npos;
  }

  static void check_labels(const std::string& labels) {
    std::size_t at = 0;
    while (at < labels.size()) {
      const std::size_t equals = labels.find("=\"", at);
      ASSERT_NE(equals, std::string::npos) << labels;
      EXPECT_TRUE(is_name(labels.substr(at, equals - at))) << labels;
      const std::size_t quote = labels.find('"', equals + 2);
      ASSERT_NE(quote, std::string::npos) << labels;
      at = quote + 1;
      if (at == labels.size()) return;
      ASSERT_EQ(labels[at], ',') << labels;
      ++at;
    }
  }

  void read(const std::string& text) {
    ASSERT_FALSE(text.empty());
    ASSERT_EQ(text.back(), '\n');
    std::istringstream in(text);
    std::string metric;
    bool helped = false;
    for (std::string line; std::getline(in, line);) {
      if (line.rfind("# HELP ", 0) == 0) {
        const std::size_t space = line.find(' ', 7);
        ASSERT_NE(space, std::string::npos) << line;
        metric = line.substr(7, space - 7);
        EXPECT_TRUE(is_name(metric)) << line;
        EXPECT_EQ(types.count(metric), 0U) << "twice: " << metric;
        helped = true;
        continue;
      }
      if (line.rfind("# TYPE ", 0) == 0) {
        ASSERT_TRUE(helped) << line;
        helped = false;
        ASSERT_EQ(line.substr(7, metric.size() + 1), metric + ' ');
        const std::string type = line.substr(8 + metric.size());
        EXPECT_TRUE(type == "counter" || type == "gauge" || type == "histogram") << line;
        types[metric] = type;
        continue;
      }
      ASSERT_FALSE(line.empty());
      ASSERT_NE(line[0], '#') << line;
      const std::size_t space = line.rfind(' ');
      ASSERT_NE(space, std::string::npos) << line;
      std::string name = line.substr(0, space);
      char* end = nullptr;
      const double value = std::strtod(line.c_str() + space + 1, &end);
      EXPECT_EQ(*end, '\0') << line;
      EXPECT_TRUE(std::isfinite(value) && value >= 0) << line;
      EXPECT_TRUE(samples.emplace(name, value).second) << "twice: " << line;
      order[metric].push_back(name);
      if (const std::size_t brace = name.find('{'); brace != std::string::npos) {
        ASSERT_EQ(name.back(), '}') << line;
        check_labels(name.substr(brace + 1, name.size() - brace - 2));
        name.resize(brace);
      }
      if (types[metric] == "histogram")
        EXPECT_TRUE(name == metric + "_bucket" || name == metric + "_sum" || name == metric + "_count") << line;
      else
        EXPECT_EQ(name, metric) << "a sample away from its metric: " << line;
      if (types[metric] == "counter") {
        EXPECT_EQ(name.substr(name.size() - 6), "_total") << line;
      }
    }
  }
};

TEST_P(Metrics, ThePrometheusTextIsWellFormedAndSaysTheSame) {
  coir::runtime rt{opts()};
  rt.run([] {
    for (int i = 0; i < 1'000; ++i) coir::go([] { coir::sleep_for(1us); });
  });
  rt.wait();
  const metrics_snapshot m = rt.metrics();
  exposition e;
  e.read(coir::prometheus(m));
  ASSERT_FALSE(HasFatalFailure());

  EXPECT_EQ(e.types.at("coir_fibers"), "gauge");
  EXPECT_EQ(e.samples.at("coir_processors"), GetParam());
  double runs = 0;
  for (const std::string& name : e.order.at("coir_fiber_runs_total")) runs += e.samples.at(name);
  EXPECT_EQ(runs, static_cast<double>(m.runs));
  EXPECT_EQ(e.order.at("coir_fiber_runs_total").size(), GetParam() + 1U);

  // The histogram: cumulative, its bounds rising, the last bucket the count.
  const std::vector<std::string>& h = e.order.at("coir_wake_latency_seconds");
  ASSERT_EQ(h.size(), coir::latency_histogram::buckets + 2);
  double last = 0;
  double last_bound = 0;
  for (std::size_t i = 0; i < coir::latency_histogram::buckets; ++i) {
    EXPECT_GE(e.samples.at(h[i]), last);
    last = e.samples.at(h[i]);
    const std::string bound = h[i].substr(h[i].find("le=\"") + 4);
    const double b = bound.rfind("+Inf", 0) == 0 ? HUGE_VAL : std::strtod(bound.c_str(), nullptr);
    EXPECT_GT(b, last_bound);
    last_bound = b;
  }
  EXPECT_EQ(last_bound, HUGE_VAL);
  EXPECT_EQ(e.samples.at("coir_wake_latency_seconds_count"), last);
  EXPECT_EQ(last, static_cast<double>(m.wake_latency.count()));

  std::ostringstream out;
  coir::write_prometheus(out, m);
  EXPECT_EQ(out.str(), coir::prometheus(m));
}

INSTANTIATE_TEST_SUITE_P(Processors, Metrics, coir_test::processors, coir_test::processors_name);

}  // namespace
