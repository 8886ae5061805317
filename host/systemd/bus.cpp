#include "host/systemd/bus.h"

#include <array>
#include <csignal>
#include <cstring>
#include <string_view>

#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>

namespace triton::systemd {

namespace {

constexpr char manager_name[] = "org.freedesktop.systemd1";
constexpr char manager_path[] = "/org/freedesktop/systemd1";
constexpr char manager_interface[] = "org.freedesktop.systemd1.Manager";
constexpr char unit_interface[] = "org.freedesktop.systemd1.Unit";
constexpr char service_interface[] = "org.freedesktop.systemd1.Service";
constexpr char machined_name[] = "org.freedesktop.machine1";
constexpr char machined_path[] = "/org/freedesktop/machine1";
constexpr char machined_interface[] = "org.freedesktop.machine1.Manager";
constexpr char machine_interface[] = "org.freedesktop.machine1.Machine";
constexpr std::chrono::milliseconds check_pause{250};

/// The kind of an error. Source: sd-bus-errors(3), and systemd's bus-common-errors.h.
ErrorKind kind_of(char const* name, int err) {
    struct Row {
        std::string_view name;
        ErrorKind kind;
    };
    static constexpr Row rows[] = {
        {"org.freedesktop.systemd1.NoSuchUnit", ErrorKind::not_found},
        {"org.freedesktop.machine1.NoSuchMachine", ErrorKind::not_found},
        {SD_BUS_ERROR_SERVICE_UNKNOWN, ErrorKind::unavailable},
        {SD_BUS_ERROR_NAME_HAS_NO_OWNER, ErrorKind::unavailable},
        {SD_BUS_ERROR_DISCONNECTED, ErrorKind::unavailable},
        {SD_BUS_ERROR_NO_REPLY, ErrorKind::timeout},
        {SD_BUS_ERROR_TIMEOUT, ErrorKind::timeout},
        {SD_BUS_ERROR_ACCESS_DENIED, ErrorKind::denied},
        {SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED, ErrorKind::denied},
        {SD_BUS_ERROR_INVALID_ARGS, ErrorKind::invalid},
    };
    for (Row const& row : rows)
        if (name && row.name == name) return row.kind;
    if (err == ENOTCONN || err == ECONNRESET || err == ENOENT || err == ECONNREFUSED) return ErrorKind::unavailable;
    return kind_of_errno(err);
}

/// An error of sd-bus; the destructor frees its content.
class BusError {
public:
    BusError() = default;
    BusError(BusError const&) = delete;
    BusError& operator=(BusError const&) = delete;
    ~BusError() { sd_bus_error_free(&error_); }
    sd_bus_error* get() { return &error_; }
    std::unexpected<Error> failure(int result, std::string what) const {
        int const err = result < 0 ? -result : EIO;
        std::string reason = error_.message ? error_.message : errno_text(err);
        return fail(kind_of(error_.name, err), what, std::move(reason));
    }

private:
    sd_bus_error error_ = SD_BUS_ERROR_NULL;
};

struct FreeMessage {
    void operator()(sd_bus_message* message) const { sd_bus_message_unref(message); }
};
using Message = std::unique_ptr<sd_bus_message, FreeMessage>;
struct FreeSlot {
    void operator()(sd_bus_slot* slot) const { sd_bus_slot_unref(slot); }
};
using Slot = std::unique_ptr<sd_bus_slot, FreeSlot>;

Result<std::string> path_of(std::string const& unit) {
    char* path = nullptr;
    int const result = sd_bus_path_encode("/org/freedesktop/systemd1/unit", unit.c_str(), &path);
    if (result < 0) return fail(-result, "name the unit " + unit);
    std::unique_ptr<char, decltype(&std::free)> const owner(path, std::free);
    return std::string(path);
}

std::chrono::milliseconds left_until(TimePoint deadline) {
    return std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
}

/// A job that is not over. The unit goes on.
std::unexpected<Error> too_late(std::string const& what, std::chrono::milliseconds limit) {
    return fail(ErrorKind::timeout, what, "it takes longer than " + std::to_string(limit.count() / 1000) + " s");
}

/// The end of a job, as reported by the signal JobRemoved.
struct JobEnd {
    std::string job;                                         // the job to wait for; empty: not known yet
    std::string result;                                      // "done", "failed" ..; empty: it has not ended yet
    std::vector<std::pair<std::string, std::string>> ended;  // jobs that ended before ours was known
};

int on_job_removed(sd_bus_message* message, void* data, sd_bus_error*) {
    auto& end = *static_cast<JobEnd*>(data);
    std::uint32_t id = 0;
    char const *job = nullptr, *unit = nullptr, *result = nullptr;
    if (sd_bus_message_read(message, "uoss", &id, &job, &unit, &result) < 0) return 0;
    if (end.job.empty())
        end.ended.emplace_back(job, result);
    else if (end.job == job)
        end.result = result;
    return 0;
}

int ignore(sd_bus_message*, void*, sd_bus_error*) { return 0; }

bool is_down(std::string_view active_state) { return active_state == "inactive" || active_state == "failed"; }

constexpr std::string_view start_limit_hit = "start-limit-hit";
constexpr std::string_view assertion_failed = "assert";

}  // namespace

struct Bus::State {
    sd_bus* bus = nullptr;
    bool is_subscribed = false;

