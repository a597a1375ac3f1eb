#include "sched/stack_bottom.hpp"

#include <cstdint>
#include <cstdio>
#include <exception>

#include <cxxabi.h>
#include <unwind.h>

#include <coir/detail/abi.hpp>

#include "base/backtrace.hpp"
#include "base/report.hpp"
#include "sched/worker.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

void report(const fiber& self, const char* what) noexcept {
  std::fprintf(stderr, "coir: an exception left a fiber: %s\ncoir: in %s\n", what, describe(self).c_str());
  std::fflush(stderr);
}

constexpr const char* not_cplusplus = "one that is not of C++";

void report_current_exception(const fiber& self) noexcept {
  const std::exception_ptr error = std::current_exception();
  report(self, error ? describe(error).c_str() : not_cplusplus);
}

}  // namespace

void die_of_exception(const fiber& self) noexcept {
  report_current_exception(self);
  std::terminate();
}

#if defined(COIR_REPORTS_BEFORE_UNWINDING)

// 0x1b: the address of the personality routine is relative, and takes four bytes.
asm(R"(
    .text
    .p2align 4
    .globl coir_stack_bottom
    .hidden coir_stack_bottom
    .type coir_stack_bottom, @function
coir_stack_bottom:
    .cfi_startproc
    .cfi_personality 0x1b, coir_search_ended
    .cfi_undefined rip
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call coir_stack_entry
    ud2
    .cfi_endproc
    .size coir_stack_bottom, .-coir_stack_bottom
)");

/// The personality routine of the frame above (Itanium C++ ABI, 1.6). It is called on top of the frames that have
/// thrown.
extern "C" [[gnu::visibility("hidden"), gnu::used]] _Unwind_Reason_Code coir_search_ended(int, _Unwind_Action actions,
                                                                                          std::uint64_t exception_class,
                                                                                          _Unwind_Exception* exception,
                                                                                          _Unwind_Context*) noexcept {
  const fiber& self = *current_fiber();
  constexpr std::uint64_t language = 0xffff'ff00;
  constexpr std::uint64_t cplusplus = 0x432b'2b00;  // "C++", and a byte that tells primary and dependent exceptions
  if ((static_cast<int>(actions) & static_cast<int>(_UA_FORCE_UNWIND)) != 0) {
    report(self, "its thread was told to end, by pthread_exit() or pthread_cancel()");
    std::terminate();
  }
  if ((exception_class & language) == cplusplus) {
    abi::__cxa_begin_catch(exception);  // as for a thread's function
    report_current_exception(self);
  } else {
    report(self, not_cplusplus);
  }
  std::fprintf(stderr, "coir: thrown in\n");
  std::fflush(stderr);
  prepare_backtrace();
  write_backtrace();
  std::terminate();
}

#endif

}  // namespace coir::detail
