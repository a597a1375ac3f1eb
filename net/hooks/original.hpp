// The C library's functions, behind those of the same names that this library puts before them.
//
// They are looked up when the library is loaded, since some may be called in a signal handler, where the dynamic
// linker's lock must not be taken. A function that is called earlier is looked up then.
#pragma once

#include <atomic>

#include <dlfcn.h>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::hooks {

template <class Signature>
class original;

template <class R, class... Parameters>
class original<R(Parameters...)> {
  using function = R (*)(Parameters...);

 public:
  explicit constexpr original(const char* name) noexcept : name_(name) {}

  // Not noexcept: a thread may be cancelled inside the call (pthread_cancel), which unwinds its stack.
  R operator()(Parameters... p) {
    const function f = known_.load(std::memory_order_relaxed);
    return (f != nullptr ? f : find())(p...);
  }

  function find() noexcept {
    const auto f = reinterpret_cast<function>(::dlsym(RTLD_NEXT, name_));  // behind this library, that is
    known_.store(f, std::memory_order_relaxed);
    return f;
  }

 private:
  const char* name_;
  std::atomic<function> known_{nullptr};
};

}  // namespace coir::hooks
