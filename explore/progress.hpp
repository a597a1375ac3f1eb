// Shows the progress of a long exploration: a line on stderr now and then, if that is a terminal.
#pragma once

#include <chrono>
#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/explore.hpp>

namespace coir::inline COIR_ABI::detail {

class progress {
 public:
  explicit progress(source_location at);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  /// After `run` schedules of at most `all`; `covered`: their share, less than 0 if that is not known.
  void note(std::uint64_t run, std::uint64_t all, double covered) {
    if (on_terminal_ && run % 256 == 0) show(run, all, covered);
  }

 private:
  using steady_clock = std::chrono::steady_clock;

  void show(std::uint64_t run, std::uint64_t all, double covered);

  const source_location at_;
  const bool on_terminal_;
  const steady_clock::time_point begun_ = steady_clock::now();
  steady_clock::time_point shown_ = begun_;
  bool anything_shown_ = false;
};

}  // namespace coir::detail
