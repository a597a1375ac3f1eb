// A fiber's name. Written by the fiber itself; the lock is for readers from outside (dump.cpp).
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/spin_lock.hpp>

#include "base/sanitizer.hpp"

namespace coir::inline COIR_ABI::detail {

class fiber_name {
 public:
  explicit operator bool() const noexcept { return text_ != nullptr; }

  // By the fiber itself; null: no name.
  void set(std::unique_ptr<std::string> text) noexcept {
    lock_.lock();
    {
      const tsan_section section(&lock_);
      text_.swap(text);
    }
    lock_.unlock();
  }

  std::unique_ptr<std::string> take() noexcept {
    lock_.lock();
    std::unique_ptr<std::string> text;
    {
      const tsan_section section(&lock_);
      text.swap(text_);
    }
    lock_.unlock();
    return text;
  }

  void drop() noexcept {
    if (text_ != nullptr) [[unlikely]]
      take();
  }

  /// By the fiber itself: empty if it has none.
  const char* text() const noexcept { return text_ != nullptr ? text_->c_str() : ""; }
  std::string get() const { return text_ != nullptr ? *text_ : std::string(); }

  /// Appends up to `most` characters. The caller keeps the control block alive.
  void copy_to(std::string& out, std::size_t most) {
    if (out.capacity() < out.size() + most) out.reserve(out.size() + most);  // not under the lock
    lock_.lock();
    if (text_ != nullptr) {
      const tsan_section section(&lock_);
      out.append(*text_, 0, most);
    }
    lock_.unlock();
  }

 private:
  friend struct debug_layout;

  spin_lock lock_;  // innermost
  std::unique_ptr<std::string> text_;
};

}  // namespace coir::detail
