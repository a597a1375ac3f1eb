// What is left of an array of buffers while parts of it are read or written. The array is the caller's and is not
// changed. A buffer that is done in part is offered alone, until it is done.
#pragma once

#include <cstddef>

#include <sys/uio.h>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::hooks {

class io_vector {
 public:
  io_vector(const ::iovec* from, std::size_t n) noexcept : rest_(from), count_(n) {}

  /// For the next call.
  const ::iovec* data() const noexcept { return begun_.iov_len != 0 ? &begun_ : rest_; }
  std::size_t size() const noexcept { return begun_.iov_len != 0 ? 1 : count_; }

  bool empty() const noexcept { return begun_.iov_len == 0 && count_ == 0; }

  /// That many bytes of what was offered are done.
  void advance(std::size_t bytes) noexcept;

 private:
  ::iovec begun_{};
  const ::iovec* rest_;
  std::size_t count_;
};

}  // namespace coir::hooks
