#include "programs/vmadm/host_parts.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/read_file.h"
#include "lib/files/confined_path.h"
#include "lib/json/table.h"
#include "lib/json/values.h"
#include "lib/json/writer.h"
#include "lib/varlink/connection.h"
#include "programs/vmadm/run_program.h"

namespace triton::program {

namespace {

using machine::UnitStatus;

constexpr std::size_t most_manifest_bytes = 4 << 20;
constexpr std::chrono::seconds halt_limit{30};

json::Node const* member_of(json::Object const& object, std::string_view name) {
    auto const found = std::ranges::find(object, name, &json::Member::key);
    return found == object.end() ? nullptr : &found->node;
}

std::string text_of(json::Object const& object, std::string_view name) {
    json::Node const* const node = member_of(object, name);
    auto const* const text = node ? node->get<std::string>() : nullptr;
    return text ? *text : "";
}

Result<json::Object> read_document(std::string const& path) {
    std::string const text = TRY(read_file(path, most_manifest_bytes));
    json::ProblemList problems(1);
    auto node = json::read_json(text, json::Limits{.document_bytes = most_manifest_bytes}, problems);
    auto* const object = node ? std::get_if<json::Object>(&node->value) : nullptr;
    if (object) return std::move(*object);
    auto const found = std::move(problems).take();
    return fail(ErrorKind::corrupt, "read " + path, found.empty() ? "it is not a JSON object" : found.front().text());
}

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

Result<machine::ImageTree> InstalledImages::find(Uuid const& image) {
    auto const document = read_document(directory_ + "/" + image.text() + ".json");
    if (!document && document.error().kind == ErrorKind::not_found)
        return fail(ErrorKind::not_found, "image " + image.text() + " is not installed");
    if (!document) return std::unexpected(document.error());
    std::string title = image.text();
    json::Node const* const manifest = member_of(*document, "manifest");
    if (auto const* const object = manifest ? manifest->get<json::Object>() : nullptr)
        title = text_of(*object, "name") + "@" + text_of(*object, "version");
    return machine::ImageTree{TRY(storage::TreeName::parse(text_of(*document, "tree"))),
                              *storage::SnapshotName::parse("final"), std::move(title)};
}

std::string InstalledImages::holders(Uuid const& image) const { return directory_ + "/holders/" + image.text(); }

// A file for each holder, beside the images: who deletes an image looks there.
Result<> InstalledImages::hold(Uuid const& image, Uuid const& holder) {
    return machine::replace_file(holders(image) + "/" + holder.text(), "vmadm\n", 0600);
}

Result<> InstalledImages::release(Uuid const& image, Uuid const& holder) {
    TRY(machine::remove_file(holders(image) + "/" + holder.text()));
    (void)::rmdir(holders(image).c_str());  // unless others hold it
    return {};
}

// --- systemd ---

Result<systemd::Bus*> SystemdUnits::bus() {
    if (!bus_) bus_.emplace(TRY(systemd::Bus::connect()));
    return &*bus_;
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
    return TRY(bus())->start(machine::unit_of(uuid), limit);
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

std::optional<std::string> HostLauncher::status(std::int64_t leader, std::int64_t root_uid) {
    // The machine may have put anything there: the path is not followed out of its root.
    std::string const root = "/proc/" + std::to_string(leader) + "/root";
    auto const socket = files::open_confined(root, std::string(machine::control_socket_inside), O_PATH | O_CLOEXEC);
    if (!socket) return std::nullopt;
    constexpr std::chrono::seconds limit{2};
    auto connection = connect_as(static_cast<uid_t>(root_uid), "/proc/self/fd/" + std::to_string(socket->get()), limit);
    if (!connection) return std::nullopt;
    json::Object answers;
    for (char const* const method : {"GetStatus", "List"}) {
        connection->call(std::string("org.tritonlaunch.Launcher.") + method, "{}", false);
        auto reply = connection->reply(std::chrono::steady_clock::now() + limit);
        if (!reply || !reply->error.empty()) return std::nullopt;
        for (json::Member& member : reply->parameters)
            answers.push_back(std::move(member));
    }
    json::Writer out;
    out.value(answers);
    return std::move(out).text();
}

// --- storage ---

Result<std::unique_ptr<storage::Pool>> open_host_pool(machine::Layout const& layout) {
    storage::Settings settings{.path = layout.root + "/var/triton/pool"};
    auto const document = read_document(layout.configuration());
    if (!document && document.error().kind != ErrorKind::not_found) return std::unexpected(document.error());
    json::Node const* const node = document ? member_of(*document, "storage") : nullptr;
    if (auto const* const object = node ? node->get<json::Object>() : nullptr) {
        std::string const backend = text_of(*object, "backend");
        if (!backend.empty() && backend != "auto") settings.backend = TRY(storage::parse_backend(backend));
        if (std::string path = text_of(*object, "path"); !path.empty()) settings.path = layout.root + path;
        settings.dataset = text_of(*object, "dataset");
    }
    return storage::open_pool(settings);
}

}  // namespace triton::program