    State() = default;
    State(State const&) = delete;
    State& operator=(State const&) = delete;
    ~State() { sd_bus_flush_close_unref(bus); }

    /// Makes a call whose reply has no content.
    template <class... Arguments>
    Result<> call(std::string const& what, char const* name, char const* path, char const* interface,
                  char const* method, char const* types, Arguments... arguments) {
        (void)TRY(ask(what, name, path, interface, method, types, arguments...));
        return {};
    }
    template <class... Arguments>
    Result<Message> ask(std::string const& what, char const* name, char const* path, char const* interface,
                        char const* method, char const* types, Arguments... arguments) {
        BusError error;
        sd_bus_message* reply = nullptr;
        int const result =
            sd_bus_call_method(bus, name, path, interface, method, error.get(), &reply, types, arguments...);
        if (result < 0) return error.failure(result, what);
        return Message(reply);
    }
    template <class... Arguments>
    Result<> manager(std::string const& what, char const* method, char const* types, Arguments... arguments) {
        return call(what, manager_name, manager_path, manager_interface, method, types, arguments...);
    }
    Result<std::string> text(std::string const& path, char const* interface, char const* property) const {
        BusError error;
        char* value = nullptr;
        int const result =
            sd_bus_get_property_string(bus, manager_name, path.c_str(), interface, property, error.get(), &value);
        if (result < 0) return error.failure(result, std::string("read ") + property);
        std::unique_ptr<char, decltype(&std::free)> const owner(value, std::free);
        return std::string(value);
    }
    template <class T>
    Result<T> number(std::string const& path, char const* interface, char const* property, char type) const {
        BusError error;
        T value = 0;
        int const result = sd_bus_get_property_trivial(bus, manager_name, path.c_str(), interface, property,
                                                       error.get(), type, &value);
        if (result < 0) return error.failure(result, std::string("read ") + property);
        return value;
    }
    /// Whether systemd knows this unit now. Asking it for a property would load a unit that it does not know, and
    /// report that to everybody.
    Result<bool> is_loaded(std::string const& unit) {
        auto const loaded = manager("look at " + unit, "GetUnit", "s", unit.c_str());
        if (!loaded && loaded.error().kind == ErrorKind::not_found) return false;
        TRY(loaded);
        return true;
    }
    Result<> subscribe() {
        if (is_subscribed) return {};
        TRY(manager("subscribe to systemd", "Subscribe", ""));
        is_subscribed = true;
        return {};
    }
};

Bus::Bus(std::unique_ptr<State> state) : state_(std::move(state)) {}
Bus::Bus(Bus&& other) noexcept = default;
Bus::~Bus() = default;

Result<Bus> Bus::connect(std::chrono::milliseconds call_limit) {
    auto state = std::make_unique<State>();
    int const result = sd_bus_open_system(&state->bus);
    if (result < 0)
        return fail(kind_of(nullptr, -result), "connect to the system's bus",
                    errno_text(-result) + (sd_booted() > 0 ? "" : ": systemd does not run on this host"));
    sd_bus_set_method_call_timeout(state->bus, static_cast<std::uint64_t>(call_limit.count()) * 1000);
    return Bus(std::move(state));
}

bool Bus::is_open() const { return sd_bus_is_open(state_->bus) > 0; }

Result<std::vector<ListedUnit>> Bus::list_units(std::string const& pattern) {
    Message const reply = TRY(state_->ask("list units", manager_name, manager_path, manager_interface,
                                          "ListUnitsByPatterns", "asas", 0, 1, pattern.c_str()));
    std::vector<ListedUnit> units;
    if (sd_bus_message_enter_container(reply.get(), 'a', "(ssssssouso)") < 0)
        return fail(ErrorKind::corrupt, "list units", "systemd's answer is not understood");
    char const *name = nullptr, *active = nullptr;
    while (sd_bus_message_enter_container(reply.get(), 'r', "ssssssouso") > 0) {
        std::uint32_t job = 0;
        if (sd_bus_message_read(reply.get(), "ssssssouso", &name, nullptr, nullptr, &active, nullptr, nullptr, nullptr,
                                &job, nullptr, nullptr) < 0)
            break;
        units.push_back({name, job != 0 && is_down(active) ? "activating" : active});
        sd_bus_message_exit_container(reply.get());
    }
    return units;
}

Result<ServiceFacts> Bus::service(std::string const& unit) {
    std::string const path = TRY(path_of(unit));
    ServiceFacts facts;
    if (!TRY(state_->is_loaded(unit))) {
        facts.active_state = "inactive";
        facts.result = "success";
        return facts;
    }
    facts.active_state = TRY(state_->text(path, unit_interface, "ActiveState"));
    if (is_down(facts.active_state)) {
        bool const is_awaited = TRY(job_of(path)) != 0;
        // the job may have ended meanwhile
        facts.active_state = TRY(state_->text(path, unit_interface, "ActiveState"));
        if (is_awaited && is_down(facts.active_state)) facts.active_state = "activating";
    }
    facts.active_since = TRY(state_->number<std::uint64_t>(path, unit_interface, "ActiveEnterTimestamp", 't'));
    facts.result = TRY(state_->text(path, service_interface, "Result"));
    facts.ended_at = TRY(state_->number<std::uint64_t>(path, service_interface, "ExecMainExitTimestamp", 't'));
    facts.exit_status = TRY(state_->number<std::int32_t>(path, service_interface, "ExecMainStatus", 'i'));
    facts.restarts = TRY(state_->number<std::uint32_t>(path, service_interface, "NRestarts", 'u'));
    TRY(add_start_failure(path, facts));
    return facts;
}

/// A unit that has failed was active, or not since its start. One whose assertion fails stays "inactive".
Result<> Bus::add_start_failure(std::string const& path, ServiceFacts& facts) {
    if (facts.active_state == "failed") {
        auto const began =
            TRY(state_->number<std::uint64_t>(path, unit_interface, "InactiveExitTimestampMonotonic", 't'));
        auto const active =
            TRY(state_->number<std::uint64_t>(path, unit_interface, "ActiveEnterTimestampMonotonic", 't'));
        if (active >= began && facts.result != start_limit_hit) return {};
        facts.start_failure = facts.result;
        facts.start_failed_since =
            TRY(state_->number<std::uint64_t>(path, unit_interface, "InactiveExitTimestamp", 't'));
    } else if (facts.active_state == "inactive") {
        bool const is_asserted = TRY(state_->number<int>(path, unit_interface, "AssertResult", 'b')) != 0;
        if (is_asserted || TRY(state_->number<std::uint64_t>(path, unit_interface, "AssertTimestamp", 't')) == 0) return {};
        facts.start_failure = assertion_failed;
    }
    return {};
}

Result<std::string> Bus::control_group(std::string const& unit) {
    if (!TRY(state_->is_loaded(unit))) return std::string();
    return state_->text(TRY(path_of(unit)), service_interface, "ControlGroup");
}

/// Handles messages until a condition holds or the deadline has passed. Returns whether it holds.
Result<bool> Bus::wait_until(TimePoint deadline, std::function<bool()> const& is_reached) {
    for (;;) {
        int const handled = sd_bus_process(state_->bus, nullptr);
        if (handled < 0) return fail(kind_of(nullptr, -handled), "wait for systemd", errno_text(-handled));
        if (is_reached()) return true;
        if (handled > 0) continue;
        auto const left = left_until(deadline);
        if (left.count() <= 0) return false;
        int const waited = sd_bus_wait(state_->bus, static_cast<std::uint64_t>(left.count()) * 1000);
        if (waited < 0 && waited != -EINTR)
            return fail(kind_of(nullptr, -waited), "wait for systemd", errno_text(-waited));
    }
}

/// The same with checks. Nothing but a machine's own launcher, in other ways, says that a start leads nowhere.
Result<bool> Bus::wait_with_checks(TimePoint deadline, std::function<bool()> const& is_reached,
                                   std::function<Result<>()> const& check) {
    if (!check) return wait_until(deadline, is_reached);
    for (;;) {
        TimePoint const next = std::min(deadline, TimePoint(std::chrono::steady_clock::now() + check_pause));
        if (TRY(wait_until(next, is_reached))) return true;
        if (next == deadline) return false;
        TRY(check());
    }
}

Result<> Bus::run_job(char const* method, std::string const& unit, std::chrono::milliseconds limit,
                      std::function<void()> const& begun, std::function<Result<>()> const& check) {
    TimePoint const deadline = std::chrono::steady_clock::now() + limit;
    bool const is_start = std::strcmp(method, "StartUnit") == 0;
    std::string const what = (is_start ? "start " : "stop ") + unit;
    TRY(state_->subscribe());
    JobEnd end;
    sd_bus_slot* slot = nullptr;
    int const matched = sd_bus_match_signal(state_->bus, &slot, manager_name, manager_path, manager_interface,
                                            "JobRemoved", on_job_removed, &end);
    if (matched < 0) return fail(-matched, what);
    Slot const owner(slot);
    Message const reply =
        TRY(state_->ask(what, manager_name, manager_path, manager_interface, method, "ss", unit.c_str(), "replace"));
    char const* job = nullptr;
    if (sd_bus_message_read(reply.get(), "o", &job) < 0)
        return fail(ErrorKind::corrupt, what, "systemd's answer is not understood");
    end.job = job;
    if (begun) begun();
    for (auto const& [ended, result] : end.ended)
        if (ended == end.job) end.result = result;
    bool const is_over = TRY(wait_with_checks(deadline, [&end] { return !end.result.empty(); }, check));
    if (!is_over || end.result == "timeout")  // the unit goes on
        return too_late(what, limit);
    if (end.result == "done") return {};
    if (end.result == "canceled")
        return fail(ErrorKind::refused, what,
                    is_start ? "it was told to stop meanwhile" : "it was told to start meanwhile");
    auto const facts = service(unit);
    std::string const why = facts && facts->result != "success" ? " (" + facts->result + ")" : "";
    Error error = fail(ErrorKind::refused, what, "its job ended as \"" + end.result + "\"" + why).error();
    error.details.push_back("the reason is in: journalctl -u " + unit);
    return std::unexpected(std::move(error));
}

Result<> Bus::start(std::string const& unit, std::chrono::milliseconds limit, std::function<void()> const& begun,
                    std::function<Result<>()> const& check) {
    return run_job("StartUnit", unit, limit, begun, check);
}
Result<> Bus::stop(std::string const& unit, std::chrono::milliseconds limit, std::function<void()> const& begun) {
    TimePoint const now = std::chrono::steady_clock::now();
    TimePoint const deadline = now + limit;
    // as systemd tells times by CLOCK_MONOTONIC; the host's clock may be set meanwhile
    auto const began =
        static_cast<std::uint64_t>(std::chrono::floor<std::chrono::microseconds>(now.time_since_epoch()).count());
    std::string const path = TRY(path_of(unit));
    auto stopped = run_job("StopUnit", unit, limit, begun, {});
    auto const is_late = [&stopped] { return !stopped && stopped.error().kind == ErrorKind::timeout; };
    // A job may have a shorter limit of its own (JobRunningTimeoutSec=); the unit goes on stopping.
    while (is_late() && left_until(deadline).count() > 0) {
        ServiceFacts const facts = TRY(service(unit));
        auto const active_since =
            TRY(state_->number<std::uint64_t>(path, unit_interface, "ActiveEnterTimestampMonotonic", 't'));
        auto const ended_at =
            TRY(state_->number<std::uint64_t>(path, service_interface, "ExecMainExitTimestampMonotonic", 't'));
        bool const is_starting = ended_at > began && facts.active_state == "activating";
        if (active_since > began || is_starting)
            return fail(ErrorKind::refused, "stop " + unit, "it was told to start meanwhile");
        stopped = run_job("StopUnit", unit, left_until(deadline), {}, {});
    }
    return is_late() ? too_late("stop " + unit, limit) : stopped;
}

Result<> Bus::kill_unit(std::string const& unit, int signal) {
    auto const done = state_->manager("send a signal to " + unit, "KillUnit", "ssi", unit.c_str(), "all",
                                      static_cast<std::int32_t>(signal));
    if (!done && done.error().kind == ErrorKind::not_found) return {};
    return done;
}

Result<> Bus::reset_failed(std::string const& unit) {
    auto const done = state_->manager("reset " + unit, "ResetFailedUnit", "s", unit.c_str());
    if (!done && done.error().kind == ErrorKind::not_found) return {};
    return done;
}

Result<bool> Bus::lacks_drop_in(std::string const& unit, std::string const& path) {
    if (!TRY(state_->is_loaded(unit))) return false;
    BusError error;
    char** values = nullptr;
    int const result = sd_bus_get_property_strv(state_->bus, manager_name, TRY(path_of(unit)).c_str(), unit_interface,
                                                "DropInPaths", error.get(), &values);
    if (result < 0) return error.failure(result, "read DropInPaths");
    bool is_there = false;
    for (char** value = values; value && *value; ++value) {
        is_there = is_there || path == *value;
        std::free(*value);
    }
    std::free(values);
    return !is_there;
}

Result<> Bus::reload() { return state_->manager("have systemd read its units again", "Reload", ""); }

Result<> Bus::set_properties(std::string const& unit, std::span<NumberProperty const> properties) {
    std::string const what = "set limits of " + unit;
    sd_bus_message* raw = nullptr;
    int result = sd_bus_message_new_method_call(state_->bus, &raw, manager_name, manager_path, manager_interface,
                                                "SetUnitProperties");
    Message const message(raw);
    int const is_runtime = 0;
    if (result >= 0) result = sd_bus_message_append(raw, "sb", unit.c_str(), is_runtime);
    if (result >= 0) result = sd_bus_message_open_container(raw, 'a', "(sv)");
    for (auto const& [name, value] : properties)
        if (result >= 0) result = sd_bus_message_append(raw, "(sv)", name.c_str(), "t", value);
    if (result >= 0) result = sd_bus_message_close_container(raw);
    if (result < 0) return fail(-result, what);
    BusError error;
    result = sd_bus_call(state_->bus, raw, 0, error.get(), nullptr);
    if (result < 0) return error.failure(result, what);
    return {};
}

Result<> Bus::revert(std::string const& unit) {
    return state_->manager("revert " + unit, "RevertUnitFiles", "as", 1, unit.c_str());
}

Result<> Bus::enable(std::string const& unit) {
    return state_->manager("enable " + unit, "EnableUnitFiles", "asbb", 1, unit.c_str(), 0, 0);
}

Result<> Bus::disable(std::string const& unit) {
    return state_->manager("disable " + unit, "DisableUnitFiles", "asb", 1, unit.c_str(), 0);
}

Result<std::int64_t> Bus::leader(std::string const& machine) {
    auto const reply = state_->ask("ask for the machine " + machine, machined_name, machined_path, machined_interface,
                                   "GetMachine", "s", machine.c_str());
    if (!reply && reply.error().kind == ErrorKind::not_found) return 0;
    if (!reply) return std::unexpected(reply.error());
    char const* path = nullptr;
    if (sd_bus_message_read(reply->get(), "o", &path) < 0)
        return fail(ErrorKind::corrupt, "ask for the machine " + machine, "machined's answer is not understood");
    BusError error;
    std::uint32_t leader = 0;
    int const result = sd_bus_get_property_trivial(state_->bus, machined_name, path, machine_interface, "Leader",
                                                   error.get(), 'u', &leader);
    if (result < 0) return 0;  // it has ended meanwhile
    return leader;
}

Result<> Bus::kill_leader(std::string const& machine, int signal) {
    return state_->call("send a signal to the machine " + machine, machined_name, machined_path, machined_interface,
                        "KillMachine", "ssi", machine.c_str(), "leader", static_cast<std::int32_t>(signal));
}

Result<> Bus::wait_until_forgotten(std::string const& machine, std::chrono::milliseconds limit) {
    TRY(state_->subscribe());
    sd_bus_slot* removed = nullptr;
    int const result = sd_bus_match_signal(state_->bus, &removed, machined_name, machined_path, machined_interface,
                                           "MachineRemoved", ignore, nullptr);
    Slot const removed_owner(removed);
    if (result < 0) return fail(-result, "wait for the end of " + machine);
    auto const is_forgotten = [&] { return leader(machine).value_or(0) == 0; };
    (void)TRY(wait_until(std::chrono::steady_clock::now() + limit, is_forgotten));
    return {};
}

Result<> Bus::reboot(std::string const& machine, std::string const& unit, std::chrono::milliseconds limit,
                     std::function<void()> const& begun, std::function<Result<>()> const& check) {
    TimePoint const deadline = std::chrono::steady_clock::now() + limit;
    TRY(state_->subscribe());
    // Each of these signals is a reason to look again.
    std::string const path = TRY(path_of(unit));
    struct Signal {
        char const *sender, *path, *interface, *member;
    };
    std::array<Signal, 4> const signals{{
        {manager_name, path.c_str(), "org.freedesktop.DBus.Properties", "PropertiesChanged"},
        {manager_name, manager_path, manager_interface, "JobRemoved"},
        {machined_name, machined_path, machined_interface, "MachineNew"},
        {machined_name, machined_path, machined_interface, "MachineRemoved"},
    }};
    std::vector<Slot> slots;
    for (Signal const& signal : signals) {
        sd_bus_slot* slot = nullptr;
        int const result = sd_bus_match_signal(state_->bus, &slot, signal.sender, signal.path, signal.interface,
                                               signal.member, ignore, nullptr);
        if (result < 0) return fail(-result, "reboot " + machine);
        slots.emplace_back(slot);
    }
    std::int64_t const before = TRY(leader(machine));
    TRY(kill_leader(machine, SIGINT));
    if (begun) begun();
    bool is_up = false;
    bool const is_over = TRY(wait_with_checks(
        deadline,
        [&] {
            auto const now = leader(machine);
            auto const facts = service(unit);
            if (!facts) return false;
            is_up = now && *now != 0 && *now != before && facts->active_state == "active";
            return is_up || is_down(facts->active_state);
        },
        check));
    if (!is_over) return fail(ErrorKind::timeout, "timed out waiting for zone to reboot");
    if (!is_up) return fail(ErrorKind::refused, "reboot " + unit, "it has stopped instead");
    return {};
}

/// The job that systemd has for a unit; 0: none.
Result<std::uint32_t> Bus::job_of(std::string const& path) {
    BusError error;
    sd_bus_message* raw = nullptr;
    int const result =
        sd_bus_get_property(state_->bus, manager_name, path.c_str(), unit_interface, "Job", error.get(), &raw, "(uo)");
    Message const reply(raw);
    if (result < 0) return error.failure(result, "read Job");
    std::uint32_t job = 0;
    if (sd_bus_message_read(raw, "(uo)", &job, nullptr) < 0)
        return fail(ErrorKind::corrupt, "read Job", "systemd's answer is not understood");
    return job;
}

}  // namespace triton::systemd
