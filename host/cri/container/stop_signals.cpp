#include "host/cri/container/stop_signals.h"

#include <csignal>
#include <string_view>

#include "host/cri/wire/messages.h"
#include "lib/base/signal_names.h"

namespace triton::cri {

int number_of_signal(int value) {
    if (!v1::Signal_IsValid(value) || value == v1::SIGNAL_RUNTIME_DEFAULT) return 0;
    // The lite library has no names of enumerators: the order is that of the names.
    static constexpr std::string_view names[] = {
        "ABRT", "ALRM", "BUS",  "CHLD", "CHLD", "CONT", "FPE",    "HUP",    "ILL",  "INT", "IO",   "IOT",
        "KILL", "PIPE", "POLL", "PROF", "PWR",  "QUIT", "SEGV",   "STKFLT", "STOP", "SYS", "TERM", "TRAP",
        "TSTP", "TTIN", "TTOU", "URG",  "USR1", "USR2", "VTALRM", "WINCH",  "XCPU", "XFSZ"};
    constexpr int first_of_time = 35;  // SIGRTMIN
    constexpr int last_from_min = 50;  // SIGRTMIN+15
    if (value >= first_of_time) return value <= last_from_min ? rtmin + value - first_of_time : rtmax - (65 - value);
    std::string_view const name = names[value - 1];
    return parse_signal(name.data(), name.data() + name.size());
}

int value_of_signal(int number) {
    for (int value = 1; value <= v1::Signal_MAX; ++value)
        if (number_of_signal(value) == number) return value;
    return 0;
}

int stop_signal_of(int requested, std::string const& of_image) {
    if (int const number = number_of_signal(requested); number > 0) return number;
    int const number = of_image.empty() ? -1 : parse_signal(of_image.data(), of_image.data() + of_image.size());
    return number > 0 ? number : SIGTERM;
}

}  // namespace triton::cri
