#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "host/image/uuid.h"
#include "lib/base/result.h"

namespace triton::image {

/// What a user may name for an import. Only the form has been checked.

/// An image in a registry: "docker.io/library/alpine:3.20", "host:5000/name@sha256:<hex>".
struct RegistryReference {
    std::string host;        ///< with ":port" if one was given; "docker.io" unchanged
    std::string repository;  ///< "library/alpine"
    std::string tag;         ///< "latest" when neither tag nor digest is given; empty with a digest alone
    std::string digest;      ///< "sha256:<hex>", or empty

    /// Returns "docker.io/library/alpine:3.20", for example: parse_reference() reads it as the same.
    [[nodiscard]] std::string text() const;
    /// The host of its API: "registry-1.docker.io" for docker.io.
    [[nodiscard]] std::string_view endpoint() const;
    bool operator==(RegistryReference const&) const = default;
};

/// An image in an OCI layout, or in what docker save writes: a directory, or a tar archive of one.
struct LayoutReference {
    std::string path;
    std::string tag;     ///< or the name of the image there: "1.0", "team/app:1.0"; empty: the only image
    std::string digest;  ///< "sha256:<hex>" of a manifest or a configuration, or empty
    bool is_archive = false;

    [[nodiscard]] std::string text() const;
    bool operator==(LayoutReference const&) const = default;
};

/// A file or directory: a root tarball, a ZFS stream, a tree. Opening it tells which.
struct PathReference {
    std::string path;
    bool operator==(PathReference const&) const = default;
};

using Reference = std::variant<Uuid, RegistryReference, LayoutReference, PathReference>;

/// Reads a reference from a command line:
///
///     <uuid>                                    an image of a source
///     HOST[:PORT]/NAME[:TAG][@sha256:HEX]       an image of a registry; optionally with "docker://" before it
///     oci:DIRECTORY[:TAG|@sha256:HEX]           an image of an OCI layout
///     oci-archive:FILE[:TAG|@sha256:HEX]        the same in a tar archive, also one of docker save
///     docker-archive:FILE[:NAME:TAG]            the same
///     /PATH, ./PATH, ../PATH                    a file or a directory
///
/// Errors: `invalid`, with what was probably meant.
Result<Reference> parse_reference(std::string_view text);

/// Whether it is "sha256:" and 64 lower-case hexadecimal digits: the only digests that we trust.
bool is_sha256_digest(std::string_view text);

/// Whether it matches "[A-Za-z0-9_][A-Za-z0-9._-]{0,127}". Source: OCI distribution-spec, "Pulling manifests".
bool is_tag(std::string_view text);

/// Whether it can be the name of an image in an archive or a layout: "1.0+b", "localhost/app:1", "team/app:1".
/// Source: OCI image-spec, annotations.md, "org.opencontainers.image.ref.name".
bool is_image_name(std::string_view text);

/// The parts of such a name: "localhost/app:1" is "app" and "1", and a text without "/" and ":" is a tag alone.
struct ImageName {
    std::string name;
    std::string tag;
    bool operator==(ImageName const&) const = default;
};
ImageName split_image_name(std::string_view text);

/// The name with what Docker leaves out: "alpine" is "docker.io/library/alpine:latest".
std::string whole_image_name(std::string_view text);

/// Whether it can be the name of one file: letters, digits and "._+~-", no dot or dash at the beginning, at most 255
/// bytes.
bool is_file_name(std::string_view text);

/// Whether it has only lower-case path components. Source: the same.
bool is_repository(std::string_view text);

/// Whether it is a DNS name or address with an optional port.
bool is_registry_host(std::string_view text);

}  // namespace triton::image
