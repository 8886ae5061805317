#include "host/systemd/signals.h"

#include <cstdlib>
#include <string>

#include <systemd/sd-bus.h>

namespace triton::systemd {

namespace {

constexpr char unit_directory[] = "/org/freedesktop/systemd1/unit";
constexpr std::uint64_t call_limit_usec = 30'000'000;
constexpr std::string_view systemd_name = "org.freedesktop.systemd1";

std::unexpected<Error> failure(int result, std::string what) {
    return fail(ErrorKind::unavailable, what, errno_text(-result));
}

}  // namespace

struct Signals::State {
    sd_bus* bus = nullptr;
    Tell const* tell = nullptr;  // of the take() that is running
    bool has_lost_systemd = false;

    State() = default;
    State(State const&) = delete;
    State& operator=(State const&) = delete;
    ~State() { sd_bus_close_unref(bus); }

    void say(About about, std::string_view name) const {
        if (tell) (*tell)(about, name);
    }

    // Callbacks of sd-bus. A message of an unexpected form is ignored.

    static int on_properties(sd_bus_message* message, void* data, sd_bus_error*) {
        char* unit = nullptr;
        if (sd_bus_path_decode(sd_bus_message_get_path(message), unit_directory, &unit) <= 0) return 0;
        std::unique_ptr<char, decltype(&std::free)> const owner(unit, std::free);
        static_cast<State*>(data)->say(About::unit, unit);
        return 0;
    }
    static int on_unit_removed(sd_bus_message* message, void* data, sd_bus_error*) {
        char const* unit = nullptr;
        if (sd_bus_message_read(message, "s", &unit) > 0) static_cast<State*>(data)->say(About::unit, unit);
        return 0;
    }
    static int on_job_removed(sd_bus_message* message, void* data, sd_bus_error*) {
        std::uint32_t id = 0;
        char const *job = nullptr, *unit = nullptr;
        if (sd_bus_message_read(message, "uos", &id, &job, &unit) > 0)
            static_cast<State*>(data)->say(About::unit, unit);
        return 0;
    }
    static int on_machine(sd_bus_message* message, void* data, sd_bus_error*) {
        char const* machine = nullptr;
        if (sd_bus_message_read(message, "s", &machine) > 0) static_cast<State*>(data)->say(About::machine, machine);
        return 0;
    }
    static int on_owner(sd_bus_message* message, void* data, sd_bus_error*) {
        char const *name = nullptr, *before = nullptr, *now = nullptr;
        if (sd_bus_message_read(message, "sss", &name, &before, &now) <= 0) return 0;
        auto& state = *static_cast<State*>(data);
        if (name == systemd_name)
            state.has_lost_systemd = true;  // the new systemd does not know that we have subscribed
        else if (!std::string_view(now).empty())
            state.say(About::machined, name);
        return 0;
    }

    struct Match {
        char const* rule;
        sd_bus_message_handler_t handler;
    };
    /// UnitNew is left out: it also comes for a unit that is only looked at, which would be looked at again for ever.
    static constexpr Match matches[] = {
        {"type='signal',sender='org.freedesktop.systemd1',interface='org.freedesktop.DBus.Properties',"
         "member='PropertiesChanged',path_namespace='/org/freedesktop/systemd1/unit',"
         "arg0='org.freedesktop.systemd1.Unit'",
         on_properties},
        {"type='signal',sender='org.freedesktop.systemd1',path='/org/freedesktop/systemd1',"
         "interface='org.freedesktop.systemd1.Manager',member='UnitRemoved'",
         on_unit_removed},
        {"type='signal',sender='org.freedesktop.systemd1',path='/org/freedesktop/systemd1',"
         "interface='org.freedesktop.systemd1.Manager',member='JobRemoved'",
         on_job_removed},
        {"type='signal',sender='org.freedesktop.machine1',path='/org/freedesktop/machine1',"
         "interface='org.freedesktop.machine1.Manager',member='MachineNew'",
         on_machine},
        {"type='signal',sender='org.freedesktop.machine1',path='/org/freedesktop/machine1',"
         "interface='org.freedesktop.machine1.Manager',member='MachineRemoved'",
         on_machine},
        {"type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',member='NameOwnerChanged',"
         "arg0='org.freedesktop.systemd1'",
         on_owner},
        {"type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',member='NameOwnerChanged',"
         "arg0='org.freedesktop.machine1'",
         on_owner},
    };
};

Signals::Signals(std::unique_ptr<State> state) : state_(std::move(state)) {}
Signals::Signals(Signals&& other) noexcept = default;
Signals::~Signals() = default;

Result<Signals> Signals::connect() {
    auto state = std::make_unique<State>();
    int result = sd_bus_open_system(&state->bus);
    if (result < 0) return failure(result, "connect to the system's bus");
    sd_bus_set_method_call_timeout(state->bus, call_limit_usec);
    for (State::Match const& match : State::matches) {
        result = sd_bus_add_match(state->bus, nullptr, match.rule, match.handler, state.get());
        if (result < 0) return failure(result, "listen to the system's bus");
    }
    result = sd_bus_call_method(state->bus, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                                "org.freedesktop.systemd1.Manager", "Subscribe", nullptr, nullptr, "");
    if (result < 0) return failure(result, "subscribe to systemd");
    return Signals(std::move(state));
}

int Signals::fd() const { return sd_bus_get_fd(state_->bus); }

Result<bool> Signals::take(Tell const& tell, int most) {
    state_->tell = &tell;
    int handled = 1;
    for (int i = 0; i < most && handled > 0; ++i)
        handled = sd_bus_process(state_->bus, nullptr);
    state_->tell = nullptr;
    if (handled < 0) return failure(handled, "listen to the system's bus");
    if (sd_bus_is_open(state_->bus) <= 0) return failure(-ENOTCONN, "listen to the system's bus");
    if (state_->has_lost_systemd) return failure(-ECONNRESET, "listen to systemd");
    return handled > 0;
}

}  // namespace triton::systemd
