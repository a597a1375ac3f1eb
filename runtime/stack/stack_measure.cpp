#include <coir/detail/abi.hpp>
#include <coir/stack_use.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "base/immortal.hpp"
#include "base/sanitizer.hpp"
#include "fiber/fiber.hpp"
#include "stack/stack_measure.hpp"

namespace coir::inline COIR_ABI {

namespace detail {

namespace {

using site = std::pair<std::string, unsigned>;

struct measured {
  std::mutex lock;
  std::map<site, stack_use> sites;
};

measured& all() { return immortal<measured>(); }

/// Bytes from the lowest page that was ever touched up to the top.
std::size_t touched(const fiber& f) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto top = (reinterpret_cast<std::uintptr_t>(f.top) + page - 1) / page * page;
  const auto bottom = reinterpret_cast<std::uintptr_t>(f.bottom);
  std::vector<unsigned char> pages((top - bottom) / page);
  if (::mincore(f.bottom, top - bottom, pages.data()) != 0) return 0;
  const auto lowest = std::find_if(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1) != 0; });
  return static_cast<std::size_t>(pages.end() - lowest) * page;
}

}  // namespace

void note_stack_use(fiber& f) {
  const std::size_t used = touched(f);
  {
    measured& m = all();
    const std::lock_guard locked(m.lock);
    const tsan_section section(&m);
    stack_use& s = m.sites[{f.spawn_file, f.line}];
    if (s.fibers == 0) s.file = f.spawn_file;
    s.line = f.line;
    ++s.fibers;
    s.most = std::max(s.most, used);
  }
  // The next fiber on this stack is to be measured from here: the memory well below this frame is given back.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) / page * page;
  const auto bottom = reinterpret_cast<std::uintptr_t>(f.bottom);
  if (here > bottom + 4 * page) ::madvise(f.bottom, here - 4 * page - bottom, MADV_DONTNEED);
}

}  // namespace detail

std::vector<stack_use> stack_uses() {
  std::vector<stack_use> result;
  {
    detail::measured& m = detail::all();
    const std::lock_guard locked(m.lock);
    const detail::tsan_section section(&m);
    for (const auto& [where, use] : m.sites) result.push_back(use);
  }
  std::sort(result.begin(), result.end(), [](const stack_use& a, const stack_use& b) {
    return std::tie(b.most, a.file, a.line) < std::tie(a.most, b.file, b.line);
  });
  return result;
}

}  // namespace coir
