// Commands that publish what the operator wants.

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "host/image/uuid.h"
#include "lib/base/size.h"
#include "lib/json/lookup.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "programs/volumeadm/command_line.h"
#include "programs/volumeadm/manager_client.h"
#include "programs/volumeadm/publish.h"

namespace triton::program {

namespace {

using namespace volume;

Result<std::uint64_t> size_in(std::string const& text) {
    if (text.empty()) return 0;
    auto const size = parse_size(text);
    if (!size) return fail(json::shown(text) + " is no size; 4Gi, for example");
    return *size;
}

std::optional<TimePoint> deadline_of(Options const& options) {
    if (options.timeout <= 0) return std::nullopt;
    return steady_now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.timeout));
}

}  // namespace

void add_wait_options(CLI::App& app, Options& options) {
    app.add_flag("--no-wait", options.does_not_wait, "Ends when it is noted, not when it is done.");
    app.add_option("--timeout", options.timeout,
                   "Ends with exit code 4 after so many seconds; it goes on all the same.");
}

namespace {

/// Waits until an object is as it should be. A failure that only the operator can mend ends that.
Result<> wait_for(Options const& options, std::string_view kind, std::string const& key, std::string_view state) {
    auto client = TRY(ManagerClient::connect(options));
    bool is_there = false;
    return client.watch(kind, key, true, deadline_of(options), [&](Told const& told) -> Result<bool> {
        if (told.is_complete) return is_there || !state.empty();
        is_there = told.object.has_value();
        if (!is_there) return !state.empty();
        auto const& error = json::object_of(*told.object, "Error");
        if (json::text_of(error, "Class") == "permanent") return fail(ErrorKind::refused, json::text_of(error, "Text"));
        if (json::text_of(*told.object, "State") != state) return true;
        std::string const sub = json::text_of(*told.object, "SubState");
        return !sub.empty() && sub != "Created";
    });
}

Result<std::string> meant_volume(Options const& options, std::string const& word) {
    return find_volume(TRY(read_statuses(options, "VolumeStatus")), word);
}

Result<VolumeKey> meant_key(Options const& options, std::string const& word) {
    std::string const text = TRY(meant_volume(options, word));
    auto const key = VolumeKey::parse(text);
    if (!key) return fail(ErrorKind::internal, text + " is no key");
    return *key;
}

// --- create

void add_create_options(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_option("--uuid", options.uuid, "Its UUID; default: a new one.");
    app.add_option("--generation", options.generation, "Its generation; default: 0.");
    app.add_option("--size", options.size, "The most that it holds: 4Gi. A file needs one.");
    app.add_option("--layout", options.layout, "directory (default) or file.");
    app.add_option("--content", options.content, "The content tree that it begins with.");
    app.add_option("--format", options.format, "raw: content of another format is converted.");
    app.add_option("--user-data", options.user_data,
                   "A seed image for cloud-init with this user data, a file that only root can read.");
    app.add_option("--network-config", options.network, "Likewise, its network configuration.");
    app.add_flag("--read-only", options.is_read_only, "Nobody writes it; several may use one file.");
    app.add_flag("--encrypted", options.is_encrypted, "Only in the vault.");
    add_wait_options(app, options);
}

}  // namespace

Outcome publish_volume(Options const& options, VolumeConfig config) {
    std::string const key = config.key.text();
    auto client = TRY(ManagerClient::connect(options));
    TRY(client.put({std::move(config)}));
    TRY(print(key + "\n"));
    if (options.does_not_wait) return {};
    return wait_for(options, "VolumeStatus", key, "CREATED_VOLUME");
}

