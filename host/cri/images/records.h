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

/// The records of those images that came from a registry or a layout; others have no configuration, and are not meant
/// for containers. Sorted by id.
std::vector<ImageRecord> records_of(std::span<image::Image const> images, std::span<image::Latch const> latches,
                                    std::span<DigestName const> digests);

/// Finds an image by its id, with or without "sha256:", by a unique beginning of the id of at least 8 digits, or by a
/// name. nullptr: there is none. Errors: `invalid` for text that can be neither.
Result<ImageRecord const*> find_record(std::span<ImageRecord const> records, std::string_view text);

}  // namespace triton::cri
