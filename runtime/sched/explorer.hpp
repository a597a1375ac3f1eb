// What the scheduler asks in an exploration, where one thread runs one fiber at a time and the explorer chooses the
// next one. explore/engine.hpp implements this interface. In the ordinary library no class does, and explored_by() is
// null at compile time, so these calls leave no code.
//
// The exploring thread makes all calls. The bracket of its worker is open where it holds a processor.
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
  /// r can run from now on.
  virtual void can_run(runnable& r) noexcept = 0;

  /// Takes out the runnable that runs next, because the running fiber stops. Null: the native stack decides.
  virtual runnable* pick() noexcept = 0;

  /// The running fiber is about to perform `what`, with nothing locked. Others may go first.
  virtual void decide(fiber& self, worker& w, operation what, const void* on, bool polled) = 0;

  /// Chooses one of n things that may happen next. Called with locks held.
  virtual std::uint32_t choose(operation what, std::uint32_t n) noexcept = 0;

  /// An exception has left a fiber's function.
  virtual void failed(const std::exception_ptr& error) noexcept = 0;

  /// Whether the schedule is over. What is left then unwinds: it is cancelled where it begins or blocks.
  virtual bool ending() const noexcept = 0;

  /// The last owner of a socket of the simulated network has closed it (descriptor.hpp).
  virtual void close_socket(int number) noexcept = 0;

  /// A stack has lost its fiber. True: it is kept until the schedule is over.
  virtual bool keeps_stack(fiber& of) noexcept = 0;

 protected:
  ~explorer() = default;
};

}  // namespace coir::detail
