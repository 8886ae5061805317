#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/uuid.h"

namespace triton::volume {

/// Names one generation of a volume, "<uuid>#<generation>". Another generation is another volume.
/// Source: EVE, pillar/types/volumes.go, VolumeConfig.Key().
struct VolumeKey {
    Uuid id;
    std::uint64_t generation = 0;

    [[nodiscard]] std::string text() const;
    /// Returns nullopt for anything that text() would not write.
    static std::optional<VolumeKey> parse(std::string_view text);
    auto operator<=>(VolumeKey const&) const = default;
};

/// Names a user of a volume, "<uuid>#<generation>#<user>": a machine by its uuid, a pod by its uid.
struct ReferenceKey {
    VolumeKey volume;
    std::string user;

    [[nodiscard]] std::string text() const;
    static std::optional<ReferenceKey> parse(std::string_view text);
    auto operator<=>(ReferenceKey const&) const = default;
};

/// Names the holder of the keys that sign content, by a UUID. Source: EVE, pillar/types/certobjtypes.go, Key().
struct HolderKey {
    Uuid id;

    [[nodiscard]] std::string text() const { return id.text(); }
    static std::optional<HolderKey> parse(std::string_view text);
    auto operator<=>(HolderKey const&) const = default;
};

/// Names a snapshot of volumes: a name as that of a content tree, with at most 64 characters.
/// Source: EVE, pillar/types/snapshottypes.go, VolumesSnapshotConfig.Key().
struct SnapshotKey {
    std::string id;

    [[nodiscard]] std::string const& text() const { return id; }
    static std::optional<SnapshotKey> parse(std::string_view text);
    auto operator<=>(SnapshotKey const&) const = default;
};

/// The name of a content tree: 1 to 128 characters of letters, digits, '.', '_' and '-', not beginning with a dot.
bool is_content_id(std::string_view text);

}  // namespace triton::volume
