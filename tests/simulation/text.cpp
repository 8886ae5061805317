#include "tests/simulation/text.h"

namespace triton::simulation {

namespace {

namespace event = launcher::event;
namespace action = launcher::action;

template <class T>
std::string number_of(T const& which) {
    return std::to_string(static_cast<std::uint32_t>(which.number));
}

template <class T>
std::string pid_of(T const& which) {
    return ", pid " + std::to_string(static_cast<pid_t>(which.pid));
}

std::string of(launcher::SpawnError const& error) {
    return "stage " + std::to_string(static_cast<int>(error.stage)) + " errno " + std::to_string(error.code);
}

std::string of(std::optional<Duration> restart_in) {
    return restart_in ? ", restart in " + text(*restart_in) : ", not wanted";
}

std::string of(event::ConfigurationAccepted const& e) { return "ConfigurationAccepted " + std::to_string(e.count); }
std::string of(event::Spawned const& e) { return "Spawned " + number_of(e) + pid_of(e); }
std::string of(event::SpawnFailed const& e) { return "SpawnFailed " + number_of(e) + ", " + of(e.error); }
std::string of(event::Exited const& e) {
    std::string const start = "Exited " + number_of(e) + ", status " + std::to_string(e.status);
    return e.error ? start + ", " + of(*e.error) : start;
}
std::string of(event::StopAsked const&) { return "StopAsked"; }
std::string of(event::SignalReceived const& e) { return "SignalReceived " + std::to_string(e.signo); }
std::string of(event::NoChildLeft const&) { return "NoChildLeft"; }
std::string of(event::TimePassed const&) { return "TimePassed"; }

char const* of(action::Why why) {
    switch (why) {
        case action::Why::stop: return " (stop)";
        case action::Why::kill: return " (kill)";
        case action::Why::forward: return " (forward)";
    }
    return "";
}

std::string of(action::Spawn const& a) { return "Spawn " + number_of(a); }
std::string of(action::Signal const& a) {
    return "Signal " + number_of(a) + pid_of(a) + ", " + std::to_string(a.signo) + of(a.why);
}
std::string of(action::Sweep const& a) { return "Sweep " + std::to_string(a.signo); }
std::string of(action::Finish const& a) { return "Finish " + std::to_string(a.exit_code); }
std::string of(action::ReportStarted const& a) { return "ReportStarted " + number_of(a) + pid_of(a); }
std::string of(action::ReportExited const& a) {
    return "ReportExited " + number_of(a) + pid_of(a) + ", status " + std::to_string(a.status) + ", run " +
           text(a.run) + of(a.restart_in);
}
std::string of(action::ReportStartFailed const& a) {
    return "ReportStartFailed " + number_of(a) + ", " + of(a.error) + of(a.restart_in);
}
std::string of(action::ReportLeft const& a) { return "ReportLeft " + number_of(a) + pid_of(a); }

}  // namespace

std::string text(launcher::Event const& event) {
    return std::visit([](auto const& which) { return of(which); }, event);
}

std::string text(launcher::Action const& action) {
    return std::visit([](auto const& which) { return of(which); }, action);
}

std::string text(launcher::Supervisor::State state) {
    using enum launcher::Supervisor::State;
    switch (state) {
        case down: return "down";
        case starting: return "starting";
        case up: return "up";
        case stopping: return "stopping";
        case killing: return "killing";
        case backoff: return "backoff";
    }
    return "?";
}

std::string text(launcher::Supervisor::Phase phase) {
    using enum launcher::Supervisor::Phase;
    switch (phase) {
        case running: return "running";
        case stopping: return "stopping";
        case sweeping: return "sweeping";
        case finished: return "finished";
    }
    return "?";
}

std::string text(Duration duration) {
    bool const negative = duration < Duration::zero();
    auto const count = static_cast<std::uint64_t>(negative ? -duration.count() : duration.count());
    std::string fraction = std::to_string(count % 1'000'000'000);
    fraction.insert(0, 9 - fraction.size(), '0');
    fraction.erase(fraction.find_last_not_of('0') + 1);
    std::string const whole = (negative ? "-" : "") + std::to_string(count / 1'000'000'000);
    return fraction.empty() ? whole + "s" : whole + "." + fraction + "s";
}

}  // namespace triton::simulation
