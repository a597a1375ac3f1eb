#include <coir/detail/abi.hpp>

#include "io_vector.hpp"

namespace coir::inline COIR_ABI::hooks {

void io_vector::advance(std::size_t bytes) noexcept {
  if (begun_.iov_len != 0) {
    begun_ = {static_cast<char*>(begun_.iov_base) + bytes, begun_.iov_len - bytes};
    return;
  }
  for (; count_ != 0 && bytes >= rest_->iov_len; ++rest_, --count_) bytes -= rest_->iov_len;
  if (bytes == 0) return;
  begun_ = {static_cast<char*>(rest_->iov_base) + bytes, rest_->iov_len - bytes};
  ++rest_;
  --count_;
}

}  // namespace coir::hooks
