#include "kernels.hpp"

namespace kernels {

std::vector<kernel> table() {
  std::vector<kernel> all;
  for (const auto kind : {locks(), conditions(), wait_groups(), channels(), cancellations(), orders()})
    all.insert(all.end(), kind.begin(), kind.end());
  return all;
}

}  // namespace kernels
