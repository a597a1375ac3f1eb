// Who owns a descriptor: what streams, sockets and listeners are made of. Not for users.
#pragma once

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include <coir/detail/descriptor.hpp>
#include <coir/detail/system_calls.hpp>
#include <coir/net_error.hpp>

namespace coir::detail {

class io_handle {
 public:
  io_handle() noexcept = default;  ///< closed

  /// Takes over an open number in non-blocking mode; closes it if it throws: std::system_error, std::bad_alloc.
  explicit io_handle(int fd);
  ~io_handle() { close(); }
  io_handle(io_handle&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, nullptr)), generation_(other.generation_) {}
  io_handle& operator=(io_handle&& other) noexcept {
    if (this != &other) {
      close();
      descriptor_ = std::exchange(other.descriptor_, nullptr);
      generation_ = other.generation_;
    }
    return *this;
  }

  bool is_open() const noexcept { return descriptor_ != nullptr && descriptor_->is_open(generation_); }

  /// -1: closed.
  int number() const noexcept { return is_open() ? descriptor_->number() : -1; }

  /// From any fiber or thread; again is nothing.
  void close() noexcept {
    if (descriptor_ != nullptr) descriptor_->close(generation_);
  }

  void set_limit(io_way way, deadline until) noexcept {
    if (descriptor_ != nullptr) descriptor_->set_limit(generation_, way, until);
  }

  /// While one lives, the number stays what it is, unless it is closed already (false).
  class use {
   public:
    explicit use(const io_handle& of) noexcept
        : descriptor_(of.descriptor_ != nullptr && of.descriptor_->begin(of.generation_) ? of.descriptor_ : nullptr),
          generation_(of.generation_) {}
    ~use() {
      if (descriptor_ != nullptr) descriptor_->end(generation_);
    }
    use(const use&) = delete;
    use& operator=(const use&) = delete;

    explicit operator bool() const noexcept { return descriptor_ != nullptr; }
    int number() const noexcept { return descriptor_->number(); }
    descriptor::generation of() const noexcept { return generation_; }

    /// Sleeps until it may be worth another try; else says in `error` why there is none. Throws `cancelled`.
    bool wait(io_way way, std::uint32_t seen, const char* what, std::error_code& error) const;

    descriptor* operator->() const noexcept { return descriptor_; }

   private:
    descriptor* descriptor_;
    descriptor::generation generation_;
  };

  /// Calls `call(number)`, one of system_calls, until it says something else than that it would block. Returns what it
  /// returns, or -1 and the error. Throws `cancelled`.
  template <class Call>
  system_calls::size perform(io_way way, const char* what, std::error_code& error, Call call) const {
    const use used(*this);
    if (!used) {
      error = net::errc::closed;
      return -1;
    }
    for (;;) {
      const std::uint32_t seen = used->edges(way);
      const system_calls::size n = call(used.number());
      if (n >= 0) [[likely]] {
        error.clear();
        return n;
      }
      if (n == -EINTR) continue;
      if (n != -EAGAIN) {
        error.assign(static_cast<int>(-n), std::system_category());
        return -1;
      }
      if (!used.wait(way, seen, what, error)) return -1;
    }
  }

 private:
  descriptor* descriptor_ = nullptr;
  descriptor::generation generation_ = 0;
};

[[noreturn]] void throw_io_error(const std::error_code& error, const char* what);

}  // namespace coir::detail
