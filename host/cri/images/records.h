#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/image/catalog.h"
#include "host/image/image_service.h"
#include "lib/base/result.h"
#include "lib/base/uuid.h"

namespace triton::cri {

/// An image as clients of CRI see it. Its identity is the digest of its configuration: "sha256:<hex>".
struct ImageRecord {
    std::string id;
    Uuid uuid;
    std::vector<std::string> repo_tags;     ///< "docker.io/library/nginx:1.27", sorted
    std::vector<std::string> repo_digests;  ///< "docker.io/library/nginx@sha256:...", sorted
    std::uint64_t size = 0;
    std::optional<std::int64_t> user_id;  ///< that its programs run as; nullopt: user_name
    std::string user_name;
    std::string platform;
    std::int64_t installed_at = 0;  ///< seconds since 1970
    bool is_pinned = false;

    bool operator==(ImageRecord const&) const = default;
};

/// A name by digest that an image was pulled by.
struct DigestName {
    std::string name;
    Uuid image;

    bool operator==(DigestName const&) const = default;
};

/// Where names come from beside the images.
struct NameSources {
    std::vector<image::Latch> latches;    ///< what tags were resolved to
    std::vector<DigestName> digests;      ///< by which images were pulled
    std::vector<DigestName> hidden = {};  ///< names by digest of the images' own rows that a client has removed
};

/// The records of those images that came from a registry or a layout; others have no configuration, and are not meant
/// for containers. Sorted by id.
std::vector<ImageRecord> records_of(std::span<image::Image const> images, NameSources const& sources);

/// Finds an image by its id, with or without "sha256:", by a unique beginning of the id of at least 8 digits, or by a
/// name. nullptr: there is none. Errors: `invalid` for text that can be neither.
Result<ImageRecord const*> find_record(std::span<ImageRecord const> records, std::string_view text);

/// What an image is found by, beside its id.
struct ImageNames {
    std::vector<std::string> references;  ///< of latches
    std::vector<std::string> digests;     ///< "docker.io/library/nginx@sha256:..."
};
ImageNames names_of(ImageRecord const& record, std::span<image::Latch const> latches);

}  // namespace triton::cri
