#include "host/parts/systemd_units.h"

#include <algorithm>
#include <array>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/machine/properties.h"
#include "host/systemd/journal.h"
#include "lib/base/read_file.h"

namespace triton::parts {

namespace {

using machine::UnitStatus;

constexpr std::chrono::seconds halt_limit{30};
constexpr std::chrono::seconds forget_limit{10};
constexpr std::chrono::seconds execute_limit{5};
constexpr std::chrono::seconds listen_limit{2};
constexpr std::size_t most_status_bytes = 1 << 16;

UnitStatus::Activity activity_of(std::string_view state) {
    if (state == "active" || state == "reloading" || state == "maintenance") return UnitStatus::Activity::active;
    if (state == "activating") return UnitStatus::Activity::activating;
    if (state == "deactivating") return UnitStatus::Activity::deactivating;
    if (state == "failed") return UnitStatus::Activity::failed;
    return UnitStatus::Activity::inactive;
}

/// Whether a machine's PID 1 is a program of its own, and not yet one that leads to it; nullopt: it has ended.
std::optional<bool> is_own_program(std::int64_t leader) {
    static constexpr std::array<std::string_view, 2> before{"systemd-nspawn", "triton-machine-init"};
    std::array<char, PATH_MAX> text;
    ssize_t const size = ::readlink(("/proc/" + std::to_string(leader) + "/exe").c_str(), text.data(), text.size());
    if (size < 0) return std::nullopt;
    std::string_view const path(text.data(), static_cast<std::size_t>(size));
    return std::ranges::find(before, path.substr(path.rfind('/') + 1)) == before.end();
}

/// Waits until a machine's PID 1 is a program of its own. systemd-nspawn calls a machine started before that, unless
/// PID 1 itself tells. Returns whether it came to that.
bool executes(std::int64_t leader) {
    auto const deadline = std::chrono::steady_clock::now() + execute_limit;
    while (leader > 0) {
        auto const is_own = is_own_program(leader);
        if (!is_own) return false;
        if (*is_own || std::chrono::steady_clock::now() > deadline) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // nothing tells of an execve
    }
    return false;
}

/// Whether a process catches, blocks or ignores a signal. Source: proc(5), /proc/pid/status.
bool notices(std::int64_t leader, int signal) {
    auto const status = read_file("/proc/" + std::to_string(leader) + "/status", most_status_bytes);
    return status && std::ranges::any_of(std::array{"\nSigBlk:", "\nSigIgn:", "\nSigCgt:"}, [&](std::string_view key) {
               std::size_t const at = status->find(key);
               return at != status->npos &&
                      (std::strtoull(status->c_str() + at + key.size(), nullptr, 16) >> (signal - 1) & 1) != 0;
           });
}

/// How a unit has ended: " (exit status 3)". It may have been PID 1 that ended so, or systemd-nspawn before it.
std::string end_of(Result<systemd::ServiceFacts> const& facts) {
    bool const is_known = facts && (facts->active_state == "inactive" || facts->active_state == "failed");
    if (!is_known) return {};
    return (facts->result == "signal" ? " (signal " : " (exit status ") + std::to_string(facts->exit_status) + ")";
}

/// Why the latest start of a unit has failed, with its last line in the journal; empty: it has not.
std::string failure_of(systemd::ServiceFacts const& facts, std::string const& unit) {
    if (facts.start_failure.empty()) return {};
    if (facts.start_failed_since == 0)
        return "its start failed: the boot of the host has not prepared it, see journalctl -u triton-machines";
    std::string failure = "its start failed (" + facts.start_failure + ")";
    auto const words = systemd::last_words(unit, facts.start_failed_since);
    if (!words.empty()) failure.append(machine::failure_words).append(words.back());
    return failure;
}

std::uint64_t microseconds_since_the_epoch() {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

/// The error of a start; where it names the journal, which that of a check does not, with what the unit's processes
/// have written there since the start.
std::unexpected<Error> failed_start(Error error, std::string const& unit, std::uint64_t since) {
    std::vector<std::string> words;
    if (error.kind != ErrorKind::invalid && !error.details.empty()) words = systemd::last_words(unit, since);
    for (std::string& line : words)
        line.insert(0, "it said: ");
    error.details.insert(error.details.begin(), words.begin(), words.end());
    return std::unexpected(std::move(error));
}

}  // namespace

Result<systemd::Bus*> SystemdUnits::bus() {
    if (bus_ && !bus_->is_open()) bus_.reset();
    if (!bus_) bus_.emplace(TRY(systemd::Bus::connect(call_limit_)));
    return &*bus_;
}

Result<std::string> SystemdUnits::control_group(Uuid const& uuid) {
    return TRY(bus())->control_group(machine::unit_of(uuid));
}

Result<UnitStatus> SystemdUnits::status(Uuid const& uuid) {
    auto status = status_of(uuid);
    // The bus may have been started again since it was asked last.
    if (!status && bus_ && !bus_->is_open()) return status_of(uuid);
    return status;
}

Result<UnitStatus> SystemdUnits::status_of(Uuid const& uuid) {
    systemd::Bus& bus = *TRY(this->bus());
    systemd::ServiceFacts const facts = TRY(bus.service(machine::unit_of(uuid)));
    UnitStatus status;
    status.activity = activity_of(facts.active_state);
    if (!status.is_down()) status.leader = TRY(bus.leader(uuid.text()));
    status.started_at = static_cast<std::int64_t>(facts.active_since);
    status.ended_at = static_cast<std::int64_t>(facts.ended_at);
    status.exit_status = facts.exit_status;
    status.restarts = facts.restarts;
    status.failure = failure_of(facts, machine::unit_of(uuid));
    return status;
}

Result<std::map<Uuid, UnitStatus>> SystemdUnits::all() {
    systemd::Bus& bus = *TRY(this->bus());
    std::map<Uuid, UnitStatus> all;
    auto listed = bus.list_units("systemd-nspawn@*.service");
    if (!listed && !bus.is_open()) {
        systemd::Bus& again = *TRY(this->bus());
        listed = again.list_units("systemd-nspawn@*.service");
    }
    for (systemd::ListedUnit const& unit : TRY(std::move(listed))) {
        auto const uuid = machine::uuid_of_unit(unit.name);
        if (!uuid) continue;
        UnitStatus const seen{.activity = activity_of(unit.active_state)};
        // Only the whole tells whether a unit that is down was up before.
        bool const needs_whole = is_detailed_ || seen.is_down();
        all[*uuid] = needs_whole ? status(*uuid).value_or(seen) : seen;
    }
    return all;
}

Result<> SystemdUnits::start(Uuid const& uuid, std::chrono::seconds limit, Begun const& begun, Check const& check) {
    systemd::Bus& bus = *TRY(this->bus());
    std::string const unit = machine::unit_of(uuid);
    bool const is_under_way = activity_of(TRY(bus.service(unit)).active_state) == UnitStatus::Activity::activating;
    if (!is_under_way) {
        TRY(bus.wait_until_forgotten(uuid.text(), forget_limit));
        // It was loaded before it was a machine of ours, or by an earlier version.
        std::string const drop_in = machine::Layout{}.drop_ins(uuid) + "/" + std::string(machine::drop_in_name);
        if (TRY(bus.lacks_drop_in(unit, drop_in))) TRY(bus.reload());
    }
    std::uint64_t const since = microseconds_since_the_epoch();
    if (auto const started = bus.start(unit, limit, begun, check); !started)
        return failed_start(started.error(), unit, since);
    if (executes(TRY(bus.leader(uuid.text())))) return {};
    Error error = fail(ErrorKind::refused, "start " + unit, "it ended at once" + end_of(bus.service(unit))).error();
    error.details.push_back("the reason is in: journalctl -u " + unit);
    return failed_start(std::move(error), unit, since);
}

Result<> SystemdUnits::stop(Uuid const& uuid, std::chrono::seconds limit, Begun const& begun) {
    systemd::Bus& bus = *TRY(this->bus());
    auto const stopped = bus.stop(machine::unit_of(uuid), limit, begun);
    if (!stopped && stopped.error().kind == ErrorKind::timeout) return halt(uuid);
    return stopped;
}

void SystemdUnits::await_listener(Uuid const& uuid, UnitStatus const& status, int signal) {
    auto const deadline = std::chrono::steady_clock::now() + listen_limit;
    Result<UnitStatus> now = status;
    while (now && !now->is_down() && std::chrono::steady_clock::now() < deadline) {
        if (now->leader > 0 && is_own_program(now->leader).value_or(true) && notices(now->leader, signal)) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));  // nothing tells of a handler
        now = this->status(uuid);
    }
}

