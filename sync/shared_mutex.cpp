#include <coir/shared_mutex.hpp>

#include <stdexcept>

namespace coir {

void shared_mutex::unlock() {
  if (!permits_.release(all)) throw std::logic_error("coir: unlock of a shared_mutex that is not exclusively locked");
}

void shared_mutex::unlock_shared() {
  // A free permit says that no writer holds it.
  if (!permits_.release(1, 1)) throw std::logic_error("coir: unlock_shared of a shared_mutex that no reader holds");
}

}  // namespace coir
