// The failed assertions of GoogleTest in a schedule: they are the exploration's, and not the running test's. Without
// GoogleTest in the program there are none.
//
// The library does not need GoogleTest to be built, nor is its use tied to one version: the functions of
// <gtest/gtest-spi.h> that it calls are weak references, resolved if the program links GoogleTest, and the objects that
// they work on are opaque here.
#pragma once

#include <cstddef>
#include <string>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

class assertions {
 public:
  /// Until it is destroyed, the results of this thread's assertions come here.
  assertions();
  ~assertions();
  assertions(const assertions&) = delete;
  assertions& operator=(const assertions&) = delete;

  /// Whether one has failed.
  bool any() const noexcept { return results_[0] != results_[1] && has_failure(); }

  /// The failed ones, one after the other.
  std::string text() const;

  void forget();

 private:
  bool has_failure() const noexcept;

  // A testing::TestPartResultArray: a std::vector, which is empty if all its words are zero. Nothing else is known of
  // the first two words than that they differ if it is not empty.
  void** results_;
  // A testing::ScopedFakeTestPartResultReporter.
  alignas(std::max_align_t) unsigned char reporter_[128];
};

}  // namespace coir::detail