Result<> SystemdUnits::halt(Uuid const& uuid) {
    systemd::Bus& bus = *TRY(this->bus());
    std::string const unit = machine::unit_of(uuid);
    if (activity_of(TRY(bus.service(unit)).active_state) != UnitStatus::Activity::inactive) {
        TRY(bus.kill_unit(unit, SIGKILL));
        TRY(bus.stop(unit, halt_limit, {}));
    }
    return bus.reset_failed(unit);
}

Result<> SystemdUnits::reboot(Uuid const& uuid, std::chrono::seconds limit, Begun const& begun, Check const& check) {
    return TRY(bus())->reboot(uuid.text(), machine::unit_of(uuid), limit, begun, check);
}

Result<> SystemdUnits::kill(Uuid const& uuid, int signal) { return TRY(bus())->kill_leader(uuid.text(), signal); }

Result<> SystemdUnits::reset(Uuid const& uuid) { return TRY(bus())->reset_failed(machine::unit_of(uuid)); }

Result<> SystemdUnits::set_limits(Uuid const& uuid, std::span<machine::UnitProperty const> limits) {
    std::vector<systemd::NumberProperty> properties;
    for (machine::UnitProperty const& limit : limits)
        properties.emplace_back(limit.name, limit.value);
    return TRY(bus())->set_properties(machine::unit_of(uuid), properties);
}

bool SystemdUnits::has_unified_cgroups() const {
    struct statfs status{};
    return ::statfs("/sys/fs/cgroup", &status) == 0 && status.f_type == CGROUP2_SUPER_MAGIC;
}

Result<> SystemdUnits::forget_limits(Uuid const& uuid) { return TRY(bus())->revert(machine::unit_of(uuid)); }

Result<> SystemdUnits::set_autostart(Uuid const& uuid, bool is_on) {
    systemd::Bus& bus = *TRY(this->bus());
    return is_on ? bus.enable(machine::unit_of(uuid)) : bus.disable(machine::unit_of(uuid));
}

}  // namespace triton::parts
