#include "assertions.hpp"

#include <deque>
#include <ostream>
#include <sstream>

#include <coir/detail/abi.hpp>

// NOLINTBEGIN: the names that a C++ compiler gives to GoogleTest's functions.
extern "C" {
// ScopedFakeTestPartResultReporter(InterceptMode, TestPartResultArray*), and its destructor
[[gnu::weak]] void coir_gtest_begin(void* self, int mode, void* results) asm(
    "_ZN7testing32ScopedFakeTestPartResultReporterC1ENS0_13InterceptModeEPNS_19TestPartResultArrayE");
[[gnu::weak]] void coir_gtest_end(void* self) asm("_ZN7testing32ScopedFakeTestPartResultReporterD1Ev");
// TestPartResultArray::size() const, ::GetTestPartResult(int) const
[[gnu::weak]] int coir_gtest_size(const void* results) asm("_ZNK7testing19TestPartResultArray4sizeEv");
[[gnu::weak]] const void* coir_gtest_get(const void* results,
                                         int i) asm("_ZNK7testing19TestPartResultArray17GetTestPartResultEi");
// operator<<(std::ostream&, const TestPartResult&): "file:line: Non-fatal failure:\nthe message"
[[gnu::weak]] std::ostream* coir_gtest_print(std::ostream* out,
                                             const void* result) asm("_ZN7testinglsERSoRKNS_14TestPartResultE");
}
// NOLINTEND

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr int only_current_thread = 0;  // ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD

struct array_memory {
  void* words[16] = {};
};

bool available() noexcept {
  return coir_gtest_begin != nullptr && coir_gtest_end != nullptr && coir_gtest_size != nullptr &&
         coir_gtest_get != nullptr && coir_gtest_print != nullptr;
}

/// An empty one. They are kept, since the type's destructor cannot be called from here: one for each failed schedule.
void** new_array() {
  static thread_local std::deque<array_memory>& all = *new std::deque<array_memory>;
  return all.emplace_back().words;
}

bool is_failure(const std::string& text) { return text.find("ailure") != std::string::npos; }

std::string print(const void* result) {
  std::ostringstream out;
  coir_gtest_print(&out, result);
  std::string text = out.str();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

assertions::assertions() : results_(new_array()) {
  if (available()) coir_gtest_begin(reporter_, only_current_thread, results_);
}

assertions::~assertions() {
  if (available()) coir_gtest_end(reporter_);
}

// Successes and skips are reported, too.
bool assertions::has_failure() const noexcept {
  for (int i = 0; i < coir_gtest_size(results_); ++i)
    if (is_failure(print(coir_gtest_get(results_, i)))) return true;
  return false;
}

std::string assertions::text() const {
  std::string out;
  for (int i = 0; i < coir_gtest_size(results_); ++i) {
    const std::string one = print(coir_gtest_get(results_, i));
    if (!is_failure(one)) continue;
    if (!out.empty()) out += '\n';
    out += one;
  }
  return out;
}

void assertions::forget() {
  if (results_[0] == results_[1]) return;
  results_ = new_array();
  coir_gtest_end(reporter_);
  coir_gtest_begin(reporter_, only_current_thread, results_);
}

}  // namespace coir::detail
