#include "fiber/fiber.hpp"

#include <ostream>
#include <sstream>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

std::ostream& operator<<(std::ostream& out, const fiber& f) {
  out << "fiber " << f.id;
  if (f.name) out << " \"" << f.name.text() << '"';
  return out << ", spawned at " << f.spawn_file << ':' << f.line;
}

std::string describe(const fiber& f) {
  std::ostringstream out;
  out << f;
  return out.str();
}

}  // namespace coir::detail
