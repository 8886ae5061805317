// How the content of content trees comes, and goes.

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include <fcntl.h>
#include <sys/stat.h>

#include "host/content/fetcher.h"
#include "host/content/verify_job.h"
#include "host/volume/work/secret.h"
#include "host/volume/work/workbench.h"

namespace triton::volume {

namespace {

constexpr auto lock_patience = std::chrono::hours(1);

/// Passes the progress of an import on.
class Watching final : public image::Observer {
public:
    explicit Watching(Order const& order) : order_(order) {}
    void progress(image::Progress const& progress) override {
        if (order_.progress)
            order_.progress(
                {.job = {}, .state = State::downloading, .bytes = progress.done, .total_bytes = progress.total});
    }
    void blob(image::BlobProgress const& blob) override {
        if (!order_.blob) return;
        State const state = blob.is_stored      ? State::verified
                            : blob.is_verifying ? State::verifying
                                                : State::downloading;
        order_.blob({.digest = blob.digest,
                     .media_type = blob.media_type,
                     .state = state,
                     .bytes = blob.done,
                     .total_bytes = blob.total});
    }
    void message(std::string_view /*text*/) override {}
    void warning(std::string_view /*text*/) override {}

private:
    Order const& order_;
};

/// Credentials are "user:password" or a token in one line, or an authfile.
Result<std::string> read_credentials(std::string const& path) {
    if (path.empty()) return std::string();
    std::string text = TRY(read_secret(path));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
        text.pop_back();
    return text;
}

content::Credential credential_of(std::string const& text, std::string const& address) {
    std::size_t const begin = address.find("://") + 3;
    content::Credential credential{.host = address.substr(begin, address.find('/', begin) - begin)};
    std::size_t const colon = text.find(':');
    if (colon == std::string::npos) {
        credential.token = text;
    } else {
        credential.user = text.substr(0, colon);
        credential.password = text.substr(colon + 1);
    }
    return credential;
}

/// The reference of a container without what says which version it is.
std::string repository_of(DatastoreConfig const& datastore, std::string name) {
    if (std::size_t const at = name.find('@'); at != std::string::npos) name.resize(at);
    std::size_t const colon = name.rfind(':');
    if (colon != std::string::npos && name.find('/', colon) == std::string::npos) name.resize(colon);
    return joined_path(datastore, name);
}

State state_of(content::Progress::Phase phase) {
    return phase == content::Progress::Phase::verifying ? State::verifying : State::downloading;
}

}  // namespace

std::string joined_path(DatastoreConfig const& datastore, std::string const& name) {
    std::string path = datastore.address;
    while (path.ends_with('/'))
        path.pop_back();
    if (!datastore.path.empty()) path += "/" + datastore.path;
    return path + "/" + name;
}

Result<content::Access> access_of(DatastoreConfig const& datastore) {
    content::Access access;
    if (!datastore.credentials.empty())
        access.credentials.push_back(credential_of(TRY(read_credentials(datastore.credentials)), datastore.address));
    return access;
}

Result<Answer> Workbench::resolve(Order const& order) {
    std::optional<Error> error;
    for (DatastoreConfig const& datastore : order.datastores) {
        bool const is_layout = datastore.type == DatastoreConfig::Type::directory;
        if (datastore.type == DatastoreConfig::Type::http)
            return fail("only an OCI registry or layout resolves names; give ContentSha256");
        Watching watching(order);
        image::Settings settings = place_.settings;
        settings.cancel = order.cancel;
        auto service = TRY(image::ImageService::open(settings, watching));
        std::string credentials = TRY(read_credentials(datastore.credentials));
        image::ImportOptions const options{.credentials = std::move(credentials), .is_insecure = datastore.is_insecure};
        auto const reference =
            image::parse_reference((is_layout ? "oci:" : "") + joined_path(datastore, order.tree->name));
        auto digest = reference ? service.resolve(*reference, options) : std::unexpected(reference.error());
        if (digest) return Answer{.digest = *std::move(digest)};
        if (!error) error = std::move(digest.error());
        if (error->kind == ErrorKind::refused) break;
    }
    if (!error) return fail(ErrorKind::not_found, "none of its datastores is configured");
    return std::unexpected(*error);
}

Result<Answer> Workbench::fetch(Order const& order) {
    std::optional<Error> error;
    for (DatastoreConfig const& datastore : order.datastores) {
        auto answer = fetch_from(order, datastore);
        if (answer) {
            if (order.progress)
                order.progress(
                    {.job = {}, .state = State::verifying, .bytes = answer->bytes, .total_bytes = answer->bytes});
            TRY(check_fetched(order));
            answer->signed_by = TRY(check_signature(order));
            answer->blobs = TRY(blobs_of(order.tree->id));
            return answer;
        }
        if (!error) error = std::move(answer.error());
        if (error->kind == ErrorKind::refused || error->kind == ErrorKind::exhausted) break;
    }
    if (!error) return fail(ErrorKind::unavailable, "none of its datastores is configured");
    return std::unexpected(*error);
}

/// What is wrong with a disk is said by its content tree, before a volume needs it.
Result<> Workbench::check_fetched(Order const& order) {
    if (order.tree->format == Format::container) return {};
    content::Digest const digest = TRY(content::Digest::parse(order.job.digest));
    UniqueFd const blob = TRY(store_.open_blob(digest));
    TRY(check_disk(order, digest, blob.get()));
    return {};
}

Result<Answer> Workbench::fetch_from(Order const& order, DatastoreConfig const& datastore) {
    if (order.tree->format == Format::container) return fetch_image(order, datastore);
    if (datastore.type == DatastoreConfig::Type::registry)
        return fail(ErrorKind::unsupported, "a registry has containers, and the content is of format " +
                                                std::string(name_of(order.tree->format)));
    Wanted wanted{.name = order.tree->name,
                  .digest = {},
                  .most_bytes = order.tree->most_bytes,
                  .owner = owner_of(order.tree->id)};
    wanted.digest = TRY(content::Digest::parse(order.job.digest));
    content::Blob const blob = TRY(fetch_blob(order, wanted, datastore));
    return Answer{.bytes = blob.size};
}

Result<content::Blob> Workbench::fetch_blob(Order const& order, Wanted const& wanted,
                                            DatastoreConfig const& datastore) {
    switch (datastore.type) {
        case DatastoreConfig::Type::http: return fetch_remote(order, wanted, datastore);
        case DatastoreConfig::Type::directory: return fetch_local(order, wanted, datastore);
        case DatastoreConfig::Type::registry: break;
    }
    return fail(ErrorKind::unsupported, "a registry has containers, and no files");
}

Result<content::Blob> Workbench::fetch_remote(Order const& order, Wanted const& wanted,
                                              DatastoreConfig const& datastore) {
    content::Access const access = TRY(access_of(datastore));
    content::BlobRequest const request{.remote = {.urls = {joined_path(datastore, wanted.name)}},
                                       .digest = wanted.digest,
                                       .most_bytes = wanted.most_bytes,
                                       .protection = {.lease = {}, .owner = wanted.owner}};
    content::Watcher const watcher{.progress =
                                       [&order](content::Progress const& progress) {
                                           if (order.progress)
                                               order.progress({.job = {},
                                                               .state = state_of(progress.phase),
                                                               .bytes = progress.bytes,
                                                               .total_bytes = progress.size.value_or(0)});
                                       },
                                   .cancel = order.cancel};
    content::Fetcher fetcher(store_, {});
    return fetcher.fetch_blob(access, request, watcher);
}

Result<content::Blob> Workbench::fetch_local(Order const& order, Wanted const& wanted,
                                             DatastoreConfig const& datastore) {
    content::Protection const protection{.lease = {}, .owner = wanted.owner};
    if (TRY(store_.protect(protection, wanted.digest)))
        if (auto blob = TRY(store_.find(wanted.digest))) return *std::move(blob);
    std::string const path = joined_path(datastore, wanted.name);
    UniqueFd const source{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)};
    struct stat status{};
    if (!source || ::fstat(source.get(), &status) != 0) return fail(errno, "open " + path);
    if (!S_ISREG(status.st_mode)) return fail(ErrorKind::invalid, path + " is not a regular file");
    auto ingest = TRY(store_.begin_ingest(wanted.digest.text(), steady_now() + lock_patience, order.cancel));
    TRY(ingest.restart());
    TRY(ingest.reserve(static_cast<std::uint64_t>(status.st_size)));
    UniqueFd writable = TRY(ingest.open_for_writing());
    auto const verified =
        content::check_file({.role = {}, .cancel = order.cancel},
                            {.maximum = wanted.most_bytes, .digest = wanted.digest}, source.get(), writable.get());
    if (!verified) {
        (void)store_.abandon(std::move(ingest));  // the error to report is that of the bytes
        return std::unexpected(verified.error());
    }
    UniqueFd const unwritable = TRY(content::prove_unwritable(std::move(writable)));
    return store_.commit(std::move(ingest), wanted.digest, {.source = path}, protection);
}

