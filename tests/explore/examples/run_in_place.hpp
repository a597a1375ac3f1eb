// Included before a program of examples/ that is to be explored: its coir::run() calls the first fiber's function in
// place, since the exploration has a runtime already, and waits for the others. All headers that programs include come
// first, so that the macro changes the program alone.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <shared_mutex>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <coir/coir.hpp>
#include <coir/metrics.hpp>

namespace explored {

/// Whether all fibers are the program's. A driver has fibers of its own.
inline bool program_is_alone = true;

/// As the end of coir::run(): waits for the fibers that the function has left running. Time is virtual.
struct drain {
  ~drain() noexcept(false) {
    if (!program_is_alone || std::uncaught_exceptions() != 0) return;
    for (int i = 0; i < 100 && coir::metrics().live > 1; ++i) coir::sleep_for(std::chrono::hours(1));
  }
};

}  // namespace explored

namespace coir {

template <class F>
auto run_in_place(F&& f) {
  const explored::drain others;
  return std::forward<F>(f)();
}

template <class F>
auto run_in_place(const options&, F&& f) {
  return run_in_place(std::forward<F>(f));
}

}  // namespace coir

#define run run_in_place