namespace {

/// The manager has another working directory.
Result<std::string> absolute_path(std::string const& path) {
    std::error_code error;
    auto absolute = std::filesystem::canonical(path, error);
    if (error) return fail(error.value(), "find " + path);
    return absolute.string();
}

Result<VolumeConfig> config_of(Options const& options) {
    VolumeConfig config{.publisher = std::string(own_publisher)};
    auto const uuid = options.uuid.empty() ? std::optional(TRY(Uuid::random())) : Uuid::parse(options.uuid);
    if (!uuid) return fail(json::shown(options.uuid) + " is no UUID");
    config.key = {*uuid, options.generation};
    if (!options.words.empty()) config.display_name = options.words.back();
    config.most_bytes = TRY(size_in(options.size));
    if (!options.layout.empty()) {
        config.layout = parse_layout(options.layout);
        if (!config.layout) return fail("--layout is directory or file");
    }
    config.content = options.content;
    if (!config.content.empty()) config.origin = Origin::download;
    if (!options.format.empty()) {
        config.format = parse_format(options.format);
        if (config.format != Format::raw) return fail("--format is raw, or not given");
    }
    if (!options.user_data.empty()) {
        config.origin = Origin::cloud_init;
        config.user_data = TRY(absolute_path(options.user_data));
        if (!options.network.empty()) config.network = TRY(absolute_path(options.network));
    }
    config.is_read_only = options.is_read_only;
    config.is_encrypted = options.is_encrypted;
    return config;
}

Outcome run_create(Options const& options) {
    TRY(expect_words(options, "create", 0, 1));
    return publish_volume(options, TRY(config_of(options)));
}

void add_clone_options(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_option("--uuid", options.uuid, "Its UUID; default: a new one.");
    app.add_option("--size", options.size, "The most that it holds; default: that of its source.");
    add_wait_options(app, options);
}

Outcome run_clone(Options const& options) {
    TRY(expect_words(options, "clone", 1, 2));
    Statuses const statuses = TRY(read_statuses(options, "VolumeStatus"));
    std::string const source = TRY(find_volume(statuses, options.words.front()));
    VolumeConfig config = TRY(config_of(options));
    if (options.words.size() < 2) config.display_name.clear();
    config.origin = Origin::clone;
    config.source = VolumeKey::parse(source);
    if (config.most_bytes == 0)
        config.most_bytes = static_cast<std::uint64_t>(json::number_of(statuses.at(source), "MaxVolSize").value_or(0));
    return publish_volume(options, std::move(config));
}

/// The configuration of a volume that the operator has published.
Result<VolumeConfig> read_own_config(ManagerClient& client, std::string const& key) {
    json::Writer out;
    json::Object const answer =
        TRY(client.call("Get", out.open('{').member("kind", "VolumeConfig").member("key", key).close('}').text()));
    Config config = TRY(read_config("VolumeConfig", json::object_of(answer, "object"), own_publisher));
    return std::get<VolumeConfig>(std::move(config));
}

void add_grow_options(CLI::App& app, Options& options) {
    add_words(app, options);
    add_wait_options(app, options);
}

Outcome run_grow(Options const& options) {
    TRY(expect_words(options, "grow", 2, 2));
    std::string const key = TRY(meant_volume(options, options.words.front()));
    std::uint64_t const bytes = TRY(size_in(options.words[1]));
    auto client = TRY(ManagerClient::connect(options));
    VolumeConfig config = TRY(read_own_config(client, key));
    if (bytes < config.most_bytes)
        return fail(ErrorKind::refused,
                    "volume " + key + " has " + std::to_string(config.most_bytes) + " bytes, and cannot shrink");
    config.most_bytes = bytes;
    TRY(client.put({std::move(config)}));
    if (options.does_not_wait) return {};
    return client.watch("VolumeStatus", key, true, deadline_of(options), [&](Told const& told) -> Result<bool> {
        if (told.is_complete) return true;
        if (!told.object) return fail(ErrorKind::not_found, "volume " + key + " has been deleted");
        auto const& error = json::object_of(*told.object, "Error");
        if (json::text_of(error, "Class") == "permanent") return fail(ErrorKind::refused, json::text_of(error, "Text"));
        return json::number_of(*told.object, "MaxVolSize") != static_cast<std::int64_t>(bytes);
    });
}

// --- users, deletion

void add_attach_options(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("--verify-only", options.is_verify_only, "Its content is fetched and verified; it is not made yet.");
}

Outcome run_attach(Options const& options) {
    TRY(expect_words(options, "attach", 2, 2));
    ReferenceConfig config{.key = {TRY(meant_key(options, options.words[0])), options.words[1]},
                           .publisher = std::string(own_publisher),
                           .is_verify_only = options.is_verify_only};
    auto client = TRY(ManagerClient::connect(options));
    return client.put({std::move(config)});
}

Outcome run_detach(Options const& options) {
    TRY(expect_words(options, "detach", 2, 2));
    ReferenceKey const key{TRY(meant_key(options, options.words[0])), options.words[1]};
    auto client = TRY(ManagerClient::connect(options));
    return client.remove("VolumeRefConfig", key.text());
}

void add_delete_options(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-c,--content", options.is_of_content, "A content tree instead of a volume.");
    add_wait_options(app, options);
}

Outcome run_delete(Options const& options) {
    TRY(expect_words(options, "delete", 1, 1));
    std::string const key =
        options.is_of_content ? options.words.front() : TRY(meant_volume(options, options.words.front()));
    auto client = TRY(ManagerClient::connect(options));
    TRY(client.remove(options.is_of_content ? "ContentTreeConfig" : "VolumeConfig", key));
    // Content stays as long as volumes are made from it.
    if (options.does_not_wait || options.is_of_content) return {};
    return wait_for(options, "VolumeStatus", key, "");
}

// --- snapshots

Outcome call_on_snapshot(Options const& options, std::string_view command, std::string_view method) {
    TRY(expect_words(options, command, 2, 2));
    std::string const key = TRY(meant_volume(options, options.words[0]));
    auto client = TRY(ManagerClient::connect(options));
    json::Writer out;
    TRY(client.call(method, out.open('{').member("key", key).member("name", options.words[1]).close('}').text()));
    return {};
}

Outcome run_snapshot(Options const& options) { return call_on_snapshot(options, "snapshot", "Snapshot"); }
Outcome run_rollback(Options const& options) { return call_on_snapshot(options, "rollback", "Rollback"); }
Outcome run_delete_snapshot(Options const& options) {
    return call_on_snapshot(options, "delete-snapshot", "DeleteSnapshot");
}

void add_snapshots_options(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-j,--json", options.as_json, "JSON instead of names.");
}

Outcome run_snapshots(Options const& options) {
    TRY(expect_words(options, "snapshots", 1, 1));
    std::string const key = TRY(meant_volume(options, options.words[0]));
    auto client = TRY(ManagerClient::connect(options));
    json::Writer out;
    json::Object const answer = TRY(client.call("Snapshots", out.open('{').member("key", key).close('}').text()));
    json::Writer shown;
    shown.list(json::list_of(answer, "snapshots"));
    std::string text = options.as_json ? std::move(shown).text() + "\n" : "";
    for (json::Node const& node : json::list_of(answer, "snapshots")) {
        auto const* const one = node.get<json::Object>();
        if (one && !options.as_json) text += text::printable(json::text_of(*one, "name")) + "\n";
    }
    TRY(print(text));
    return {};
}

// --- scrub

void add_scrub_options(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-j,--json", options.as_json, "JSON instead of lines.");
}

Outcome run_scrub(Options const& options) {
    TRY(expect_words(options, "scrub", 0, 0));
    auto client = TRY(ManagerClient::connect(options));
    json::Object const answer = TRY(client.call("Scrub", "{}"));
    json::Array const bad = json::list_of(answer, "bad");
    json::Array const missing = json::list_of(answer, "missing");
    std::string text;
    if (options.as_json) {
        json::Writer out;
        out.value(answer);
        text = std::move(out).text() + "\n";
    } else {
        for (json::Node const& node : bad) {
            auto const* const blob = node.get<json::Object>();
            if (!blob) continue;
            text += text::printable(json::text_of(*blob, "digest") + ": " + json::text_of(*blob, "reason"));
            for (json::Node const& owner : json::list_of(*blob, "owners"))
                if (auto const* const name = owner.get<std::string>()) text += text::printable(", of " + *name);
            text += "\n";
        }
        for (json::Node const& node : missing)
            if (auto const* const line = node.get<std::string>()) text += text::printable(*line) + "\n";
        for (json::Node const& node : json::list_of(answer, "fetched_again"))
            if (auto const* const content = node.get<std::string>())
                text += text::printable("content tree " + *content + " is fetched again") + "\n";
        auto const count = [&answer](std::string_view name) {
            return std::to_string(static_cast<std::uint64_t>(json::number_of(answer, name).value_or(0)));
        };
        text += count("blobs") + " blobs, " + count("bytes") + " bytes: " + std::to_string(bad.size()) + " bad; " +
                std::to_string(missing.size()) + " volumes without their content\n";
    }
    TRY(print(text));
    if (bad.empty() && missing.empty()) return {};
    return fail(ErrorKind::corrupt, "something is damaged");
}

// --- import

void add_import_options(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_option("--sha256", options.sha256, "Its digest; everything but containers needs one.");
    app.add_option("--size", options.size, "The most that is downloaded: 2Gi. Everything but containers needs one.");
    app.add_option("--format", options.format, "raw (default for files), iso, qcow2, .., or container.");
    app.add_option("--credentials", options.credentials, "A file that only root can read: USER:PASSWORD, or a token.");
    app.add_flag("--insecure", options.is_insecure, "A registry may be asked over plain HTTP.");
    app.add_option("--signature", options.signature,
                   "It must be signed: minisign, openpgp, openpgp-sums, cms or x509.");
    app.add_option("--keys", options.keys, "A file of public keys, for minisign and OpenPGP.");
    app.add_option("--certificates", options.certificates, "The UUID of a CertObjConfig, for cms and x509.");
    add_wait_options(app, options);
}

/// Splits what the user has named into a datastore and a name in it.
Result<std::pair<DatastoreConfig, std::string>> place_of(std::string const& text) {
    DatastoreConfig datastore{.publisher = std::string(own_publisher)};
    std::string name;
    if (text.starts_with("/")) {
        std::size_t const slash = text.rfind('/');
        datastore.type = DatastoreConfig::Type::directory;
        datastore.address = text.substr(0, std::max<std::size_t>(slash, 1));
        name = text.substr(slash + 1);
    } else if (std::size_t const scheme = text.find("://"); scheme != std::string::npos) {
        std::size_t const slash = std::min(text.find('/', scheme + 3), text.size());
        datastore.type = DatastoreConfig::Type::http;
        datastore.address = text.substr(0, slash);
        name = text.substr(std::min(slash + 1, text.size()));
    } else {
        std::size_t const slash = std::min(text.find('/'), text.size());
        datastore.type = DatastoreConfig::Type::registry;
        datastore.address = text.substr(0, slash);
        name = text.substr(std::min(slash + 1, text.size()));
    }
    if (name.empty())
        return fail(json::shown(text) + " names no content; https://HOST/PATH, HOST/REPOSITORY:TAG or /PATH");
    return std::pair(std::move(datastore), std::move(name));
}

/// What the options demand of signatures; the datastore calls them what is usual.
Result<std::optional<SignatureConfig>> signature_of(Options const& options) {
    if (options.signature.empty()) {
        if (!options.keys.empty()) return fail("--keys needs --signature");
        if (!options.certificates.empty()) return fail("--certificates needs --signature");
        return std::nullopt;
    }
    auto const kind = parse_signature_kind(options.signature);
    if (!kind) return fail("--signature is minisign, openpgp, openpgp-sums, cms or x509");
    SignatureConfig signature{.kind = *kind};
    if (has_certificates(*kind)) {
        signature.holder = HolderKey::parse(options.certificates);
        if (!signature.holder) return fail("--signature " + options.signature + " needs --certificates UUID");
    } else {
        if (options.keys.empty()) return fail("--signature " + options.signature + " needs --keys FILE");
        signature.keys = TRY(absolute_path(options.keys));
    }
    return signature;
}

Outcome run_import(Options const& options) {
    TRY(expect_words(options, "import", 2, 2));
    auto [datastore, name] = TRY(place_of(options.words[1]));
    bool const is_registry = datastore.type == DatastoreConfig::Type::registry;
    auto const format = parse_format(!options.format.empty() ? std::string_view(options.format)
                                     : is_registry           ? "container"
                                                             : "raw");
    if (!format) return fail("there is no format " + json::shown(options.format));
    datastore.credentials = options.credentials;
    datastore.is_insecure = options.is_insecure;
    // The same place is the same datastore, whoever names it; one that is asked in another way is another one, since
    // what was imported before is fetched again in its own way.
    std::string const way = datastore.is_insecure ? " over plain HTTP" : "";
    datastore.id =
        image::uuid_of_name(image::image_space(), "datastore " + datastore.address + way + " " + datastore.credentials);
    TreeConfig tree{.id = options.words.front(), .publisher = std::string(own_publisher)};
    tree.name = name;
    if (!options.sha256.empty()) tree.digest = "sha256:" + options.sha256;
    tree.format = *format;
    tree.most_bytes = TRY(size_in(options.size));
    tree.datastores = {datastore.id};
    tree.signature = TRY(signature_of(options));
    auto client = TRY(ManagerClient::connect(options));
    TRY(client.put({std::move(datastore), std::move(tree)}));
    if (options.does_not_wait) return {};
    return wait_for(options, "ContentTreeStatus", options.words.front(), "LOADED");
}

// --- the whole

void add_gc_options(CLI::App& app, Options& options) {
    app.add_flag("-n,--dry-run", options.is_dry_run, "Only says what it would do.");
}

Outcome run_gc(Options const& options) {
    TRY(expect_words(options, "gc", 0, 0));
    auto client = TRY(ManagerClient::connect(options));
    json::Writer out;
    json::Object const answer =
        TRY(client.call("Collect", out.open('{').member("dry_run", options.is_dry_run).close('}').text()));
    std::string text;
    for (json::Node const& node : json::list_of(answer, "victims")) {
        auto const* const victim = node.get<json::Object>();
        if (!victim) continue;
        std::string const what = !json::flag_of(*victim, "collected") ? "stays"
                                 : options.is_dry_run                 ? "would go"
                                                                      : "goes";
        text += text::printable("volume " + json::text_of(*victim, "key") + " " + what + ": " +
                                json::text_of(*victim, "reason")) +
                "\n";
    }
    TRY(print(text));
    return {};
}

Outcome run_retry(Options const& options) {
    auto client = TRY(ManagerClient::connect(options));
    TRY(client.call("Retry", "{}"));
    return {};
}

Outcome run_maintenance(Options const& options) {
    TRY(expect_words(options, "maintenance", 1, 1));
    std::string const& word = options.words.front();
    if (word != "on" && word != "off") return fail("maintenance is on or off");
    auto client = TRY(ManagerClient::connect(options));
    json::Writer out;
    TRY(client.call("Maintenance", out.open('{').member("on", word == "on").close('}').text()));
    return {};
}

}  // namespace