Result<Answer> Workbench::fetch_image(Order const& order, DatastoreConfig const& datastore) {
    if (datastore.type == DatastoreConfig::Type::http)
        return fail(ErrorKind::unsupported, "a container comes from an OCI registry or layout");
    bool const is_layout = datastore.type == DatastoreConfig::Type::directory;
    Watching watching(order);
    image::Settings settings = place_.settings;
    settings.cancel = order.cancel;
    auto service = TRY(image::ImageService::open(settings, watching));
    std::string const text =
        (is_layout ? "oci:" : "") + repository_of(datastore, order.tree->name) + "@" + order.job.digest;
    std::string credentials = TRY(read_credentials(datastore.credentials));
    image::ImportOptions const options{.credentials = std::move(credentials),
                                       .is_insecure = datastore.is_insecure,
                                       .is_quiet = true,
                                       .keeper = owner_of(order.tree->id)};
    image::Imported const imported = TRY(service.import(TRY(image::parse_reference(text)), options));
    TRY(service.hold(imported.uuid, "contentTree " + order.tree->id));
    image::Image const image = TRY(service.get(imported.uuid));
    return Answer{.image = imported.uuid.text(), .bytes = image.size};
}

Result<std::vector<BlobStatus>> Workbench::blobs_of(std::string const& content) {
    std::vector<BlobStatus> all;
    for (content::Digest const& digest : TRY(store_.referenced_by(owner_of(content)))) {
        auto const blob = TRY(store_.find(digest));
        if (!blob) continue;
        all.push_back({.digest = digest.text(),
                       .media_type = blob->facts.media_type,
                       .state = State::loaded,
                       .bytes = blob->size,
                       .total_bytes = blob->size});
    }
    return all;
}

Result<> Workbench::drop(Order const& order) {
    auto service = TRY(image::ImageService::open_for_holding(place_.settings));
    TRY(service.release_all("contentTree " + order.job.content));
    return store_.remove_references(owner_of(order.job.content));
}

}  // namespace triton::volume
