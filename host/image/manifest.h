#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/image/uuid.h"
#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace triton::image {

/// The state of an image on its server. Only active ones can be installed.
enum class ImageState : std::uint8_t { active, unactivated, disabled, creating, failed };

/// The components of an image.
enum class ImageType : std::uint8_t { zone_dataset, lx_dataset, zvol, docker, lxd, other };

/// Whether images of that type are ZFS streams.
bool is_dataset(ImageType type);

/// The longest chain of images that ends in an increment.
inline constexpr std::size_t most_origins = 32;

enum class Compression : std::uint8_t { none, gzip, bzip2, xz, zstd };

std::string_view name_of(ImageState state);
std::string_view name_of(ImageType type);
std::string_view name_of(Compression compression);

/// The file that an image's manifest describes.
struct ImageFile {
    std::uint64_t size = 0;
    std::string sha256 = {};  ///< hexadecimal; empty in manifests from before our time
    std::string sha1 = {};    ///< hexadecimal; used by old manifests
    Compression compression = Compression::none;
    std::string dataset_guid = {};
    std::string uncompressed_digest = {};  ///< "sha256:<hex>" of what it decompresses to
    std::string path = {};                 ///< for a directory source: the file's name next to the index
};

struct Requirements {
    std::string brand = {};
    bool has_platform = false;  ///< limited to SmartOS platforms, which no Linux host has
};

/// An image's manifest of IMGAPI, version 2. Source: the IMGAPI documentation, "Image manifests".
struct Manifest {
    std::optional<Uuid> uuid;
    std::optional<Uuid> origin;
    std::optional<Uuid> owner;
    std::string name;
    std::string version;
    std::string description;
    ImageState state = ImageState::active;
    bool is_disabled = false;
    bool is_public = true;
    std::string published_at;
    ImageType type = ImageType::other;
    std::string os;
    std::vector<ImageFile> files;
    Requirements requirements;
    std::vector<std::string> acl;
    std::uint64_t image_size = 0;  ///< in MiB; for disks

    /// The whole document, including what only other programs know.
    json::Node document;

    /// The document as JSON in one line.
    [[nodiscard]] std::string text() const;
    /// Returns "alpine@3.20", for example.
    [[nodiscard]] std::string title() const { return name + "@" + version; }
};

/// What a manifest must have for a use.
enum class ManifestUse : std::uint8_t {
    install,  ///< uuid, name, version, type and os
    create,   ///< nothing: what is missing is filled in
};

struct ReadManifest {
    Manifest manifest;
    std::vector<std::string> warnings;  ///< about unknown keys
};

/// Reads a manifest. `what` names it in errors: "manifest from https://...".
/// Errors: `invalid`, "<what> is not a manifest", with every problem and its place in the details.
Result<ReadManifest> read_manifest(std::string_view text, std::string_view what, ManifestUse use);

/// Checks that a host that runs Linux machines can install this image. Errors: `refused` or `unsupported`, because of
/// its state, its type, or its operating system.
Result<> check_installable(Manifest const& manifest);

/// All keys of a manifest that we know.
std::vector<std::string_view> manifest_keys();

/// The reference page of a manifest's keys, in Markdown.
std::string manifest_reference_page();

/// Our own data about an image without a manifest.
struct NewManifest {
    Uuid uuid;
    std::string name;
    std::string version;
    std::string description = {};
    std::string os = "linux";
    ImageType type = ImageType::other;
    std::optional<Uuid> origin = {};
    std::string published_at = {};
    std::vector<ImageFile> files = {};
    json::Object further = {};  ///< keys to take over unchanged; those above win
};

/// Makes a manifest with all that IMGAPI requires. Errors: as read_manifest(), when a text is too long.
Result<Manifest> make_manifest(NewManifest const& facts);

}  // namespace triton::image
