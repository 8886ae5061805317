#include "host/image/source_client.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/content/lease_keeper.h"
#include "host/image/authfile.h"
#include "host/image/file_import.h"
#include "host/image/installation.h"
#include "host/image/local_content.h"
#include "host/image/proxies.h"
#include "host/image/repair.h"
#include "lib/base/next_entry.h"
#include "lib/base/read_file.h"
#include "lib/base/write_all.h"
#include "lib/json/reader.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/percent.h"

namespace triton::image {

namespace {

constexpr std::uint64_t largest_list = 64 << 20;
constexpr std::uint64_t largest_manifest = 4 << 20;
/// The manifests of a directory that one process reads together.
constexpr std::size_t most_in_batch = 256;
constexpr std::size_t largest_batch = 2 * largest_manifest;
constexpr std::size_t most_in_page = 1000;
constexpr std::size_t most_images = 100'000;  // of one source: its operator controls how many there are
constexpr std::size_t most_authority_bytes = 4 << 20;
constexpr json::Limits list_limits{.document_bytes = largest_list, .depth = 40, .values = 20'000'000, .problems = 5};

Result<std::string> fetch_json(Workshop& shop, Source const& source, std::string const& path, role::DocumentKind kind,
                               std::uint64_t most_bytes) {
    content::Fetcher fetcher(shop.store, {});
    content::Access const access = TRY(access_of(shop, source));
    auto document = TRY(fetcher.fetch_document(
        access, {.remote = {.urls = urls_of(source, path)}, .most_bytes = most_bytes, .kind = kind, .is_kept = false},
        shop.watch(source.url)));
    return std::move(document.json);
}

std::string with_channel(Source const& source, std::string path) {
    return source.channel.empty() ? path : path + "?channel=" + text::percent_encoded(source.channel);
}

/// The manifests of an array.
struct Listed {
    std::vector<Manifest> manifests;  ///< the good ones
    std::size_t entries = 0;          ///< of the array
    std::optional<Uuid> last;         ///< of its last entry
};

std::optional<Uuid> uuid_in(json::Node const& node) {
    auto const* const manifest = node.get<json::Object>();
    if (!manifest) return std::nullopt;
    auto const member = std::ranges::find(*manifest, "uuid", &json::Member::key);
    auto const* const text = member == manifest->end() ? nullptr : member->node.get<std::string>();
    return text ? Uuid::parse(*text) : std::nullopt;
}

/// Reads the manifests of an array. A bad one does not hide the others.
Result<Listed> manifests_in(Workshop& shop, std::string_view text, std::string const& what) {
    json::ProblemList problems(list_limits.problems);
    auto const node = json::read_json(text, list_limits, problems);
    auto const* const array = node ? node->get<json::Array>() : nullptr;
    if (!array) return fail(ErrorKind::corrupt, what + " is not an array of manifests");
    if (array->size() > most_images) return fail(ErrorKind::corrupt, what + " has more than 100,000 images");
    Listed listed{.manifests = {}, .entries = array->size(), .last = {}};
    for (std::size_t i = array->size(); i > 0 && !listed.last; --i)
        listed.last = uuid_in((*array)[i - 1]);
    for (std::size_t i = 0; i < array->size(); ++i) {
        json::Writer out;
        out.value((*array)[i]);
        auto read = read_manifest(out.text(), what + "[" + std::to_string(i) + "]", ManifestUse::install);
        if (read) {
            listed.manifests.push_back(std::move(read->manifest));
        } else {
            shop.observer->warning(read.error().text() +
                                   (read.error().details.empty() ? "" : ": " + read.error().details.front()));
        }
    }
    return listed;
}

/// Reads the list of an IMGAPI server, which gives at most 1,000 images at once, the oldest first: those from the last
/// one on are asked for until there is nothing new. Source: IMGAPI, "ListImages", "limit" and "marker".
Result<std::vector<Manifest>> imgapi_list(Workshop& shop, Source const& source) {
    std::string const path = with_channel(source, "/images");
    std::vector<Manifest> manifests;
    std::set<Uuid> known;
    std::set<Uuid> markers;
    std::size_t entries = 0;
    std::string marker;
    while (true) {
        TRY(shop.check_cancelled());
        std::string const page = path + marker;
        std::string const text = TRY(fetch_json(shop, source, page, role::DocumentKind::imgapi_list, largest_list));
        Listed listed = TRY(manifests_in(shop, text, source.url + "/images"));
        for (Manifest& manifest : listed.manifests)
            if (known.insert(*manifest.uuid).second) manifests.push_back(std::move(manifest));
        entries += listed.entries;
        if (entries > most_images) return fail(ErrorKind::corrupt, source.url + "/images has more than 100,000 images");
        bool const is_last = listed.entries != most_in_page || !listed.last || !markers.insert(*listed.last).second;
        if (is_last) return manifests;
        marker = (path.find('?') == std::string::npos ? "?marker=" : "&marker=") + listed.last->text();
    }
}

/// The names of the manifests in a directory, sorted.
Result<std::vector<std::string>> manifest_names(std::string const& path) {
    std::unique_ptr<DIR, int (*)(DIR*)> const directory(::opendir(path.c_str()), ::closedir);
    if (!directory) return fail(errno, "open " + path);
    std::vector<std::string> names;
    while (dirent const* const entry = TRY(next_entry(directory.get(), path))) {
        std::string_view const name = entry->d_name;
        if (name.ends_with(".imgmanifest") && names.size() < most_images) names.emplace_back(name);
    }
    std::ranges::sort(names);
    return names;
}

/// Reads one JSON document of a directory that others fill, first in a process without rights.
Result<std::string> checked_json(Workshop& shop, std::string_view text) {
    UniqueFd file(::memfd_create("manifests", MFD_CLOEXEC));
    if (!file || !write_all(file.get(), text) || ::lseek(file.get(), 0, SEEK_SET) < 0)
        return fail(errno, "keep a manifest");
    role::ReadDocument const request{.kind = role::DocumentKind::other, .expected = {.maximum = largest_batch}};
    return TRY(content::check_document(shop.jobs(), request, std::move(file))).json;
}

struct LocalFile {
    std::string path;
    std::string text;
};

/// Reads a file. Errors: it is too long or cannot be read.
Result<LocalFile> read_local_file(std::string const& path) {
    UniqueFd const file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) return fail(errno, "open " + path);
    return LocalFile{path, TRY(read_open_file(file.get(), path, largest_manifest))};
}

/// Reads the manifests of some files in one process. Errors: at least one of the files is bad.
Result<std::vector<Manifest>> read_batch(Workshop& shop, std::span<LocalFile const> files) {
    std::string array = "[";
    for (LocalFile const& file : files)
        array += (array.size() == 1 ? "" : ",\n") + file.text;
    std::string const text = TRY(checked_json(shop, array + "]"));
    json::ProblemList problems(list_limits.problems);
    auto const node = json::read_json(text, list_limits, problems);
    auto const* const elements = node ? node->get<json::Array>() : nullptr;
    if (!elements || elements->size() != files.size()) return fail(ErrorKind::corrupt, "not one manifest in each file");
    std::vector<Manifest> manifests;
    for (std::size_t i = 0; i < files.size(); ++i) {
        json::Writer out;
        out.value((*elements)[i]);
        manifests.push_back(TRY(read_manifest(out.text(), files[i].path, ManifestUse::install)).manifest);
    }
    return manifests;
}

/// Reports what is wrong with a file that is left out.
void tell_bad(Workshop& shop, LocalFile const& file) {
    auto const text = checked_json(shop, file.text);
    if (!text) return shop.observer->warning(file.path + ": " + text.error().text());
    auto const read = read_manifest(*text, file.path, ManifestUse::install);
    shop.observer->warning(read ? file.path + " is not a manifest" : read.error().text());
}

/// Reads files together; if one is bad, reads them in halves, and halves of those, until the bad ones are found. So
/// they do not hide the others.
void read_some(Workshop& shop, std::span<LocalFile const> files, std::vector<Manifest>& manifests) {
    if (files.empty()) return;
    if (auto read = read_batch(shop, files)) {
        std::ranges::move(*read, std::back_inserter(manifests));
        return;
    }
    if (files.size() == 1) return tell_bad(shop, files.front());
    read_some(shop, files.first(files.size() / 2), manifests);
    read_some(shop, files.subspan(files.size() / 2), manifests);
}

/// Starts a process for some manifests together, not for each.
Result<std::vector<Manifest>> local_manifests(Workshop& shop, std::string const& path) {
    std::vector<Manifest> manifests;
    std::vector<LocalFile> batch;
    std::size_t bytes = 0;
    auto const flush = [&] {
        read_some(shop, batch, manifests);
        batch.clear();
        bytes = 0;
    };
    for (std::string const& name : TRY(manifest_names(path))) {
        TRY(shop.check_cancelled());
        auto file = read_local_file(path + "/" + name);
        if (!file) {
            shop.observer->warning(file.error().text());
            continue;
        }
        if (batch.size() == most_in_batch || bytes + file->text.size() > largest_batch / 2) flush();
        bytes += file->text.size();
        batch.push_back(*std::move(file));
    }
    flush();
    return manifests;
}

Result<std::vector<Manifest>> manifests_of(Workshop& shop, Source const& source) {
    std::string text;
    switch (source.type) {
        case SourceType::imgapi: return imgapi_list(shop, source);
        case SourceType::directory:
            if (source.url.starts_with('/')) return local_manifests(shop, source.url);
            text = TRY(fetch_json(shop, source, "/index.json", role::DocumentKind::imgapi_list, largest_list));
            return TRY(manifests_in(shop, text, source.url + "/index.json")).manifests;
        case SourceType::registry: return std::vector<Manifest>();  // a registry has no list of images
    }
    std::unreachable();
}

/// The manifest of an image at a source. Errors: `not_found`.
Result<Manifest> manifest_at(Workshop& shop, Source const& source, Uuid const& uuid) {
    if (source.type == SourceType::imgapi) {
        std::string const path = with_channel(source, "/images/" + uuid.text());
        std::string const text = TRY(fetch_json(shop, source, path, role::DocumentKind::imgapi, largest_manifest));
        auto read = TRY(read_manifest(text, "what " + source.url + path + " gives", ManifestUse::install));
        if (read.manifest.uuid == uuid) return std::move(read.manifest);
        return fail(ErrorKind::corrupt, source.url + path + " gives another image, " + read.manifest.uuid->text());
    }
    auto manifests = manifests_of(shop, source);
    if (!manifests) {
        // Without its list nobody knows whether it has the image.
        Error error = std::move(manifests).error();
        if (error.kind == ErrorKind::not_found) error.kind = ErrorKind::unavailable;
        return std::unexpected(std::move(error));
    }
    for (Manifest& manifest : *manifests) {
        if (manifest.uuid == uuid) return std::move(manifest);
    }
    return fail(ErrorKind::not_found, source.url + " does not have image " + uuid.text());
}

/// The sources to ask, in their order.
Result<std::vector<Source>> asked_sources(Workshop& shop, std::string_view only) {
    if (only.empty()) {
        if (!shop.configuration.sources.empty()) return shop.configuration.sources;
        return fail(ErrorKind::not_found, "there is no image source; imgadm sources -a URL adds one");
    }
    // A configured source keeps its signature policy and its keys, however its URL is typed.
    std::string const url = canonical_url(only);
    for (Source const& source : shop.configuration.sources) {
        if (source.url == url) return std::vector<Source>{source};
    }
    SourceType const type = only.starts_with('/') ? SourceType::directory : SourceType::imgapi;
    return std::vector<Source>{TRY(make_source(type, only, false))};
}

struct Found {
    Source source;
    Manifest manifest;
};

Result<Found> find_image(Workshop& shop, Uuid const& uuid, std::string_view only) {
    std::optional<Error> last;
    for (Source const& source : TRY(asked_sources(shop, only))) {
        if (source.type == SourceType::registry) continue;
        TRY(shop.check_cancelled());
        auto manifest = manifest_at(shop, source, uuid);
        if (manifest) return Found{source, *std::move(manifest)};
        if (manifest.error().kind == ErrorKind::not_found) continue;
        if (last) shop.observer->warning(last->text());
        last = manifest.error();
    }
    if (last) return std::unexpected(*std::move(last));
    return fail(ErrorKind::not_found, "image " + uuid.text() + " was not found in any image source");
}

/// The image and those of its origins that are not installed, the lowest first.
Result<std::vector<Found>> find_with_origins(Workshop& shop, Uuid const& uuid, std::string_view only) {
    std::vector<Found> found;
    std::set<Uuid> seen;
    std::optional<Uuid> next = uuid;
    while (next && !TRY(shop.catalog.has(*next))) {
        if (!seen.insert(*next).second) return fail(ErrorKind::corrupt, "image " + next->text() + " is its own origin");
        if (found.size() == most_origins)
            return fail(ErrorKind::corrupt, "image " + uuid.text() + " has more than 32 origins");
        found.insert(found.begin(), TRY(find_image(shop, *next, only)));
        next = found.front().manifest.origin;
    }
    return found;
}

std::string megabytes(std::uint64_t bytes) {
    std::uint64_t const tenths = bytes * 10 / (1 << 20);
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB";
}

void tell_plan(Workshop& shop, std::vector<Found> const& images) {
    for (Found const& one : images) {
        shop.observer->message("Importing " + one.manifest.uuid->text() + " (" + one.manifest.title() + ") from \"" +
                               one.source.url + "\"");
    }
    std::uint64_t bytes = 0;
    for (Found const& one : images) {
        for (ImageFile const& file : one.manifest.files)
            bytes += file.size;
    }
    shop.observer->message("Must download and install " + std::to_string(images.size()) + " image" +
                           (images.size() == 1 ? "" : "s") + " (" + megabytes(bytes) + ")");
}

/// The name of an image's file in a signature.
std::string signed_name(Source const& source, Manifest const& manifest, ImageFile const& file) {
    return source.type == SourceType::directory && !file.path.empty() ? file.path : manifest.uuid->text();
}

std::string path_of(Source const& source, Manifest const& manifest, ImageFile const& file) {
    if (source.type == SourceType::imgapi) return with_channel(source, "/images/" + manifest.uuid->text() + "/file");
    return "/" + (file.path.empty() ? manifest.uuid->text() : file.path);
}

Result<content::Blob> fetch_remote(Workshop& shop, Source const& source, Manifest const& manifest,
                                   ImageFile const& file, content::LeaseId lease) {
    content::BlobRequest request{.remote = {.urls = urls_of(source, path_of(source, manifest, file))},
                                 .size = file.size,
                                 .facts = {.media_type = {}, .source = source.url},
                                 .protection = shop.protection(lease)};
    if (!file.sha256.empty()) {
        request.digest = TRY(role::Digest::of_hex(file.sha256));
    } else {
        request.sha1 = file.sha1;
    }
    content::LeaseKeeper keeper(shop.store, lease, std::chrono::steady_clock::now());
    content::Watcher const watcher{
        .progress =
            [&](content::Progress const& progress) {
                keeper.note(std::chrono::steady_clock::now());
                shop.observer->progress({.phase = Phase::downloading,
                                         .image = manifest.title(),
                                         .done = progress.bytes,
                                         .total = file.size,
                                         .waiting_for = std::string(progress.phase == content::Progress::Phase::retrying
                                                                        ? progress.waiting_for
                                                                        : "")});
            },
        .cancel = shop.settings.cancel};
    content::Fetcher fetcher(shop.store, {});
    content::Access const access = TRY(access_of(shop, source));
    return fetcher.fetch_blob(access, request, watcher);
}

Result<content::Blob> fetch_file(Workshop& shop, Source const& source, Manifest const& manifest, ImageFile const& file,
                                 content::LeaseId lease) {
    if (!source.url.starts_with('/')) return fetch_remote(shop, source, manifest, file, lease);
    std::string const path = source.url + path_of(source, manifest, file);
    UniqueFd const local(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    if (!local) return fail(errno, "open " + path);
    auto blob = store_file(shop, lease, local.get(), TRY(expected_of(file)), {.media_type = {}, .source = path});
    if (!blob) return fail(blob.error().kind, path + ": " + blob.error().text());
    return blob;
}

Result<Imported> import_one(Workshop& shop, Found const& image, ImportOptions const& options) {
    ImageFile const file = TRY(check_before_install(shop, image.manifest));
    if (image.source.signature == SignaturePolicy::required && file.sha256.empty()) {
        return fail(ErrorKind::denied, "source " + image.source.url + " must be signed, and image " +
                                           image.manifest.uuid->text() + " has no SHA-256 that could be");
    }
    auto lease = TRY(WorkLease::make(shop, "import of " + image.manifest.uuid->text()));
    if (!file.sha256.empty()) {
        auto const digest = TRY(role::Digest::of_hex(file.sha256));
        TRY(check_source_signature(shop, image.source, signed_name(image.source, image.manifest, file), digest));
    }
    content::Blob const blob = TRY(fetch_file(shop, image.source, image.manifest, file, lease.id()));
    shop.observer->message("Downloaded image " + image.manifest.uuid->text() + " (" + megabytes(blob.size) + ")");
    Imported imported = TRY(install_blob(shop, blob, image.manifest, image.source.url, options));
    TRY(lease.end());
    return imported;
}

}  // namespace

Result<content::Access> access_of(Workshop const& shop, Source const& source) {
    content::Access access;
    access.proxies = TRY(proxies_for(shop, &source, source.authfile));
    std::string const host(host_of(source.url));
    if (!source.authfile.empty()) {
        auto found = TRY(credential_of(source.authfile, host, host, shop.settings.cancel));
        if (!found.warning.empty()) shop.observer->warning(found.warning);
        if (found.credential) access.credentials.push_back(*std::move(found.credential));
    }
    if (!source.authorities.empty()) access.authorities = TRY(read_file(source.authorities, most_authority_bytes));
    return access;
}

std::vector<std::string> urls_of(Source const& source, std::string const& path) {
    std::vector<std::string> urls{source.url + path};
    for (std::string const& mirror : source.mirrors)
        urls.push_back(mirror + path);
    return urls;
}

Result<std::vector<AvailableImage>> available_images(Workshop& shop, std::string_view only) {
    std::vector<AvailableImage> images;
    std::optional<Error> failure;
    bool has_answer = false;
    for (Source const& source : TRY(asked_sources(shop, only))) {
        TRY(shop.check_cancelled());
        auto manifests = manifests_of(shop, source);
        if (!manifests) {
            if (failure) shop.observer->warning(failure->text());
            failure = manifests.error();
            continue;
        }
        has_answer = true;
        for (Manifest& manifest : *manifests)
            images.push_back({std::move(manifest), source.url});
    }
    if (failure && !has_answer) return std::unexpected(*std::move(failure));
    if (failure) shop.observer->warning(failure->text());
    return images;
}

Result<AvailableImage> available_image(Workshop& shop, Uuid const& uuid, std::string_view only) {
    Found found = TRY(find_image(shop, uuid, only));
    return AvailableImage{std::move(found.manifest), found.source.url};
}

Result<Imported> import_from_source(Workshop& shop, Uuid const& uuid, ImportOptions const& options) {
    if (auto image = TRY(shop.catalog.find(uuid))) {
        if (TRY(damage_of(shop, uuid))) return repair_image(shop, *image, options);
        Plan const plan{.image = *std::move(image)};
        if (auto done = TRY(already_installed(shop, plan, options))) return *done;
    }
    shop.observer->progress({.phase = Phase::resolving, .image = uuid.text()});
    auto const images = TRY(find_with_origins(shop, uuid, options.source));
    for (Found const& image : images) {  // before anything is downloaded, also of those below
        TRY(check_installable(image.manifest));
        TRY(check_increment(shop, image.manifest));
    }
    tell_plan(shop, images);
    Imported imported{uuid, false};
    for (Found const& image : images)
        imported = TRY(import_one(shop, image, options));
    return imported;
}

Result<content::Blob> fetch_image_file(Workshop& shop, Image const& image, content::LeaseId lease,
                                       std::string_view only) {
    if (image.manifest.files.size() != 1) return fail(ErrorKind::unsupported, "its image has no file of its own");
    ImageFile const& file = image.manifest.files.front();
    auto const layers = TRY(shop.catalog.layers(image.uuid()));
    if (layers.size() == 1) {
        auto const digest = TRY(role::Digest::parse(layers.front().blob));
        if (TRY(shop.store.protect(shop.protection(lease), digest))) {
            if (auto blob = TRY(shop.store.find(digest))) return *std::move(blob);
        }
    }
    if (!only.empty()) {
        Source const source = TRY(asked_sources(shop, only)).front();
        if (source.type == SourceType::registry)
            return fail(std::string(only) + " is a registry, and has images by name only");
        return fetch_file(shop, source, image.manifest, file, lease);
    }
    for (Source const& source : shop.configuration.sources) {
        if (source.url == canonical_url(image.source)) return fetch_file(shop, source, image.manifest, file, lease);
    }
    if (!image.source.starts_with('/')) return fail(ErrorKind::not_found, image.source + " is no longer a source");
    UniqueFd const local(::open(image.source.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!local) return fail(errno, "open " + image.source);
    return store_file(shop, lease, local.get(), TRY(expected_of(file)), {.media_type = {}, .source = image.source});
}

namespace {

/// A registry answers 200, and nothing is said of the body: many have none.
/// Source: OCI distribution-spec, "Determining Support".
Result<> ping_registry(Workshop& shop, Source const& source) {
    content::Fetcher fetcher(shop.store, {});
    content::Access const access = TRY(access_of(shop, source));
    content::Blob const blob = TRY(fetcher.fetch_blob(
        access, {.remote = {.urls = urls_of(source, "/v2/")}, .most_bytes = largest_manifest}, shop.watch(source.url)));
    (void)shop.store.discard(blob.digest);  // else gc() takes it
    return {};
}

}  // namespace

Result<> ping_source(Workshop& shop, Source const& source) {
    switch (source.type) {
        case SourceType::imgapi:
            TRY(fetch_json(shop, source, "/ping", role::DocumentKind::other, largest_manifest));
            return {};
        case SourceType::directory:
            if (source.url.starts_with('/')) {
                TRY(manifest_names(source.url));
                return {};
            }
            TRY(fetch_json(shop, source, "/index.json", role::DocumentKind::imgapi_list, largest_list));
            return {};
        case SourceType::registry: return ping_registry(shop, source);
    }
    std::unreachable();
}

}  // namespace triton::image
