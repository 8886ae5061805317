#include "launcher/control/control_wait.h"

#include <utility>

namespace triton::launcher {

namespace {

using enum ProcessState;

bool is_one_of(ProcessState state, std::initializer_list<ProcessState> states) {
    for (ProcessState const one : states) {
        if (state == one) return true;
    }
    return false;
}

/// Judges a command to start. One failure is enough, although backoff would try again; a held process has got a command
/// to the contrary.
WaitAnswer judge_start(ProcessStatus const& process, std::uint32_t starts_before, bool needs_new_start) {
    bool const is_new = process.starts > starts_before;
    if (is_one_of(process.state, {up, done}))
        return is_new || !needs_new_start ? WaitAnswer::reached : WaitAnswer::not_yet;
    if (process.state == backoff && is_new) return WaitAnswer::never;
    return is_one_of(process.state, {failed, held}) ? WaitAnswer::never : WaitAnswer::not_yet;
}

}  // namespace

WaitAnswer judge(WaitFor what, ProcessStatus const& process, std::uint32_t starts_before) {
    auto const either = [&process](std::initializer_list<ProcessState> good, std::initializer_list<ProcessState> bad) {
        if (is_one_of(process.state, good)) return WaitAnswer::reached;
        return is_one_of(process.state, bad) ? WaitAnswer::never : WaitAnswer::not_yet;
    };
    bool const is_to_end = is_one_of(process.state, {draining, pre_stop, stopping, killing});
    if (process.is_beyond_reach && is_to_end) return WaitAnswer::never;
    switch (what) {
        case WaitFor::ready:
            if (process.is_unwell) return WaitAnswer::not_yet;
            return either({up, done}, {failed});
        case WaitFor::up: return either({activating, up}, {done, failed});
        case WaitFor::down: return either({down, waiting, done, failed, held}, {});
        case WaitFor::done: return either({done}, {failed});
        case WaitFor::started: return judge_start(process, starts_before, false);
        case WaitFor::restarted: return judge_start(process, starts_before, true);
        case WaitFor::stopped: return either({down, done, failed, held}, {});
    }
    std::unreachable();
}

}  // namespace triton::launcher
