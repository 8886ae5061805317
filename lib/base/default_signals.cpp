#include "lib/base/default_signals.h"

#include <csignal>
#include <initializer_list>

namespace triton {

void take_default_signals() {
    sigset_t signals;
    ::sigemptyset(&signals);
    for (int const signal : {SIGCHLD, SIGALRM}) {
        std::signal(signal, SIG_DFL);
        ::sigaddset(&signals, signal);
    }
    ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace triton
