#include "host/image/site.h"

#include <array>
#include <ctime>
#include <span>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/read_file.h"
#include "lib/base/write_all.h"
#include "lib/files/copy_file.h"
#include "lib/files/pending_file.h"
#include "lib/json/table.h"
#include "lib/json/text.h"
#include "lib/json/values.h"
#include "lib/json/writer.h"

namespace triton::image {

namespace {

using json::as;

constexpr std::size_t largest_configuration = 1 << 20;

struct SiteReading : json::Reading {
    SiteReading() : json::Reading(20) {}
};

struct StorageKeys {
    std::string backend = "auto";
    std::string path;
    std::string dataset;
};

constexpr std::array<std::string_view, 5> backends{"auto", "zfs", "btrfs", "reflink", "directory"};
std::optional<std::string> read_backend(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto const index = json::read_choice_index(node, at, backends, reading);
    return index ? std::optional(std::string(backends[*index])) : std::nullopt;
}
constexpr json::Shape backend_text{.types = "string", .choices = backends};
using BackendText = json::Kind<read_backend, backend_text>;

std::span<json::Field<StorageKeys, SiteReading> const> table(json::TableOf<StorageKeys, SiteReading>) {
    static constexpr std::array<json::Field<StorageKeys, SiteReading>, 3> rows{{
        {.name = "backend", .value = as<&StorageKeys::backend, BackendText>, .description = "How trees are kept."},
        {.name = "path", .value = as<&StorageKeys::path, json::Path>, .description = "The directory of the pool."},
        {.name = "dataset", .value = as<&StorageKeys::dataset, json::Text>, .description = "Of ZFS."},
    }};
    return rows;
}
constexpr json::Shape storage_shape = json::object_shape("Storage");

struct VolumesKeys {
    std::optional<StorageKeys> vault;
};
std::span<json::Field<VolumesKeys, SiteReading> const> table(json::TableOf<VolumesKeys, SiteReading>) {
    static constexpr std::array<json::Field<VolumesKeys, SiteReading>, 1> rows{{
        {.name = "vault",
         .value = as<&VolumesKeys::vault, json::Record<StorageKeys, storage_shape>>,
         .description = "A second pool, in an encrypted directory."},
    }};
    return rows;
}
constexpr json::Shape volumes_shape = json::object_shape("Volumes");

struct HostKeys {
    StorageKeys storage;
    VolumesKeys volumes;
};
std::span<json::Field<HostKeys, SiteReading> const> table(json::TableOf<HostKeys, SiteReading>) {
    static constexpr std::array<json::Field<HostKeys, SiteReading>, 2> rows{{
        {.name = "volumes",
         .value = as<&HostKeys::volumes, json::Record<VolumesKeys, volumes_shape>>,
         .description = "Where encrypted volumes are kept."},
        {.name = "storage",
         .value = as<&HostKeys::storage, json::Record<StorageKeys, storage_shape>>,
         .description = "Where trees of files are kept."},
    }};
    return rows;
}

Result<HostKeys> read_host_keys(std::string const& path) {
    auto const text = read_file(path, largest_configuration);
    if (!text && text.error().kind == ErrorKind::not_found) return HostKeys{};
    if (!text) return std::unexpected(text.error());
    SiteReading reading;
    std::optional<HostKeys> keys;
    if (auto const node = json::read_json(*text, json::Limits{}, reading.problems))
        keys = json::read_object<HostKeys>(*node, json::Where{}, reading);
    if (keys && reading.problems.empty()) return *std::move(keys);
    Error error{.kind = ErrorKind::invalid, .attempted = {}, .reason = path + " is not a configuration", .details = {}};
    for (json::Problem const& problem : std::move(reading.problems).take())
        error.details.push_back(problem.text());
    return std::unexpected(std::move(error));
}

/// A host has one pool. A command that names another one is refused: it would work on images which were not meant.
Result<> check_pool(Settings const& settings, storage::Settings const& storage) {
    std::string const& dataset = storage.dataset;
    bool const is_ours =
        settings.pool.empty() || settings.root + settings.pool == storage.path ||
        (!dataset.empty() && (settings.pool == dataset || settings.pool == dataset.substr(0, dataset.find('/'))));
    if (is_ours) return {};
    std::string const known = dataset.empty() ? storage.path.substr(settings.root.size()) : dataset;
    return fail("this host has no pool " + json::quoted(settings.pool) + ": its images are in " + known +
                " (\"storage\" in " + settings.configuration + ")");
}

/// Below another root a dataset that this host uses is refused: its trees are those of machines that run here, and have
/// the uuids of the machines whose files are below that root.
Result<> check_dataset(Settings const& settings, std::string const& dataset) {
    if (settings.root.empty() || dataset.empty()) return {};
    std::string const ours = TRY(read_host_keys(settings.configuration)).storage.dataset;
    bool const is_ours =
        !ours.empty() && ((ours + "/").starts_with(dataset + "/") || (dataset + "/").starts_with(ours + "/"));
    if (!is_ours) return {};
    return fail(ErrorKind::refused, "use the pool of " + settings.root,
                "its dataset " + dataset + " is in use by this host (\"storage\" in " + settings.configuration + ")");
}

}  // namespace

Result<> replace_file(std::string const& path, std::string_view content, mode_t mode) {
    std::size_t const slash = path.rfind('/');
    UniqueFd const directory = TRY(open_durable_directory(path.substr(0, slash)));
    auto pending = TRY(files::PendingFile::create(directory.get(), path.substr(slash + 1), path, mode, true));
    if (!write_all(pending.fd(), content)) return fail(errno, "write " + path);
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    TRY(pending.finish(mode, {now, now}));
    TRY(pending.make_durable());
    TRY(pending.put_in_place());
    if (::fsync(directory.get()) < 0) return fail(errno, "make " + path + " durable");
    return {};
}

Result<UniqueFd> open_durable_directory(std::string const& path) {
    UniqueFd const made = TRY(files::make_directories(path));
    UniqueFd directory(::openat(made.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));  // the one made may be O_PATH
    if (!directory) return fail(errno, "open directory " + path);
    return directory;
}

namespace {

/// A vault is a pool of its own: what is in its directory inherits the encryption.
Result<storage::Settings> vault_settings(Settings const& settings, StorageKeys const& keys,
                                         storage::Settings const& storage) {
    if (keys.path.empty()) return fail("volumes.vault.path is missing in " + settings.configuration);
    TRY(check_dataset(settings, keys.dataset));
    storage::Settings vault{.path = settings.root + keys.path, .dataset = keys.dataset};
    if (keys.backend != "auto") vault.backend = TRY(storage::parse_backend(keys.backend));
    bool const is_same = vault.path == storage.path || (!vault.dataset.empty() && vault.dataset == storage.dataset);
    if (is_same) return fail("volumes.vault in " + settings.configuration + " is the pool of everything else");
    return vault;
}

}  // namespace

Result<Site> read_site(Settings const& settings) {
    HostKeys const keys = TRY(read_host_keys(settings.root + settings.configuration));
    TRY(check_dataset(settings, keys.storage.dataset));
    std::string const state = settings.root + settings.state;
    Site site{.content = state + "/content",
              .images = state + "/imgadm/images",
              .configuration = state + "/imgadm/imgadm.conf",
              .storage = {}};
    if (keys.storage.backend != "auto") site.storage.backend = TRY(storage::parse_backend(keys.storage.backend));
    site.storage.path = settings.root + (keys.storage.path.empty() ? settings.state + "/pool" : keys.storage.path);
    site.storage.dataset = keys.storage.dataset;
    TRY(check_pool(settings, site.storage));
    if (keys.volumes.vault) site.vault = TRY(vault_settings(settings, *keys.volumes.vault, site.storage));
    return site;
}

namespace {

/// Errors: `denied`: somebody else could change it.
Result<> check_trusted(std::string const& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return {};  // whoever opens it says why
    if (status.st_uid != 0 && status.st_uid != ::geteuid())
        return fail(ErrorKind::denied, "trust " + path,
                    "it belongs to user " + std::to_string(status.st_uid) + ", and decides what root installs");
    if ((status.st_mode & S_IWOTH) == 0) return {};
    return fail(
        ErrorKind::denied, "trust " + path,
        "every user can change it, and it decides what root installs; look at what is in it, and chmod o-w " + path);
}

}  // namespace

Result<Configuration> read_sources(Site const& site) {
    std::string const directory = site.configuration.substr(0, site.configuration.rfind('/'));
    for (std::string const& path : {directory.substr(0, directory.rfind('/')), directory, site.configuration})
        TRY(check_trusted(path));
    auto const text = read_file(site.configuration, largest_configuration);
    if (!text && text.error().kind == ErrorKind::not_found) return Configuration{};
    if (!text) return std::unexpected(text.error());
    return TRY(read_configuration(*text, site.configuration)).configuration;
}

Result<> write_sources(Site const& site, Configuration const& configuration) {
    std::string const text = configuration_text(configuration);
    TRY(read_configuration(text, "what is to become imgadm.conf"));
    return replace_file(site.configuration, text, 0600);
}

Result<> write_derived(Site const& site, Image const& image) {
    json::Writer out;
    out.open('{')
        .key("manifest")
        .value(image.manifest.document)
        .member("source", image.source)
        .member("tree", image.tree)
        .close('}');
    return replace_file(site.images + "/" + image.uuid().text() + ".json", std::move(out).text() + "\n", 0644);
}

Result<> remove_derived(Site const& site, Uuid const& uuid) {
    std::string const path = site.images + "/" + uuid.text() + ".json";
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
    return fail(errno, "remove " + path);
}

}  // namespace triton::image
