#pragma once

#include <cstdint>
#include <optional>
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

/// The entry of a layout's index.json with that tag; without a tag the only entry. Errors: `not_found`, with the tags
/// that it has.
Result<Descriptor> choose_tag(OciIndex const& index, std::string_view tag, std::string_view what);

/// The header "Accept" for a request for a manifest.
std::vector<std::string> accepted_media_types();

inline constexpr std::size_t most_layers = role::most_layers;
inline constexpr std::size_t most_manifests = 1024;
inline constexpr std::uint64_t largest_document = 4 << 20;
inline constexpr std::uint64_t largest_layer = std::uint64_t{1} << 40;

}  // namespace triton::image
