#include "programs/volumeadm/manager_client.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "host/content/database.h"
#include "host/image/site.h"
#include "host/volume/blobs.h"
#include "host/volume/core.h"
#include "host/volume/keep/rows.h"
#include "lib/base/error_kinds.h"
#include "lib/json/lookup.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"

namespace triton::program {

namespace {

constexpr Duration connect_limit = std::chrono::seconds(10);
constexpr std::string_view interface_prefix = "org.tritonlaunch.Volumes.";

std::string socket_of(Options const& options) {
    return options.socket.empty() ? options.root + "/run/triton/volumemgr.socket" : options.socket;
}

/// An error of volumemgr is one of the command: it has said what and why.
Error reply_error(varlink::Reply const& reply) {
    std::string reason = json::text_of(reply.parameters, "reason");
    bool const is_ours = reply.error.starts_with(interface_prefix);
    if (!is_ours || reason.empty()) reason = "volumemgr refuses the call: " + reply.error;
    Error error{reply.error.ends_with(".Refused") ? ErrorKind::busy : ErrorKind::refused, {}, std::move(reason), {}, 0};
    for (json::Node const& node : json::list_of(reply.parameters, "details"))
        if (auto const* const detail = node.get<std::string>()) error.details.push_back(*detail);
    return error;
}

/// What the rows say, without a process.
struct Known {
    volume::Core core{{}};
    std::map<std::string, std::vector<volume::BlobStatus>> blobs = {};
};

Result<Known> load(Options const& options) {
    image::Site const site = TRY(image::read_site({.root = options.root}));
    Known known;
    std::string const path = site.content + "/content.db";
    if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return known;
    auto database = TRY(content::Database::open_for_reading(path));
    auto rows = TRY(volume::Rows::open_for_reading(database));
    if (!rows) return known;
    volume::AllRows all = TRY(rows->load());
    volume::Loaded loaded{
        .volumes = std::move(all.volumes), .trees = std::move(all.trees), .snapshots = std::move(all.snapshots)};
    struct Keep {
        volume::Loaded& into;
        void operator()(volume::VolumeConfig const& one) const { into.objects.emplace_back(one); }
        void operator()(volume::TreeConfig const& one) const { into.objects.emplace_back(one); }
        void operator()(volume::ReferenceConfig const& one) const { into.objects.emplace_back(one); }
        void operator()(volume::CertificatesConfig const& one) const { into.objects.emplace_back(one); }
        void operator()(volume::SnapshotConfig const& one) const { into.objects.emplace_back(one); }
        void operator()(volume::DatastoreConfig const& /*one*/) const {}
    };
    for (volume::Config const& config : all.configs)
        std::visit(Keep{loaded}, config);
    known.core.on(loaded, volume::BootTime(0));
    known.blobs = std::move(all.blobs);
    return known;
}

Result<json::Object> object_of_text(std::string const& text) {
    json::ProblemList problems(1);
    auto node = json::read_json(text, {}, problems);
    auto const* const object = node ? node->get<json::Object>() : nullptr;
    if (!object) return fail(ErrorKind::internal, "a status is no object");
    return *object;
}

/// The blobs of all content trees.
volume::Blobs blobs_of(Known const& known, std::vector<volume::Action> const& actions) {
    volume::Blobs blobs;
    for (volume::Action const& action : actions) {
        auto const* const tree = std::get_if<volume::PublishTree>(&action);
        if (!tree) continue;
        volume::TreeStatus status = tree->status;
        status.error.reset();
        volume::TreeConfig const* const config = known.core.config(status.id);
        bool const is_whole = config && layout_of(config->format) == volume::Layout::file;
        blobs.follow(status, config ? config->name : "", is_whole);
    }
    for (auto const& [content, of_content] : known.blobs)
        blobs.set(content, of_content);
    return blobs;
}

/// Writes the status that an action publishes, if it is of that kind. Returns its key; empty: it is not. Nothing was
/// tried, so that what would have failed now is no news.
std::string write_published(json::Writer& out, volume::Action const& action, std::string_view kind, Known const& known,
                            volume::Blobs const& blobs) {
    volume::Core const& core = known.core;
    if (auto const* const one = std::get_if<volume::PublishVolume>(&action); one && kind == "VolumeStatus") {
        volume::VolumeStatus status = one->status;
        status.error.reset();
        volume::VolumeRow const* const row = core.row(status.key);
        volume::VolumeConfig const* const config = core.config(status.key);
        std::string const content = row ? row->content : config ? config->content : std::string();
        write_status(out, status, config, row, blobs.of(content));
        return status.key.text();
    }
    if (auto const* const tree = std::get_if<volume::PublishTree>(&action); tree && kind == "ContentTreeStatus") {
        volume::TreeStatus status = tree->status;
        status.error.reset();
        write_status(out, status, core.config(status.id));
        return status.id;
    }
    if (auto const* const one = std::get_if<volume::PublishSnapshot>(&action); one && kind == "VolumesSnapshotStatus") {
        volume::SnapshotStatus status = one->status;
        status.error.reset();
        write_status(out, status);
        return status.key.text();
    }
    auto const* const holder = std::get_if<volume::PublishCertificates>(&action);
    if (!holder || kind != "CertObjStatus") return {};
    write_status(out, holder->status, core.config(holder->status.key));
    return holder->status.key.text();
}

/// What the core publishes when it begins is the status of everything that it knows.
Result<Statuses> statuses_of(Known& known, std::string_view kind) {
    Statuses statuses;
    std::vector<volume::Action> const actions = known.core.take();
    volume::Blobs blobs = blobs_of(known, actions);
    for (volume::Action const& action : actions) {
        json::Writer out;
        std::string const key = write_published(out, action, kind, known, blobs);
        if (!key.empty()) statuses.insert_or_assign(key, TRY(object_of_text(std::move(out).text())));
    }
    if (kind != "BlobStatus") return statuses;
    for (std::string const& digest : blobs.take_changed()) {
        auto const blob = blobs.find(digest);
        if (!blob) continue;
        json::Writer out;
        write_status(out, *blob);
        statuses.insert_or_assign(digest.substr(digest.find(':') + 1), TRY(object_of_text(std::move(out).text())));
    }
    return statuses;
}

}  // namespace

Result<ManagerClient> ManagerClient::connect(Options const& options) {
    std::string const path = socket_of(options);
    auto connection = varlink::Connection::connect(path, connect_limit);
    if (connection) return ManagerClient(*std::move(connection));
    Error error{
        ErrorKind::unavailable, {}, "volumemgr does not answer at " + path + ": " + connection.error().reason, {}, 0};
    error.details.emplace_back("systemctl start volumemgr.socket starts it.");
    return std::unexpected(std::move(error));
}

Result<json::Object> ManagerClient::read(std::optional<TimePoint> deadline) {
    auto reply = connection_.reply(deadline);
    if (!reply && reply.error() == varlink::Connection::Silence::timed_out)
        return fail(ErrorKind::timeout, "it has taken too long");
    if (!reply) return fail(ErrorKind::unavailable, "volumemgr has ended the connection");
    if (!reply->error.empty()) return std::unexpected(reply_error(*reply));
    return std::move(reply->parameters);
}

Result<json::Object> ManagerClient::call(std::string_view method, std::string const& parameters) {
    connection_.call(std::string(interface_prefix) + std::string(method), parameters, false);
    return read({});
}

Result<> ManagerClient::put(std::vector<volume::Config> const& configs) {
    json::Writer out;
    out.open('{').member("publisher", own_publisher).key("objects").open('[');
    for (volume::Config const& config : configs)
        out.open('{').member("kind", kind_of(config)).key("config").raw(config_text(config)).close('}');
    TRY(call("Put", out.close(']').close('}').text()));
    return {};
}

Result<> ManagerClient::remove(std::string_view kind, std::string const& key) {
    json::Writer out;
    out.open('{').member("publisher", own_publisher).key("objects").open('[');
    out.open('{').member("kind", kind).member("key", key).close('}');
    TRY(call("Delete", out.close(']').close('}').text()));
    return {};
}

Result<> ManagerClient::watch(std::string_view kind, std::string_view key, bool follows,
                              std::optional<TimePoint> deadline, std::function<Result<bool>(Told const&)> const& told) {
    json::Writer out;
    out.open('{').member("follow", follows);
    if (!kind.empty()) out.member("kind", kind);
    if (!key.empty()) out.member("key", key);
    connection_.call(std::string(interface_prefix) + "Watch", out.close('}').text(), true);
    for (;;) {
        json::Object const reply = TRY(read(deadline));
        Told one{.kind = json::text_of(reply, "kind"), .key = json::text_of(reply, "key"), .object = {}};
        one.is_complete = json::flag_of(reply, "complete");
        if (auto const* const object = json::value_of<json::Object>(reply, "object")) one.object = *object;
        if (!TRY(told(one)) || (one.is_complete && !follows)) return {};
    }
}

Result<Statuses> read_statuses(Options const& options, std::string_view kind) {
    auto client = ManagerClient::connect(options);
    if (!client) {
        Known known = TRY(load(options));
        return statuses_of(known, kind);
    }
    Statuses statuses;
    TRY(client->watch(
        kind, "", false, {},
        [&statuses](Told const& told) -> Result<bool> {
            if (told.object) statuses.insert_or_assign(told.key, *told.object);
            return true;
        }));
    return statuses;
}

Result<std::vector<std::string>> read_why(Options const& options, std::string_view kind, std::string const& key) {
    auto client = ManagerClient::connect(options);
    if (!client) {
        Known const known = TRY(load(options));
        auto const parsed = volume::VolumeKey::parse(key);
        auto const holder = kind == "CertObjConfig" ? volume::HolderKey::parse(key) : std::nullopt;
        auto lines = holder                             ? known.core.why(*holder)
                     : kind == "VolumeConfig" && parsed ? known.core.why(*parsed)
                                                        : known.core.why(key);
        lines.emplace_back("volumemgr does not run");
        return lines;
    }
    json::Writer out;
    json::Object const answer =
        TRY(client->call("Why", out.open('{').member("kind", kind).member("key", key).close('}').text()));
    std::vector<std::string> lines;
    for (json::Node const& node : json::list_of(answer, "lines"))
        if (auto const* const line = node.get<std::string>()) lines.push_back(*line);
    return lines;
}

Result<std::string> find_volume(Statuses const& statuses, std::string_view word) {
    std::vector<std::string> found;
    for (auto const& [key, status] : statuses) {
        if (key == word) return key;
        if (json::text_of(status, "DisplayName") == word || key.starts_with(word)) found.push_back(key);
    }
    if (found.size() == 1 && !word.empty()) return found.front();
    if (found.empty()) return fail(ErrorKind::not_found, "there is no volume " + json::shown(word));
    Error error{
        ErrorKind::invalid, {}, json::shown(word) + " means " + std::to_string(found.size()) + " volumes", {}, 0};
    for (std::string const& key : found) {
        if (error.details.size() < 10) error.details.push_back(key);
    }
    return std::unexpected(std::move(error));
}

}  // namespace triton::program
