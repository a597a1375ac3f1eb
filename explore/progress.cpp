#include "progress.hpp"

#include <cstdio>

#include <unistd.h>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

progress::progress(source_location at) : at_(at), on_terminal_(::isatty(STDERR_FILENO) == 1) {}

progress::~progress() {
  if (anything_shown_) std::fputs("\r\033[K", stderr);
}

void progress::show(std::uint64_t run, std::uint64_t all, double covered) {
  using namespace std::chrono_literals;
  const auto now = steady_clock::now();
  if (now - shown_ < 1s) return;
  shown_ = now;
  anything_shown_ = true;
  const double seconds = std::chrono::duration<double>(now - begun_).count();
  std::fprintf(stderr, "\r\033[Kexploring at %s:%u: %llu of %llu schedules, %.0f a second, no failure", at_.file_name(),
               at_.line(), static_cast<unsigned long long>(run), static_cast<unsigned long long>(all),
               static_cast<double>(run) / seconds);
  if (covered >= 0) std::fprintf(stderr, ", about %.2f %% covered", covered * 100);
  std::fflush(stderr);
}

}  // namespace coir::detail
