// Kernels: small programs with one concurrency bug each, of the kinds that studies of real programs have found, and a
// mended twin. The tests explore them (kernels_test.cpp), and ordinary.cpp runs them in the ordinary library.
//
// A kernel is a template <bool mended>, so that the bug and its mending stand beside each other. Every bug needs a
// certain interleaving. An atomic variable is no decision of an exploration, so a kernel about one has a decision() or
// a yield where another fiber may come in between. A kernel checks after it has joined its fibers: nothing that they
// use is gone by then.
#pragma once

#include <span>
#include <stdexcept>
#include <vector>

#include <coir/coir.hpp>

namespace kernels {

/// How the bug shows.
enum class effect { exception, deadlock };

struct kernel {
  const char* name;
  const char* bug;  ///< what is wrong, in a few words
  effect shows;
  void (*broken)();
  void (*mended)();
};

std::span<const kernel> locks();
std::span<const kernel> conditions();
std::span<const kernel> wait_groups();
std::span<const kernel> channels();
std::span<const kernel> cancellations();
std::span<const kernel> orders();

/// All of them.
std::vector<kernel> table();

/// A decision of an exploration, and next to nothing in an ordinary run. Unlike a yield it does not favour the others.
inline void decision() {
  coir::mutex of_nobody;
  of_nobody.lock();
  of_nobody.unlock();
}

inline void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

}  // namespace kernels
