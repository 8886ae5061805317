#include "launcher/wrap/early.h"

#include <csignal>

#include "lib/process/raw_syscall.h"

namespace triton::launcher {

Early early;

}  // namespace triton::launcher

#if defined(__x86_64__) && defined(TRITON_EARLY_ENTRY)

/// The program's entry point calls this with the kernel's initial stack (System V ABI, AMD64 supplement, 3.4.1) before
/// libc has started. The wrap mode runs here and exits. In all other modes this returns, and libc starts as usual.
extern "C" __attribute__((used, visibility("hidden"))) void triton_early(long* stack) {
    using namespace triton;
    using namespace triton::launcher;
    auto const argc = static_cast<int>(stack[0]);
    auto** const argv = reinterpret_cast<char**>(stack + 1);
    char** const envp = argv + argc + 1;
    WrapOptions& options = early.options;
    bool const is_wrap = parse_wrap(argc, argv, envp, options).result == WrapParse::wrap;
    bool const wants_libc = options.verbosity || options.warn_on_reap || options.stop_timeout_text;
    if (!is_wrap || wants_libc) {
        process::raw::SignalSet const everything = ~0UL;
        early.has_blocked_signals =
            process::raw::call(SYS_getpid) == 1 &&
            process::raw::call(SYS_rt_sigprocmask, SIG_SETMASK, process::raw::address(&everything),
                               process::raw::address(&early.signal_mask), sizeof everything) == 0;
        return;
    }
    early.outcome = run_wrap(options, argv, envp, nullptr);
    if (early.outcome.stage == WrapStage::none) process::raw::exit(early.outcome.code);
    early.wrap_failed = true;
}

// The kernel leaves a function for atexit(3) in rdx; in a static program there is none.
asm(R"(
    .globl triton_entry
    .type triton_entry, @function
triton_entry:
    endbr64
    xor %ebp, %ebp
    mov %rsp, %rbx
    mov %rsp, %rdi
    and $-16, %rsp
    call triton_early
    mov %rbx, %rsp
    xor %ebx, %ebx
    xor %edx, %edx
    jmp _start
    .size triton_entry, .-triton_entry
)");

#endif
