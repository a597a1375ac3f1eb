#include <coir/semaphore.hpp>

#include <coir/detail/abi.hpp>

#include <stdexcept>
#include <string>

namespace coir::inline COIR_ABI {
namespace {

semaphore::count_type checked(semaphore::count_type permits) {
  if (permits < 0) throw std::invalid_argument("coir: a semaphore of a negative number of permits");
  return permits;
}

}  // namespace

semaphore::semaphore(count_type permits)
    : permits_(checked(permits), "semaphore acquire", detail::permits::kind::semaphore) {}

void semaphore::refuse_release(count_type n) {
  if (n < 0) throw std::invalid_argument("coir: release of a negative number of permits");
  throw std::logic_error("coir: semaphore released more often than acquired");
}

void semaphore::refuse(count_type n) const {
  throw std::invalid_argument("coir: " + std::to_string(n) + " permits wanted of a semaphore of " +
                              std::to_string(permits_.total()));
}

}  // namespace coir
