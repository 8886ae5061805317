// Signatures of what sources have. A file SHA256SUMS is signed, as sha256sum(1) writes it: it binds each digest to its
// name.

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>

#include "host/content/sums.h"
#include "host/image/installation.h"
#include "host/image/local_content.h"
#include "host/image/source_client.h"
#include "lib/base/read_file.h"
#include "lib/json/text.h"

namespace triton::image {

namespace {

constexpr std::size_t largest_sums = 1 << 20;
constexpr std::size_t largest_signature = 64 << 10;
constexpr std::size_t largest_keys = 1 << 20;
constexpr std::string_view sums_name = "SHA256SUMS";

struct SignatureFile {
    std::string_view end;
    role::SignatureKind kind;
};
constexpr std::array<SignatureFile, 3> signature_files{{{".minisig", role::SignatureKind::minisign},
                                                        {".gpg", role::SignatureKind::openpgp_sums},
                                                        {".asc", role::SignatureKind::openpgp_sums}}};

/// Where the sums of a source and their signatures are.
struct SignaturePlace {
    std::string base;                ///< for messages
    std::vector<std::string> bases;  ///< with mirrors; or one path
    content::Access access;
};

/// The credentials of a source are for its host, wherever they are used. Its certificates vouch for that host only.
Result<SignaturePlace> place_of(Workshop const& shop, Source const& source) {
    SignaturePlace place{.base = source.signatures.empty() ? source.url : source.signatures, .bases = {}, .access = {}};
    place.bases = source.signatures.empty() ? urls_of(source, "") : std::vector<std::string>{place.base};
    if (place.base.starts_with('/') || source.url.starts_with('/')) return place;
    place.access = TRY(access_of(shop, source));
    if (host_of(canonical_url(place.base)) != host_of(source.url)) place.access.authorities.clear();
    return place;
}

Result<content::Blob> store_local(Workshop& shop, content::LeaseId lease, std::string const& path, std::size_t most) {
    UniqueFd const file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) return fail(errno, "open " + path);
    auto blob = store_file(shop, lease, file.get(), {.maximum = most}, {.media_type = {}, .source = path});
    if (!blob) return fail(blob.error().kind, path + ": " + blob.error().text());
    return blob;
}

/// Fetches a small file next to the sums, on this host or behind an HTTP server. Returns nothing when it does not
/// exist.
Result<std::optional<content::Blob>> fetch_small(Workshop& shop, content::LeaseId lease, SignaturePlace const& place,
                                                 std::string const& name, std::size_t most) {
    Result<content::Blob> const blob = [&]() -> Result<content::Blob> {
        if (place.base.starts_with('/')) return store_local(shop, lease, place.base + "/" + name, most);
        std::vector<std::string> urls;
        for (std::string const& base : place.bases)
            urls.push_back(base + "/" + name);
        content::Fetcher fetcher(shop.store, {});
        return fetcher.fetch_blob(place.access,
                                  {.remote = {.urls = std::move(urls)},
                                   .most_bytes = most,
                                   .facts = {.media_type = {}, .source = place.base + "/" + name},
                                   .protection = shop.protection(lease)},
                                  shop.watch(place.base));
    }();
    if (!blob && blob.error().kind == ErrorKind::not_found) return std::optional<content::Blob>();
    return TRY(blob);
}

Result<std::string> content_of(Workshop& shop, content::Blob const& blob, std::size_t most) {
    UniqueFd const file = TRY(shop.store.open_blob(blob.digest));
    return read_open_file(file.get(), blob.digest.text(), most);
}

/// Public keys of minisign are one line of Base64 below a comment; all else is for OpenPGP.
bool is_minisign_key(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of("\r\n"), text.size()));
    return text.starts_with("untrusted comment:") || text.starts_with("RW");
}

/// Whether a key ring consists of packets of OpenPGP, not of armor: the first bit of each packet is set.
bool is_binary(std::string_view text) { return !text.empty() && static_cast<unsigned char>(text.front()) >= 0x80; }

