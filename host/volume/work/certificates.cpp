// Certificates of those who sign content: blobs of the content store, and files for people to look at.

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "host/image/site.h"
#include "host/volume/work/workbench.h"
#include "lib/base/read_file.h"

namespace triton::volume {

namespace {

constexpr std::size_t largest_certificate = 64 << 10;
constexpr std::string_view owner_kind = "certObj";

std::string view_name(content::Digest const& digest) { return digest.hex() + ".pem"; }

}  // namespace

content::Owner owner_of(HolderKey const& key) { return {std::string(owner_kind), key.text()}; }

std::optional<HolderKey> holder_of(content::Owner const& owner) {
    return owner.kind == owner_kind ? HolderKey::parse(owner.id) : std::nullopt;
}

std::string Workbench::certificates_path(HolderKey const& key) const {
    return place_.settings.root + place_.settings.state + "/certs/" + key.text();
}

Result<std::set<HolderKey>> Workbench::look_at_certificates() const {
    std::set<HolderKey> holders;
    std::string const path = place_.settings.root + place_.settings.state + "/certs";
    std::error_code error;
    for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
        if (auto const key = HolderKey::parse(at->path().filename().string())) holders.insert(*key);
    if (error && error != std::errc::no_such_file_or_directory) return fail(error.value(), "read directory " + path);
    return holders;
}

Result<> Workbench::fetch_certificates(Order const& order) {
    if (!order.certificates) return {};  // nobody wants them any more
    CertificatesConfig const& config = *order.certificates;
    // The directory is how a later start knows that there is something of this holder.
    TRY(image::open_durable_directory(certificates_path(config.key)));
    std::set<std::string> views;
    std::set<content::Digest> digests;
    for (CertificatesConfig::Certificate const& certificate : config.certificates) {
        TRY(fetch_certificate(order, certificate));
        content::Digest const digest = TRY(content::Digest::parse(certificate.digest));
        UniqueFd const file = TRY(store_.open_blob(digest));
        std::string const text = TRY(read_open_file(file.get(), certificate.name, largest_certificate));
        TRY(image::replace_file(certificates_path(config.key) + "/" + view_name(digest), text, 0644));
        views.insert(view_name(digest));
        digests.insert(digest);
    }
    for (content::Digest const& digest : TRY(store_.referenced_by(owner_of(config.key))))
        if (!digests.contains(digest)) TRY(store_.remove_reference(owner_of(config.key), digest));
    return remove_views(config.key, views);
}

Result<> Workbench::fetch_certificate(Order const& order, CertificatesConfig::Certificate const& certificate) {
    Wanted wanted{.name = certificate.name,
                  .digest = {},
                  .most_bytes = largest_certificate,
                  .owner = owner_of(order.certificates->key)};
    wanted.digest = TRY(content::Digest::parse(certificate.digest));
    std::optional<Error> error;
    for (DatastoreConfig const& datastore : order.datastores) {
        auto const blob = fetch_blob(order, wanted, datastore);
        if (blob) return {};
        if (!error) error = blob.error();
        if (error->kind == ErrorKind::refused || error->kind == ErrorKind::exhausted) break;
    }
    if (!error) return fail(ErrorKind::unavailable, "none of the datastores of the certificates is configured");
    return fail(error->kind, "certificate " + certificate.name + ": " + error->text());
}

/// Removes the files of certificates that are not wanted any more.
Result<> Workbench::remove_views(HolderKey const& key, std::set<std::string> const& kept) const {
    std::string const path = certificates_path(key);
    std::error_code error;
    for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
        if (kept.contains(at->path().filename().string())) continue;
        std::error_code removing;
        std::filesystem::remove_all(at->path(), removing);
        if (removing) return fail(removing.value(), "remove " + at->path().string());
    }
    if (error && error != std::errc::no_such_file_or_directory) return fail(error.value(), "read directory " + path);
    return {};
}

Result<> Workbench::drop_certificates(HolderKey const& key) {
    TRY(store_.remove_references(owner_of(key)));
    TRY(remove_views(key, {}));
    if (::rmdir(certificates_path(key).c_str()) != 0 && errno != ENOENT)
        return fail(errno, "remove " + certificates_path(key));
    return {};
}

/// All of them, in PEM. What is in the store was verified; the files for people are not read.
Result<std::string> Workbench::read_certificates(CertificatesConfig const& config) {
    std::string all;
    for (CertificatesConfig::Certificate const& certificate : config.certificates) {
        content::Digest const digest = TRY(content::Digest::parse(certificate.digest));
        UniqueFd const file = TRY(store_.open_blob(digest));
        all += TRY(read_open_file(file.get(), certificate.name, largest_certificate)) + "\n";
    }
    return all;
}

}  // namespace triton::volume
