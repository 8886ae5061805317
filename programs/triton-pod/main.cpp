#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "host/cri/monitor/first_process.h"
#include "host/cri/monitor/monitor.h"
#include "lib/base/default_signals.h"
#include "lib/base/pipe.h"
#include "lib/base/write_all.h"

namespace triton::program {

namespace {

constexpr int listener_number = 3;  // tritoncrid gives it, and closes everything else

int say(std::string const& text) {
    (void)write_all(STDERR_FILENO, "triton-pod: " + text + "\n");  // nobody to tell
    return 1;
}

/// The child's side of the start. `ready` learns that it is one, or why not.
int be_monitor(cri::monitor::MonitorSettings const& settings, UniqueFd ready) {
    UniqueFd listener{listener_number};
    // Whoever has started us reads our output to its end.
    if (UniqueFd const null{::open("/dev/null", O_RDWR | O_CLOEXEC)})
        for (int const fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
            ::dup2(null.get(), fd);
    auto const become = cri::monitor::become_monitor(settings);
    auto monitor = become ? cri::monitor::Monitor::create(std::move(listener), settings.state, *become)
                          : std::unexpected(become.error());
    if (!monitor) {
        (void)write_all(ready.get(), monitor.error().text());
        return 1;
    }
    (void)write_all(ready.get(), "\n");
    ready = {};
    (*monitor)->run();
    return 0;
}

/// triton-pod STATE IPC PID HOSTNAME USERS, where IPC and PID are empty or not, USERS is a text of user_mapping.h, and
/// descriptor 3 is its listening socket. Returns when the monitor is there: it is nobody's child then, and lives on
/// without the daemon.
int run(int count, char** arguments) {
    if (count == 2 && std::string_view(arguments[1]) == cri::monitor::first_process_word)
        cri::monitor::be_first_process();
    if (count != 6) return say("usage: triton-pod STATE IPC PID HOSTNAME USERS (it is started by tritoncrid)");
    auto const users = cri::monitor::parse_mapping(arguments[5]);
    if (!users) return say(users.error().text());
    ::close_range(listener_number + 1, ~0U, 0);
    auto pipe = make_pipe();
    if (!pipe) return say(pipe.error().text());
    pid_t const child = ::fork();
    if (child < 0) return say("cannot start a process");
    if (child == 0) {
        pipe->reader = {};
        return be_monitor({.state = arguments[1],
                           .has_ipc = *arguments[2] != '\0',
                           .hostname = arguments[4],
                           .has_pid = *arguments[3] != '\0',
                           .users = *users},
                          std::move(pipe->writer));
    }
    pipe->writer = {};
    std::string told;
    char byte = 0;
    while (::read(pipe->reader.get(), &byte, 1) == 1)
        told += byte;
    return told == "\n" ? 0 : say(told.empty() ? "the monitor has ended" : told);
}

}  // namespace

}  // namespace triton::program

int main(int argc, char** argv) {
    triton::take_default_signals();
    return triton::program::run(argc, argv);
}