/// Key rings as the verifier takes them: first those of packets, then those in armor without what is before it.
std::string key_rings(std::vector<std::string> const& texts) {
    std::string packets;
    std::string armor;
    for (std::string_view text : texts) {
        if (is_minisign_key(text)) continue;
        if (is_binary(text)) {
            packets += text;
        } else {
            text.remove_prefix(std::min(text.find("-----BEGIN "), text.size()));
            armor.append(text).append("\n");
        }
    }
    return packets + armor;
}

std::string keys_for(role::SignatureKind kind, std::vector<std::string> const& texts) {
    if (kind == role::SignatureKind::openpgp_sums) return key_rings(texts);
    std::string keys;
    for (std::string_view text : texts) {
        if (!is_minisign_key(text)) continue;
        while (!text.empty()) {
            std::size_t const end = std::min(text.find('\n'), text.size());
            std::string_view const line = text.substr(0, end);
            if (!line.empty() && !line.starts_with("untrusted comment:")) keys += std::string(line) + "\n";
            text.remove_prefix(std::min(end + 1, text.size()));
        }
    }
    return keys;
}

std::unexpected<Error> denied(Source const& source, std::string why) {
    return fail(ErrorKind::denied, "source " + source.url + " must be signed, and " + std::move(why));
}

struct Signature {
    role::SignatureKind kind;
    content::Blob blob;
};

/// Finds a signature for which there are keys. If there is none, finds any other: it will be refused.
Result<std::optional<Signature>> find_signature(Workshop& shop, content::LeaseId lease, SignaturePlace const& place,
                                                std::vector<std::string> const& keys) {
    auto const has_keys = [&](SignatureFile const& file) { return !keys_for(file.kind, keys).empty(); };
    auto files = signature_files;
    std::ranges::stable_partition(files, has_keys);
    for (SignatureFile const& file : files) {
        auto blob =
            TRY(fetch_small(shop, lease, place, std::string(sums_name) + std::string(file.end), largest_signature));
        if (blob) return Signature{file.kind, *std::move(blob)};
    }
    return std::optional<Signature>();
}

Result<> check(Workshop& shop, Source const& source, std::vector<std::string> const& keys, content::Blob const& sums,
               Signature const& signature, std::string const& name, role::Digest const& digest) {
    UniqueFd const signed_file = TRY(shop.store.open_blob(sums.digest));
    bool const is_minisign = signature.kind == role::SignatureKind::minisign;
    auto const signature_text = TRY(content_of(shop, signature.blob, largest_signature));
    auto const good = content::check_signature(shop.jobs(), {.kind = signature.kind,
                                                             .name = is_minisign ? std::string(sums_name) : name,
                                                             .digest = is_minisign ? sums.digest : digest,
                                                             .signed_file = signed_file.get(),
                                                             .signature = signature_text,
                                                             .keys = keys_for(signature.kind, keys)});
    if (!good) return fail(good.error().kind, "source " + source.url + ": " + good.error().text());
    auto const sum = content::find_sum(TRY(content_of(shop, sums, largest_sums)), name);
    if (sum && *sum == digest) return {};
    return fail(ErrorKind::denied, "source " + source.url + ": its signed SHA256SUMS does not say that " +
                                       json::shown(name) + " is " + digest.text());
}

}  // namespace

Result<> check_source_signature(Workshop& shop, Source const& source, std::string const& name,
                                role::Digest const& digest) {
    if (source.signature == SignaturePolicy::none) return {};
    bool const is_required = source.signature == SignaturePolicy::required;
    std::vector<std::string> keys;
    for (std::string const& path : source.keys)
        keys.push_back(TRY(read_file(path, largest_keys)));
    SignaturePlace const place = TRY(place_of(shop, source));
    auto lease = TRY(WorkLease::make(shop, "signature of " + name));
    auto const sums = TRY(fetch_small(shop, lease.id(), place, std::string(sums_name), largest_sums));
    auto const signature = sums ? TRY(find_signature(shop, lease.id(), place, keys)) : std::optional<Signature>();
    if (!signature && is_required)
        return denied(source, place.base + (sums ? " has no signature of SHA256SUMS" : " has no SHA256SUMS"));
    if (signature) TRY(check(shop, source, keys, *sums, *signature, name, digest));
    return lease.end();
}

}  // namespace triton::image
