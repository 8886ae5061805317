#include "programs/vmadm/host_parts.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/image/site.h"
#include "lib/files/confined_path.h"
#include "lib/json/table.h"
#include "lib/json/values.h"
#include "lib/json/writer.h"
#include "lib/varlink/connection.h"
#include "programs/vmadm/run_program.h"

namespace triton::program {

namespace {

using machine::UnitStatus;

constexpr std::chrono::seconds halt_limit{30};
constexpr std::chrono::seconds forget_limit{10};

UnitStatus::Activity activity_of(std::string_view state) {
    if (state == "active" || state == "reloading" || state == "maintenance") return UnitStatus::Activity::active;
    if (state == "activating") return UnitStatus::Activity::activating;
    if (state == "deactivating") return UnitStatus::Activity::deactivating;
    if (state == "failed") return UnitStatus::Activity::failed;
    return UnitStatus::Activity::inactive;
}

/// Connects as another user: the launcher asks the kernel who has connected, and root of the host is nobody there.
Result<varlink::Connection> connect_as(uid_t uid, std::string const& path, Duration limit) {
    if (::seteuid(uid) != 0) return fail(errno, "become root of the machine");
    auto connection = varlink::Connection::connect(path, limit);
    if (::seteuid(0) != 0) std::abort();  // never: the saved uid is 0
    return connection;
}

}  // namespace

// --- images ---

Result<image::ImageService*> InstalledImages::service() {
    if (!service_) service_.emplace(TRY(image::ImageService::open_for_holding(image::Settings{.root = root_})));
    return &*service_;
}

Result<machine::ImageTree> InstalledImages::find(Uuid const& image) {
    image::ImageService* const images = TRY(service());
    image::Image const found = TRY(images->get(image));
    return machine::ImageTree{TRY(storage::TreeName::parse(found.tree)), *storage::SnapshotName::parse("final"),
                              found.manifest.title()};
}

namespace {

/// How `imgadm delete` names a machine that needs the image.
std::string holder_text(Uuid const& holder) { return "machine " + holder.text(); }

}  // namespace

Result<> InstalledImages::hold(Uuid const& image, Uuid const& holder) {
    return TRY(service())->hold(image, holder_text(holder));
}

Result<> InstalledImages::release(Uuid const& image, Uuid const& holder) {
    return TRY(service())->release(image, holder_text(holder));
}

Result<> InstalledImages::release_all(Uuid const& holder) { return TRY(service())->release_all(holder_text(holder)); }

// --- systemd ---

Result<systemd::Bus*> SystemdUnits::bus() {
    if (!bus_) bus_.emplace(TRY(systemd::Bus::connect()));
    return &*bus_;
}

Result<std::string> SystemdUnits::control_group(Uuid const& uuid) {
    return TRY(bus())->control_group(machine::unit_of(uuid));
}

Result<UnitStatus> SystemdUnits::status(Uuid const& uuid) {
    systemd::Bus& bus = *TRY(this->bus());
    systemd::ServiceFacts const facts = TRY(bus.service(machine::unit_of(uuid)));
    UnitStatus status;
    status.activity = activity_of(facts.active_state);
    if (!status.is_down()) status.leader = TRY(bus.leader(uuid.text()));
    status.started_at = static_cast<std::int64_t>(facts.active_since);
    status.ended_at = static_cast<std::int64_t>(facts.ended_at);
    status.exit_status = facts.exit_status;
    status.restarts = facts.restarts;
    return status;
}

Result<std::map<Uuid, UnitStatus>> SystemdUnits::all() {
    systemd::Bus& bus = *TRY(this->bus());
    std::map<Uuid, UnitStatus> all;
    for (systemd::ListedUnit const& unit : TRY(bus.list_units("systemd-nspawn@*.service"))) {
        auto const uuid = machine::uuid_of_unit(unit.name);
        if (!uuid) continue;
        UnitStatus const seen{.activity = activity_of(unit.active_state)};
        all[*uuid] = is_detailed_ ? status(*uuid).value_or(seen) : seen;
    }
    return all;
}

Result<> SystemdUnits::start(Uuid const& uuid, std::chrono::seconds limit) {
    systemd::Bus& bus = *TRY(this->bus());
    TRY(bus.wait_until_forgotten(uuid.text(), forget_limit));
    return bus.start(machine::unit_of(uuid), limit);
}

Result<> SystemdUnits::stop(Uuid const& uuid, std::chrono::seconds limit) {
    systemd::Bus& bus = *TRY(this->bus());
    auto const stopped = bus.stop(machine::unit_of(uuid), limit);
    if (!stopped && stopped.error().kind == ErrorKind::timeout) return halt(uuid);
    return stopped;
}

Result<> SystemdUnits::halt(Uuid const& uuid) {
    systemd::Bus& bus = *TRY(this->bus());
    std::string const unit = machine::unit_of(uuid);
    if (activity_of(TRY(bus.service(unit)).active_state) != UnitStatus::Activity::inactive) {
        TRY(bus.kill_unit(unit, SIGKILL));
        TRY(bus.stop(unit, halt_limit));
    }
    return bus.reset_failed(unit);
}

Result<> SystemdUnits::reboot(Uuid const& uuid, std::chrono::seconds limit) {
    return TRY(bus())->reboot(uuid.text(), machine::unit_of(uuid), limit);
}

Result<> SystemdUnits::kill(Uuid const& uuid, int signal) { return TRY(bus())->kill_leader(uuid.text(), signal); }

Result<> SystemdUnits::reset(Uuid const& uuid) { return TRY(bus())->reset_failed(machine::unit_of(uuid)); }

Result<> SystemdUnits::set_limits(Uuid const& uuid, std::span<machine::UnitProperty const> limits) {
    std::vector<systemd::NumberProperty> properties;
    for (machine::UnitProperty const& limit : limits)
        properties.emplace_back(limit.name, limit.value);
    return TRY(bus())->set_properties(machine::unit_of(uuid), properties);
}

Result<> SystemdUnits::forget_limits(Uuid const& uuid) { return TRY(bus())->revert(machine::unit_of(uuid)); }

Result<> SystemdUnits::set_autostart(Uuid const& uuid, bool is_on) {
    systemd::Bus& bus = *TRY(this->bus());
    return is_on ? bus.enable(machine::unit_of(uuid)) : bus.disable(machine::unit_of(uuid));
}

// --- the launcher ---

Result<std::string> HostLauncher::program() {
    if (char const* const given = std::getenv("TRITON_LAUNCHER"); given && *given) return std::string(given);
    std::string self(4096, '\0');
    ssize_t const length = ::readlink("/proc/self/exe", self.data(), self.size());
    if (length < 0) return fail(errno, "find this program");
    self.resize(static_cast<std::size_t>(length));
    std::string const beside = self.substr(0, self.rfind('/')) + "/triton-launch";
    if (::access(beside.c_str(), X_OK) == 0) return beside;
    return fail(ErrorKind::unavailable, "find triton-launch, which machines with a launch configuration need",
                beside + " is not there");
}

Result<> HostLauncher::check(std::string_view document) {
    std::string const launcher = TRY(program());
    ProgramEnd const end = TRY(run_program({launcher, "check", "-"}, document));
    if (end.exit_code == 0) return {};
    Error error{.kind = ErrorKind::invalid,
                .attempted = {},
                .reason = "triton-launch refuses the launch configuration",
                .details = {},
                .code = 0};
    std::string_view rest = end.output;
    while (!rest.empty()) {
        std::size_t const line = std::min(rest.find('\n'), rest.size());
        if (line > 0) error.details.emplace_back(rest.substr(0, line));
        rest.remove_prefix(std::min(line + 1, rest.size()));
    }
    return std::unexpected(std::move(error));
}

namespace {

constexpr std::chrono::seconds status_limit{2};
constexpr std::chrono::seconds upgrade_limit{60};

Result<varlink::Connection> connect_to_launcher(std::int64_t leader, std::int64_t root_uid) {
    // The machine may have put anything there: the path is not followed out of its root.
    std::string const root = "/proc/" + std::to_string(leader) + "/root";
    UniqueFd const socket =
        TRY(files::open_confined(root, std::string(machine::control_socket_inside), O_PATH | O_CLOEXEC));
    return connect_as(static_cast<uid_t>(root_uid), "/proc/self/fd/" + std::to_string(socket.get()), status_limit);
}

std::string launcher_method(std::string_view name) { return "org.tritonlaunch.Launcher." + std::string(name); }

std::string text_of(json::Object const& object, std::string_view name) {
    json::Node const* const node = varlink::find_member(object, name);
    auto const* const text = node ? node->get<std::string>() : nullptr;
    return text ? *text : "";
}

}  // namespace

std::optional<std::string> HostLauncher::status(std::int64_t leader, std::int64_t root_uid) {
    auto connection = connect_to_launcher(leader, root_uid);
    if (!connection) return std::nullopt;
    json::Object answers;
    for (char const* const method : {"GetStatus", "List"}) {
        connection->call(launcher_method(method), "{}", false);
        auto reply = connection->reply(std::chrono::steady_clock::now() + status_limit);
        if (!reply || !reply->error.empty()) return std::nullopt;
        for (json::Member& member : reply->parameters)
            answers.push_back(std::move(member));
    }
    json::Writer out;
    out.value(answers);
    return std::move(out).text();
}

Result<HostLauncher::Versions> HostLauncher::upgrade(std::int64_t leader, std::int64_t root_uid,
                                                     std::string_view inside) {
    constexpr std::string_view what = "upgrade the launcher";
    auto connection = connect_to_launcher(leader, root_uid);
    if (!connection) return fail(ErrorKind::unavailable, std::string(what), "it does not answer");
    TimePoint const deadline = std::chrono::steady_clock::now() + upgrade_limit;
    json::Writer parameters;
    parameters.open('{').member("path", inside).close('}');
    connection->call(launcher_method("Upgrade"), parameters.text(), true);
    Versions versions;
    for (bool is_first = true;; is_first = false) {
        auto const reply = connection->reply(deadline);
        if (!reply && reply.error() == varlink::Connection::Silence::timed_out)
            return fail(ErrorKind::timeout, std::string(what), "it does not answer");
        // Its successor has no connections: the end of this one is the sign that it has taken over.
        if (!reply && !is_first) return versions;
        if (!reply) return fail(ErrorKind::unavailable, std::string(what), "it does not answer");
        if (!reply->error.empty()) {
            std::string reason = text_of(reply->parameters, "reason");
            return fail(ErrorKind::refused, std::string(what), reason.empty() ? reply->error : std::move(reason));
        }
        versions = {text_of(reply->parameters, "from"), text_of(reply->parameters, "to")};
    }
}

// --- storage ---

Result<std::unique_ptr<storage::Pool>> open_host_pool(machine::Layout const& layout) {
    return storage::open_pool(TRY(image::read_site(image::Settings{.root = layout.root})).storage);
}

}  // namespace triton::program
