#pragma once

#include <cstddef>

#if defined(__x86_64__)
#include <cstdint>
#else
#include <ucontext.h>
#endif

namespace endcap::emulation {

// Where a fiber stands while it does not run.
struct Context {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
};

#if defined(__x86_64__)

// ucontext's own switch calls the kernel for the signal mask each time. The System V ABI asks to
// keep rbx, rbp and r12 to r15; all else is the caller's.
extern "C" void EndcapSwitchStack(void** save, void* load);
asm(R"(
.text
.type EndcapSwitchStack, @function
EndcapSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size EndcapSwitchStack, .-EndcapSwitchStack
)");

inline void SwitchContext(Context& from, Context& to) {
  EndcapSwitchStack(&from.stack_pointer, to.stack_pointer);
}

inline void MakeContext(Context& context, char* stack, size_t bytes, void (*main)()) {
  auto top = reinterpret_cast<uintptr_t>(stack + bytes) & ~uintptr_t{15};
  auto* frame = reinterpret_cast<void**>(top);
  *--frame = nullptr;  // where `main` would return to; also aligns the stack as after a call
  *--frame = reinterpret_cast<void*>(main);
  for (int i = 0; i < 6; ++i) *--frame = nullptr;
  context.stack_pointer = frame;
}

#else

inline void SwitchContext(Context& from, Context& to) { swapcontext(&from.context, &to.context); }

inline void MakeContext(Context& context, char* stack, size_t bytes, void (*main)()) {
  getcontext(&context.context);
  context.context.uc_stack = {stack, 0, bytes};
  context.context.uc_link = nullptr;
  makecontext(&context.context, main, 0);
}

#endif

}  // namespace endcap::emulation
