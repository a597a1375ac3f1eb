// io_handle owns a descriptor; streams, sockets and listeners are built on it. Not for users.
#pragma once

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/descriptor.hpp>
#include <coir/detail/system_calls.hpp>
#include <coir/net_error.hpp>

namespace coir::inline COIR_ABI::detail {

class io_handle {
 public:
  io_handle() noexcept = default;  ///< closed

  /// Takes over an open number in non-blocking mode. Throws std::system_error and std::bad_alloc; the number is closed
  /// then.
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

  /// May be called from any fiber or thread. False: it was closed already.
  bool close() noexcept { return descriptor_ != nullptr && descriptor_->close(generation_); }

  void set_limit(io_way way, deadline until) noexcept {
    if (descriptor_ != nullptr) descriptor_->set_limit(generation_, way, until);
  }

  /// A section in which the number is not given back to the kernel. It converts to false if the handle was closed
  /// before.
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

    /// To be called before a system call that others could see. In an exploration, throws std::logic_error if the
    /// descriptor was made outside of it.
    void decide(operation what) const {
      if constexpr (explorable) {
        if (!is_simulated(number())) refuse_in_exploration("a socket or pipe that was made outside");
        detail::decide(what, descriptor_);
      }
    }

    /// To be called when that system call would have blocked, and the caller does not wait.
    void decide_after_poll(operation what) const {
      if constexpr (explorable) detail::decide_after_poll(what, descriptor_);
    }

    /// Sleeps until another try may succeed (true), or sets `error` to closed or timed_out or the reason why the kernel
    /// cannot watch the descriptor. `tried`: see descriptor::wait(). Throws `cancelled`.
    bool wait(io_way way, std::uint32_t seen, const char* what, std::error_code& error, bool tried = true) const;

    descriptor* operator->() const noexcept { return descriptor_; }

   private:
    descriptor* descriptor_;
    descriptor::generation generation_;
  };

  /// Calls `call(number)`, one of system_calls, and waits and repeats it as long as it would block. Returns its result,
  /// or -1 with the error. Throws `cancelled`.
  template <class Call>
  system_calls::size perform(io_way way, const char* what, std::error_code& error, Call call) const {
    const use used(*this);
    if (!used) {
      error = net::errc::closed;
      return -1;
    }
    const operation what_it_is = way == io_way::read ? operation::input : operation::output;
    for (bool late = false;;) {
      used.decide(what_it_is);
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
      if (late) {
        used.decide_after_poll(what_it_is);
        return -1;
      }
      if (used.wait(way, seen, what, error)) continue;
      if (error != std::errc::timed_out) return -1;
      late = true;  // one more try: bytes may have come in time, and their event is not delivered yet
    }
  }

 private:
  descriptor* descriptor_ = nullptr;
  descriptor::generation generation_ = 0;
};

[[noreturn]] void throw_io_error(const std::error_code& error, const char* what);

}  // namespace coir::detail
