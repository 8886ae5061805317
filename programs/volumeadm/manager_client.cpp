#include "programs/volumeadm/manager_client.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "host/content/database.h"
#include "host/image/site.h"
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

/// The core without a process: what the rows say.
Result<volume::Core> load_core(Options const& options) {
    image::Site const site = TRY(image::read_site({.root = options.root}));
    volume::Core core{{}};
    std::string const path = site.content + "/content.db";
    if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return core;
    auto database = TRY(content::Database::open_for_reading(path));
    auto rows = TRY(volume::Rows::open_for_reading(database));
    if (!rows) return core;
    volume::AllRows all = TRY(rows->load());
    volume::Loaded loaded{.volumes = std::move(all.volumes), .trees = std::move(all.trees)};
    for (volume::Config& config : all.configs) {
        if (auto* const one = std::get_if<volume::VolumeConfig>(&config)) loaded.objects.emplace_back(std::move(*one));
        if (auto* const one = std::get_if<volume::TreeConfig>(&config)) loaded.objects.emplace_back(std::move(*one));
        if (auto* const one = std::get_if<volume::ReferenceConfig>(&config))
            loaded.objects.emplace_back(std::move(*one));
        if (auto* const one = std::get_if<volume::CertificatesConfig>(&config))
            loaded.objects.emplace_back(std::move(*one));
    }
    core.on(loaded, volume::BootTime(0));
    return core;
}

Result<json::Object> object_of_text(std::string const& text) {
    json::ProblemList problems(1);
    auto node = json::read_json(text, {}, problems);
    auto const* const object = node ? node->get<json::Object>() : nullptr;
    if (!object) return fail(ErrorKind::internal, "a status is no object");
    return *object;
}

/// What the core publishes when it begins is the status of everything that it knows.
Result<Statuses> statuses_of(volume::Core& core, std::string_view kind) {
    Statuses statuses;
    for (volume::Action const& action : core.take()) {
        json::Writer out;
        std::string key;
        if (auto const* const one = std::get_if<volume::PublishVolume>(&action); one && kind == "VolumeStatus") {
            // Nothing was tried, so that what it would have failed with now is no news.
            volume::VolumeStatus status = one->status;
            status.error.reset();
            key = status.key.text();
            write_status(out, status, core.config(status.key), core.row(status.key));
        } else if (auto const* const tree = std::get_if<volume::PublishTree>(&action);
                   tree && kind == "ContentTreeStatus") {
            volume::TreeStatus status = tree->status;
            status.error.reset();
            key = status.id;
            write_status(out, status, core.config(status.id));
        } else if (auto const* const holder = std::get_if<volume::PublishCertificates>(&action);
                   holder && kind == "CertObjStatus") {
            key = holder->status.key.text();
            write_status(out, holder->status, core.config(holder->status.key));
        } else {
            continue;
        }
        statuses.insert_or_assign(key, TRY(object_of_text(std::move(out).text())));
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
        volume::Core core = TRY(load_core(options));
        return statuses_of(core, kind);
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
        volume::Core const core = TRY(load_core(options));
        auto const parsed = volume::VolumeKey::parse(key);
        auto lines = kind == "VolumeConfig" && parsed ? core.why(*parsed) : core.why(key);
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
