#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::systemd {

/// A unit as systemd lists it.
struct ListedUnit {
    std::string name;
    std::string active_state;  ///< "active", "inactive", "activating", "deactivating", "failed" ..; see ServiceFacts
};

/// What systemd knows about a service.
struct ServiceFacts {
    /// Between two runs of a service, and while it waits for others before its start, systemd calls it "inactive" or
    /// "failed". It has a job then, and is "activating" here: who stops it must stop that.
    std::string active_state;
    std::string result;              ///< "success", "exit-code", "timeout" ..
    std::uint64_t active_since = 0;  ///< microseconds since 1970; 0: never
    std::uint64_t ended_at = 0;      ///< when its main process has ended
    std::int64_t exit_status = 0;
    std::int64_t restarts = 0;
    /// Why its latest start has not made it active: "exit-code", "start-limit-hit", "assert" ..; empty: it has.
    std::string start_failure;
    std::uint64_t start_failed_since = 0;  ///< when that start began, microseconds since 1970; 0: not known
};

/// A property to change, by its name in org.freedesktop.systemd1(5).
using NumberProperty = std::pair<std::string, std::uint64_t>;

/// A connection to the system's bus, for what machines need from systemd and systemd-machined. It blocks, each call
/// with a limit. Kinds of errors, besides those at the functions: `unavailable` when the bus, systemd or machined is
/// not there, `timeout`, `denied`, `not_found` for an unknown unit or machine.
class Bus {
public:
    /// `call_limit`: for calls without a limit of their own.
    static Result<Bus> connect(std::chrono::milliseconds call_limit = std::chrono::seconds(30));
    Bus(Bus&& other) noexcept;
    Bus& operator=(Bus&&) = delete;
    ~Bus();

    /// Whether it may still answer: a restarted bus does not know this connection.
    [[nodiscard]] bool is_open() const;

    /// The loaded units whose names match a pattern of fnmatch(3).
    Result<std::vector<ListedUnit>> list_units(std::string const& pattern);
    /// For a unit that is not loaded, returns what is true of one that has never run, without loading it.
    Result<ServiceFacts> service(std::string const& unit);
    /// The path of its control group: "/machine.slice/..."; empty when it does not run.
    Result<std::string> control_group(std::string const& unit);

    /// Starts or stops a unit and waits for the end of the job. Errors: `timeout`, while the job runs on; `refused` if
    /// it does not end well: "its job has failed (exit-code)". `begun` is called when systemd has the job.
    /// `check` is called a few times a second during the wait; its error ends the wait, while the job runs on.
    Result<> start(std::string const& unit, std::chrono::milliseconds limit, std::function<void()> const& begun,
                   std::function<Result<>()> const& check);
    Result<> stop(std::string const& unit, std::chrono::milliseconds limit, std::function<void()> const& begun);
    /// Sends a signal to all processes of a unit. Succeeds when there are none.
    Result<> kill_unit(std::string const& unit, int signal);
    /// Makes a failed unit look as if it had never been started.
    Result<> reset_failed(std::string const& unit);

    /// Whether systemd has loaded a unit without one of its drop-ins. One that is not loaded is read when it is needed.
    Result<bool> lacks_drop_in(std::string const& unit, std::string const& path);
    /// Has systemd read all units again.
    Result<> reload();

    /// Changes properties of a unit for now and, in files of systemd's own, for later.
    Result<> set_properties(std::string const& unit, std::span<NumberProperty const> properties);
    /// Removes these files.
    Result<> revert(std::string const& unit);
    Result<> enable(std::string const& unit);
    Result<> disable(std::string const& unit);

    /// The pid of a machine's PID 1 on the host; 0: machined does not know the machine.
    Result<std::int64_t> leader(std::string const& machine);
    Result<> kill_leader(std::string const& machine, int signal);
    /// Waits until machined has forgotten a machine that has ended: before that its name cannot be registered again,
    /// and a start fails. It is not an error when this takes longer: the start will report that.
    Result<> wait_until_forgotten(std::string const& machine, std::chrono::milliseconds limit);
    /// Asks the machine's PID 1 to reboot, and waits until another PID 1 runs and the unit is active. `begun` is called
    /// when it has been asked, `check` as for start(). Errors: `timeout`; `refused` when it ends, and is not started
    /// again.
    Result<> reboot(std::string const& machine, std::string const& unit, std::chrono::milliseconds limit,
                    std::function<void()> const& begun, std::function<Result<>()> const& check);

private:
    struct State;
    explicit Bus(std::unique_ptr<State> state);
    Result<> run_job(char const* method, std::string const& unit, std::chrono::milliseconds limit,
                     std::function<void()> const& begun, std::function<Result<>()> const& check);
    Result<std::uint32_t> job_of(std::string const& path);
    Result<> add_start_failure(std::string const& path, ServiceFacts& facts);
    Result<bool> wait_until(TimePoint deadline, std::function<bool()> const& is_reached);
    Result<bool> wait_with_checks(TimePoint deadline, std::function<bool()> const& is_reached,
                                  std::function<Result<>()> const& check);

    std::unique_ptr<State> state_;
};

}  // namespace triton::systemd
