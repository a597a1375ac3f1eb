#include <utility>

#include <coir/error.hpp>

#include <coir/detail/abi.hpp>

#include "base/report.hpp"

namespace coir::inline COIR_ABI {

namespace {

std::string message(const std::vector<std::exception_ptr>& exceptions) {
  std::string text = "every function of a race failed: ";
  const char* before = "";
  for (const std::exception_ptr& e : exceptions) {
    text += std::exchange(before, "; ");
    text += detail::describe(e);
  }
  return text;
}

}  // namespace

race_failed::race_failed(std::vector<std::exception_ptr> exceptions)
    : error(message(exceptions)),
      exceptions_(std::make_shared<const std::vector<std::exception_ptr>>(std::move(exceptions))) {}

}  // namespace coir
