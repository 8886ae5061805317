#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/disk/disk.h"
#include "host/role/failed_message.h"
#include "host/role/message.h"

namespace triton::role {

// Between the library and triton-verify. One process does one job, which the first message names.

/// Bytes [offset, offset + length) of a file.
struct Interval {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    bool operator==(Interval const&) const = default;
};
std::span<Row<Interval> const> table(json::TableOf<Interval>);
inline constexpr std::size_t most_intervals = 512;
inline constexpr std::uint32_t most_ranges = 16;  ///< open at the same time

/// The expected bytes. Size or digest may be unknown, `maximum` never is.
struct Expected {
    std::uint64_t maximum = 0;
    std::optional<std::uint64_t> size = {};
    std::optional<Digest> digest = {};
    std::optional<std::string> sha1 = {};  ///< for old manifests
};

/// Job: write ranges into a file as they arrive from pipes, and hash it. Has 1 descriptor: the file, open for reading
/// and writing. `landed` is already in it and is hashed, too.
struct Receive {
    static constexpr std::string_view name = "receive";
    Expected expected;
    std::vector<Interval> landed;
};
/// Adds a range. Has 1 descriptor: the pipe's read end. Without a length it lasts until the pipe ends, or to the
/// maximum.
struct Range {
    static constexpr std::string_view name = "range";
    std::uint32_t id = 0;
    std::uint64_t offset = 0;
    std::optional<std::uint64_t> length = {};
};
/// No further range follows, and the file has this size.
struct End {
    static constexpr std::string_view name = "end";
    std::uint64_t size = 0;
};

/// Job: copy a file (by reflink where possible) and hash the copy. Has 2 descriptors: the file to copy, and the new
/// one.
struct Check {
    static constexpr std::string_view name = "check";
    Expected expected;
};

inline constexpr std::uint32_t most_layers = 4096;  ///< of an image

/// What the descriptor of a configuration may have in place of its media type: what old registries have made of it, or
/// nothing. Source: moby, distribution/registry.go, "defaultImageTypes".
inline constexpr std::array<std::string_view, 4> old_config_types{"application/octet-stream", "application/json",
                                                                  "text/html", ""};

enum class DocumentKind : std::uint8_t {
    image,        ///< an index or a manifest, according to its content
    index,        ///< OCI image index, Docker manifest list
    manifest,     ///< OCI image manifest, Docker schema 2
    config,       ///< OCI image configuration
    imgapi,       ///< one manifest of IMGAPI, version 2
    imgapi_list,  ///< an array of them; they are not looked at
    tags,         ///< a registry's answer to tags/list
    other,        ///< any JSON within the limits
};
inline constexpr std::array<std::string_view, 8> document_kind_names{"image",  "index",       "manifest", "config",
                                                                     "imgapi", "imgapi-list", "tags",     "other"};

/// Job: read and check a JSON document. Has 1 descriptor: the document, a file or the read end of a pipe; or 2, with a
/// file to keep its bytes in.
struct ReadDocument {
    static constexpr std::string_view name = "document";
    DocumentKind kind = DocumentKind::other;
    Expected expected;
    std::string media_type = {};  ///< according to its parent, else to the server; empty: unknown
    std::uint32_t most_layers = role::most_layers;
};

/// Job: read the header of a disk image. Has 1 descriptor: the image.
struct ReadDisk {
    static constexpr std::string_view name = "disk";
    disk::Format format = disk::Format::raw;
};

enum class SignatureKind : std::uint8_t {
    minisign,
    openpgp_sums,  ///< of OpenPGP, over a file SHA256SUMS
    openpgp,       ///< of OpenPGP, over the file itself
    cms,           ///< Cryptographic Message Syntax with X.509 certificates, over the file itself
    x509,          ///< the bare signature of a key with an X.509 certificate, over the digest of the file
};
inline constexpr std::array<std::string_view, 5> signature_kind_names{"minisign", "openpgp-sums", "openpgp", "cms",
                                                                      "x509"};
static_assert(signature_kind_names.size() == static_cast<std::size_t>(SignatureKind::x509) + 1);

/// Whether a signature of this kind is checked with certificates that lead to a root.
constexpr bool has_roots(SignatureKind kind) { return kind == SignatureKind::cms || kind == SignatureKind::x509; }

/// Job: check that a trusted key has signed that the file `signed_name` has this digest. Has 3 descriptors: the signed
/// file (openpgp-sums: SHA256SUMS), the signature (empty if the sums are signed inline), and the keys: public keys of
/// minisign, one a line; certificates of OpenPGP; or X.509 certificates in PEM. For the last the trusted roots in PEM
/// are a fourth descriptor.
struct CheckSignature {
    static constexpr std::string_view name = "signature";
    SignatureKind kind = SignatureKind::minisign;
    std::string signed_name;
    Digest digest;
};

// Answers.

/// What the file has now; sent at most four times a second.
struct Landed {
    static constexpr std::string_view name = "landed";
    std::vector<Interval> intervals;
    std::uint64_t bytes = 0;  ///< of all of them
};
/// The pipe brings nothing more: it was closed, or the whole range has arrived.
struct RangeEnded {
    static constexpr std::string_view name = "rangeEnded";
    std::uint32_t id = 0;
    std::uint64_t received = 0;
};
/// The last answer of Receive and Check: the file is as expected, and on disk.
struct Verified {
    static constexpr std::string_view name = "verified";
    std::uint64_t size = 0;
    Digest digest;
};
/// The last answer of ReadDocument, with 1 descriptor: a sealed memfd with the same document as strict JSON without
/// duplicate keys. `media_type` is the real type of the document; empty if that has no name.
struct CheckedDocument {
    static constexpr std::string_view name = "checkedDocument";
    std::uint64_t size = 0;
    Digest digest;
    std::string media_type;
};
/// The last answer of CheckSignature. `key`: fingerprint or id of the signing key.
struct Signed {
    static constexpr std::string_view name = "signed";
    std::string key;
    std::string comment;
};

/// The last answer of ReadDisk: it is an image of that format, which names no other file and is not encrypted.
struct CheckedDisk {
    static constexpr std::string_view name = "checkedDisk";
    std::uint64_t virtual_bytes = 0;
};

std::span<Row<Receive> const> table(json::TableOf<Receive>);
std::span<Row<Range> const> table(json::TableOf<Range>);
std::span<Row<End> const> table(json::TableOf<End>);
std::span<Row<Check> const> table(json::TableOf<Check>);
std::span<Row<ReadDocument> const> table(json::TableOf<ReadDocument>);
std::span<Row<CheckSignature> const> table(json::TableOf<CheckSignature>);
std::span<Row<Landed> const> table(json::TableOf<Landed>);
std::span<Row<RangeEnded> const> table(json::TableOf<RangeEnded>);
std::span<Row<Verified> const> table(json::TableOf<Verified>);
std::span<Row<CheckedDocument> const> table(json::TableOf<CheckedDocument>);
std::span<Row<Signed> const> table(json::TableOf<Signed>);
std::span<Row<ReadDisk> const> table(json::TableOf<ReadDisk>);
std::span<Row<CheckedDisk> const> table(json::TableOf<CheckedDisk>);

}  // namespace triton::role
