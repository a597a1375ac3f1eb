// A thread of the operating system, for the threads that the runtime starts while it works. Starting one calls no
// operator new (internal_memory.hpp), and a failure throws nothing.
#pragma once

#include <pthread.h>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

class native_thread {
 public:
  using body = void* (*)(void* arg);

  native_thread() noexcept = default;
  native_thread(const native_thread&) = delete;
  native_thread& operator=(const native_thread&) = delete;

  /// Starts it, if it is not joinable. Returns 0, or the error.
  int start(body f, void* arg) noexcept {
    const int error = ::pthread_create(&id_, nullptr, f, arg);
    joinable_ = error == 0;
    return error;
  }

  bool joinable() const noexcept { return joinable_; }

  void join() noexcept {
    ::pthread_join(id_, nullptr);
    joinable_ = false;
  }

  /// Joins it if it has ended; true also if there is none.
  bool join_if_ended() noexcept {
    if (joinable_ && ::pthread_tryjoin_np(id_, nullptr) == 0) joinable_ = false;
    return !joinable_;
  }

  void detach() noexcept {
    ::pthread_detach(id_);
    joinable_ = false;
  }

 private:
  pthread_t id_{};
  bool joinable_ = false;
};

}  // namespace coir::detail
