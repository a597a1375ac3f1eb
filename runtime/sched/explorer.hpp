// What the scheduler asks in an exploration, where one thread runs one fiber at a time and the next one is somebody's
// choice: the interface of explore/engine.hpp. In the ordinary library nobody implements it, explored_by() is null at
// compile time, and so no code is left of these calls.
//
// All by the exploring thread, with the bracket of its worker open where a processor is held.
#pragma once

#include <cstdint>
#include <exception>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>

namespace coir::inline COIR_ABI::detail {

struct fiber;
struct runnable;
class worker;

class explorer {
 public:
  /// It can run from now on.
  virtual void can_run(runnable& r) noexcept = 0;

  /// Takes out the one that goes on, now that the running fiber does not; null: the native stack is to see to it.
  virtual runnable* pick() noexcept = 0;

  /// The running fiber, with nothing locked, is about to do that; others may go first.
  virtual void decide(fiber& self, worker& w, operation what, const void* on, bool polled) = 0;

  /// Of n things that may happen next, one; with locks held.
  virtual std::uint32_t choose(operation what, std::uint32_t n) noexcept = 0;

  /// An exception has left a fiber's function.
  virtual void failed(const std::exception_ptr& error) noexcept = 0;

  /// The schedule is over: what is left unwinds, and is cancelled where it begins or blocks.
  virtual bool ending() const noexcept = 0;

  /// A stack has lost its fiber. True: it is kept until the schedule is over.
  virtual bool keeps_stack(fiber& of) noexcept = 0;

 protected:
  ~explorer() = default;
};

}  // namespace coir::detail
