// Functions that wait in the middle, each on a stack of its own: how the lanes of an emulated device take turns on one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define FIBRE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBRE_ASAN 1
#endif
#endif
#if !defined(FIBRE_ASAN)
#define FIBRE_ASAN 0
#endif
#if FIBRE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// Switches the callee-saved registers and the stack, ten times faster than swapcontext, which calls the kernel. It is
// assembly outside of any function, so that no compiler draws conclusions on the other registers from its body; and
// weak, since several files of a program may include this header.
asm(R"(
    .text
    .weak fibre_change_stack
    .type fibre_change_stack, @function
fibre_change_stack:
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
    .size fibre_change_stack, .-fibre_change_stack
)");
extern "C" void fibre_change_stack(void** from, void* to);
#else
#include <ucontext.h>
#endif

/// A stack and the place where its function waits.
class fibre {
public:
    void begin(std::byte* stack, std::size_t size, void (*entry)()) {
        bottom_ = stack;
        size_ = size;
#if FIBRE_ASAN
        __asan_unpoison_memory_region(stack, size);
        fake_ = nullptr;
#endif
#if defined(__x86_64__)
        auto const top = reinterpret_cast<std::uintptr_t>(stack + size) & ~std::uintptr_t{63};
        auto* const frame = reinterpret_cast<void**>(top) - 2;  // as after a call: 8 past a multiple of 16
        frame[0] = reinterpret_cast<void*>(entry);
        frame[1] = nullptr;
        place_ = frame - 6;
#else
        getcontext(&place_);
        place_.uc_stack.ss_sp = stack;
        place_.uc_stack.ss_size = size;
        place_.uc_link = nullptr;
        makecontext(&place_, entry, 0);
#endif
    }

    /// Switches from this fibre to another one; returns when some fibre switches back.
    void go_to(fibre& to, [[maybe_unused]] bool for_good = false) {
#if FIBRE_ASAN
        left_ = this;
        __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_, to.bottom_, to.size_);
#endif
#if defined(__x86_64__)
        fibre_change_stack(&place_, to.place_);
#else
        swapcontext(&place_, &to.place_);
#endif
        arrived(fake_);
    }

    /// The first thing that a new fibre does.
    static void arrived([[maybe_unused]] void* fake = nullptr) {
#if FIBRE_ASAN
        void const* bottom = nullptr;
        std::size_t size = 0;
        __sanitizer_finish_switch_fiber(fake, &bottom, &size);
        left_->bottom_ = static_cast<std::byte const*>(bottom);
        left_->size_ = size;
#endif
    }

private:
#if defined(__x86_64__)
    void* place_ = nullptr;
#else
    ucontext_t place_{};
#endif
    void* fake_ = nullptr;
    std::byte const* bottom_ = nullptr;
    std::size_t size_ = 0;
#if FIBRE_ASAN
    inline static thread_local fibre* left_ = nullptr;
#endif
};
