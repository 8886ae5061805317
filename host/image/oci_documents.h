#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host/content/verify_job.h"
#include "host/image/platform.h"
#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace triton::image {

/// The target of a descriptor of the OCI image format. Docker's media types are read as those of OCI.
/// Source: OCI image-spec, media-types.md.
enum class OciKind : std::uint8_t { index, manifest, config, layer, other };

/// A reference from one document to another. Source: image-spec, descriptor.md.
struct Descriptor {
    std::string media_type = {};
    std::string digest = {};  ///< "sha256:<hex>", checked
    std::uint64_t size = 0;
    std::optional<Platform> platform = {};
    std::string reference_name = {};  ///< annotation org.opencontainers.image.ref.name: the tag, in a layout
    std::string image_name = {};      ///< annotation io.containerd.image.name: "docker.io/library/alpine:3.20"
    OciKind kind = OciKind::other;

    bool operator==(Descriptor const&) const = default;
};

struct OciIndex {
    std::vector<Descriptor> manifests;
};

struct OciManifest {
    Descriptor config;
    std::vector<Descriptor> layers;  ///< lowest first
};

/// An image's own configuration. Source: image-spec, config.md.
struct OciConfig {
    Platform platform;  ///< without an architecture if it names none
    std::string created;
    std::vector<std::string> diff_ids;  ///< "sha256:<hex>", lowest layer first
    json::Object execution;             ///< its "config": command, environment, user, labels ...
};

/// Reads an index or a manifest. `media_type`: its type according to others; empty: unknown.
/// Errors: `corrupt`: "<what> is neither a manifest nor an index" with details; a document that is both, or not of its
/// media type (CVE-2021-41190); more than 4,096 layers or 1,024 entries; a digest that is not SHA-256; a layer with an
/// unknown media type. `unsupported`: Docker's schema 1.
Result<std::variant<OciIndex, OciManifest>> read_index_or_manifest(std::string_view text, std::string_view media_type,
                                                                   std::string_view what);

/// Reads the configuration of an image with that many layers. Errors: `corrupt`, with details.
Result<OciConfig> read_oci_config(std::string_view text, std::size_t layers, std::string_view what);

/// Reads the version in the file oci-layout of an image layout. Errors: `corrupt`, with details.
/// Source: image-spec, image-layout.md, "oci-layout file".
Result<std::string> read_layout_version(std::string_view text, std::string_view what);

/// The manifest of an index that runs on `wanted`; nested indexes count as manifests. If none does, those without a
/// platform, whose configurations decide. Errors: `not_found`, with the platforms that it has.
Result<std::vector<Descriptor>> choose_manifests(OciIndex const& index, Platform const& wanted, std::string_view what);

/// One of the images of a layout or an archive.
struct NamedImage {
    std::string identity;            ///< of its content: two entries with the same are one image
    std::vector<std::string> names;  ///< "1.0", "team/app:1.0"
};
/// The index of the image that is meant by a name: the name itself, the same without what Docker leaves out, or the tag
/// alone; without one the only image. `what` names the whole. Errors: `not_found`, with the names that it has;
/// `invalid`: several images have that name, with their identities.
Result<std::size_t> choose_named(std::span<NamedImage const> images, std::string_view wanted, std::string_view what);

/// The entry of a layout's index.json with that name. Errors: as of choose_named().
Result<Descriptor> choose_tag(OciIndex const& index, std::string_view tag, std::string_view what);

/// An image of an archive of docker save.
struct SavedImage {
    std::string config;               ///< the path of its configuration
    std::vector<std::string> names;   ///< "alpine:3.20"
    std::vector<std::string> layers;  ///< paths, lowest first; two layers may be one file
};
/// Reads its manifest.json, as Docker 1.10 and its successors, podman, skopeo, jib, ko and kaniko write it. Paths are
/// relative and lead to nothing outside. Errors: `corrupt`, with details.
/// Source: moby, image/tarexport; Docker Image Specification v1.2, "Combined Image JSON + Filesystem Changeset Format".
Result<std::vector<SavedImage>> read_saved_images(std::string_view text, std::string_view what);

/// The header "Accept" for a request for a manifest.
std::vector<std::string> accepted_media_types();

inline constexpr std::size_t most_layers = role::most_layers;
inline constexpr std::size_t most_manifests = 1024;
inline constexpr std::size_t most_saved_images = 1024;
inline constexpr std::uint64_t largest_document = 4 << 20;
inline constexpr std::uint64_t largest_layer = std::uint64_t{1} << 40;

}  // namespace triton::image
