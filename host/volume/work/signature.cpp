// The signatures that content must have.

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "host/content/lease_keeper.h"
#include "host/content/verify_job.h"
#include "host/volume/work/trusted_file.h"
#include "host/volume/work/workbench.h"
#include "lib/base/read_file.h"
#include "lib/json/text.h"

namespace triton::volume {

namespace {

constexpr std::size_t largest_sums = 1 << 20;
constexpr std::size_t largest_signature = 64 << 10;
constexpr std::size_t largest_keys = 1 << 20;
/// The root certificates of this host. Source: EVE, which has them in /config/root-certificate.pem.
constexpr std::string_view roots_path = "/etc/triton/root-certificate.pem";

role::SignatureKind kind_of_check(SignatureConfig::Kind kind) {
    switch (kind) {
        case SignatureConfig::Kind::minisign: return role::SignatureKind::minisign;
        case SignatureConfig::Kind::openpgp_sums: return role::SignatureKind::openpgp_sums;
        case SignatureConfig::Kind::openpgp: return role::SignatureKind::openpgp;
        case SignatureConfig::Kind::cms: return role::SignatureKind::cms;
        case SignatureConfig::Kind::x509: return role::SignatureKind::x509;
    }
    std::unreachable();
}

std::string last_part(std::string const& name) { return name.substr(name.rfind('/') + 1); }

/// A message about the signature of a content tree.
std::unexpected<Error> about_signature(TreeConfig const& tree, Error const& error) {
    return fail(error.kind, "the signature of content tree " + tree.id + ": " + error.text());
}

/// A file that is small, of this host.
Result<std::string> read_small(std::string const& path, std::size_t most) {
    UniqueFd const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY)};
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0) return fail(errno, "open " + path);
    if (!S_ISREG(status.st_mode)) return fail(ErrorKind::denied, path + " is not a regular file");
    auto text = read_open_file(file.get(), path, most);
    // What is in a datastore is said by a server, as far as retries go.
    if (!text && text.error().kind == ErrorKind::invalid) return fail(ErrorKind::denied, text.error().text());
    return text;
}

}  // namespace

Result<std::string> Workbench::fetch_small(Order const& order, DatastoreConfig const& datastore,
                                           std::string const& name, std::size_t most) {
    std::string const path = joined_path(datastore, name);
    if (datastore.type == DatastoreConfig::Type::directory) return read_small(path, most);
    content::Access const access = TRY(access_of(datastore));
    content::LeaseId const lease = TRY(store_.make_lease("signature of " + order.tree->id, content::LeaseKeeper::life));
    content::Fetcher fetcher(store_, {});
    auto const blob = fetcher.fetch_blob(access,
                                         {.remote = {.urls = {path}},
                                          .most_bytes = most,
                                          .facts = {.media_type = {}, .source = path},
                                          .protection = {.lease = lease, .owner = {}}},
                                         {.progress = {}, .finished = {}, .cancel = order.cancel});
    auto const file = blob ? store_.open_blob(blob->digest) : std::unexpected(blob.error());
    auto text = file ? read_open_file(file->get(), path, most) : std::unexpected(file.error());
    TRY(store_.end_lease(lease));
    return text;
}

/// Looks for a small file in each datastore; nothing when none of them has it. One that does not answer may have it.
Result<std::optional<std::string>> Workbench::find_small(Order const& order, std::string const& name,
                                                         std::size_t most) {
    std::optional<Error> error;
    for (DatastoreConfig const& datastore : order.datastores) {
        if (datastore.type == DatastoreConfig::Type::registry) continue;  // it has blobs, and no files
        auto text = fetch_small(order, datastore, name, most);
        if (text) return *std::move(text);
        if (text.error().kind != ErrorKind::not_found && !error) error = std::move(text).error();
    }
    if (error) return std::unexpected(*std::move(error));
    return std::nullopt;
}

/// Adds whom a signature is checked for: keys of a file, or certificates and roots.
Result<> Workbench::add_keys(Order const& order, content::SignatureRequest& request) {
    SignatureConfig const& wanted = *order.tree->signature;
    // What is wrong with these files is for the operator to mend; no server is asked again.
    auto const trusted = [](std::string const& path) -> Result<std::string> {
        auto text = read_trusted_file(path, largest_keys);
        if (!text) return fail(ErrorKind::invalid, text.error().text());
        return text;
    };
    if (!wanted.holder) {
        request.keys = TRY(trusted(wanted.keys));
        return {};
    }
    if (!order.certificates) return fail(ErrorKind::unavailable, "its certificates are not configured");
    request.keys = TRY(read_certificates(*order.certificates));
    request.roots = TRY(trusted(place_.settings.root + std::string(roots_path)));
    return {};
}

/// Returns whose signature is good; empty when none was asked for, or when there is none and none is required.
Result<std::string> Workbench::check_signature(Order const& order) {
    if (!order.tree->signature) return std::string();
    TreeConfig const& tree = *order.tree;
    SignatureConfig const& wanted = *tree.signature;
    bool const is_inline = !wanted.sums.empty() && wanted.sums == wanted.name;
    auto missing = [&](std::string const& name) -> Result<std::string> {
        if (!wanted.is_required) return std::string();
        return fail(ErrorKind::denied,
                    "content tree " + tree.id + " must be signed, and none of its datastores has " + json::shown(name));
    };
    content::SignatureRequest request;
    request.kind = kind_of_check(wanted.kind);
    request.name = last_part(tree.name);
    request.digest = TRY(content::Digest::parse(order.job.digest));
    if (auto const added = add_keys(order, request); !added) return about_signature(tree, added.error());
    std::optional<std::string> sums;
    if (!wanted.sums.empty()) {
        auto found = find_small(order, wanted.sums, largest_sums);
        if (!found) return about_signature(tree, found.error());
        if (!*found) return missing(wanted.sums);
        sums = **std::move(found);
    }
    if (!wanted.text.empty()) {
        request.signature = wanted.text;
    } else if (!is_inline) {
        auto found = find_small(order, wanted.name, largest_signature);
        if (!found) return about_signature(tree, found.error());
        if (!*found) return missing(wanted.name);
        request.signature = **std::move(found);
    }
    UniqueFd const content = TRY(store_.open_blob(request.digest));
    request.signed_file = content.get();
    request.sums = std::move(sums);
    auto const good = content::check_signature({.role = {}, .cancel = order.cancel}, request);
    if (!good) return about_signature(tree, good.error());
    return good->key;
}

}  // namespace triton::volume
