#include "base/context_switch.hpp"

#if defined(__x86_64__) && !defined(COIR_ASAN)
// Pushes the address to continue at without a call, so that no prediction is pushed with it. jump_fcontext saves the
// rest.
asm(R"(
    .text
    .p2align 4
    .globl coir_jump_context
    .hidden coir_jump_context
    .type coir_jump_context, @function
coir_jump_context:
    .cfi_startproc
    leaq 1f(%rip), %rax
    pushq %rax
    .cfi_adjust_cfa_offset 8
    jmp jump_fcontext@PLT
    .cfi_adjust_cfa_offset -8
    .p2align 4
1:  ret
    .cfi_endproc
    .size coir_jump_context, .-coir_jump_context
)");
#endif
