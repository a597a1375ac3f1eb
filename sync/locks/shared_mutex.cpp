#include <coir/shared_mutex.hpp>

#include <coir/detail/abi.hpp>

#include <stdexcept>

namespace coir::inline COIR_ABI {

void shared_mutex::refuse_unlock() {
  throw std::logic_error("coir: unlock of a shared_mutex that is not exclusively locked");
}

void shared_mutex::refuse_unlock_shared() {
  throw std::logic_error("coir: unlock_shared of a shared_mutex that no reader holds");
}

}  // namespace coir
