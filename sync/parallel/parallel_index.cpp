#include <coir/detail/parallel_index.hpp>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

void run_calls(const invocation* calls, std::uint64_t count, source_location at) {
  parallel_loop(
      "coir::parallel_invoke", count, 1,
      [](void* all, std::uint64_t first, std::uint64_t last) {
        auto* const from = static_cast<const invocation*>(all);
        for (std::uint64_t i = first; i < last; ++i) from[i].call(from[i].function);
      },
      const_cast<invocation*>(calls), at)
      .run();
}

}  // namespace coir::detail