std::span<Command const> change_commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"create", "[NAME] [--size SIZE] [..]", "makes a volume", "volumeadm create --layout file --size 4Gi disk",
         add_create_options, run_create},
        {"clone", "VOLUME [NAME] [--size SIZE]", "makes a volume with the content of another one",
         "volumeadm clone data data-2", add_clone_options, run_clone},
        {"grow", "VOLUME SIZE", "makes a volume larger", "volumeadm grow disk 8Gi", add_grow_options, run_grow},
        {"attach", "VOLUME USER [--verify-only]", "notes that somebody uses it; it then stays",
         "volumeadm attach data web", add_attach_options, run_attach},
        {"detach", "VOLUME USER", "takes that back", "volumeadm detach data web", add_words, run_detach},
        {"delete", "VOLUME [-c]", "removes a volume, or gives up a content tree", "volumeadm delete data",
         add_delete_options, run_delete},
        {"snapshot", "VOLUME NAME", "keeps what it has now under a name", "volumeadm snapshot data before-upgrade",
         add_words, run_snapshot},
        {"snapshots", "VOLUME [-j]", "lists its snapshots, oldest first", "volumeadm snapshots data",
         add_snapshots_options, run_snapshots},
        {"rollback", "VOLUME NAME", "gives a volume the content of its snapshot",
         "volumeadm rollback data before-upgrade", add_words, run_rollback},
        {"delete-snapshot", "VOLUME NAME", "removes a snapshot", "volumeadm delete-snapshot data before-upgrade",
         add_words, run_delete_snapshot},
        {"import", "CONTENT WHERE [..]", "fetches content for volumes",
         "volumeadm import alpine docker.io/library/alpine:3.20", add_import_options, run_import},
        {"gc", "[-n]", "removes what nobody claims", "volumeadm gc -n", add_gc_options, run_gc},
        {"scrub", "[-j]", "reads all content, and fetches again what is bad", "volumeadm scrub", add_scrub_options,
         run_scrub},
        {"retry", "", "tries everything again that waits", "volumeadm retry", add_nothing, run_retry},
        {"maintenance", "on | off", "while it is on, nothing is collected", "volumeadm maintenance on", add_words,
         run_maintenance},
    });
    return rows;
}

}  // namespace triton::program
