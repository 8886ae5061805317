#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/volume/keys.h"
#include "lib/base/result.h"

namespace triton::volume {

/// The state of a content tree or volume. It only advances, and an error does not change it.
/// Source: EVE, pillar/types/locationconsts.go, SwState.
enum class State : std::uint8_t {
    initial,
    resolving_tag,
    resolved_tag,
    downloading,
    downloaded,
    verifying,
    verified,
    loading,
    loaded,
    creating_volume,
    created_volume,
};

enum class SubState : std::uint8_t { none, initial, preparing, prepare_done, created, deleting };

/// "CREATED_VOLUME".
std::string_view name_of(State state);
/// "PrepareDone"; empty for none.
std::string_view name_of(SubState state);

/// When a failed step is tried again.
enum class FailureClass : std::uint8_t {
    transient,  ///< after a pause that doubles
    room,       ///< when there is room
    server,     ///< after `timer.download.retry`: a server refused
    vault,      ///< when the vault is unlocked
    permanent,  ///< after a change of the configuration, or when the operator asks for it
};

std::string_view name_of(FailureClass failure);

/// Why a step failed.
struct Failure {
    FailureClass failure = FailureClass::transient;
    std::string text;

    bool operator==(Failure const&) const = default;
};

/// What other programs are shown of a content tree.
struct TreeStatus {
    std::string id = {};
    State state = State::initial;
    std::string digest = {};
    std::uint64_t bytes = 0;
    std::uint64_t total_bytes = 0;
    std::size_t references = 0;
    std::string signed_by = {};
    std::optional<Failure> error = {};

    bool operator==(TreeStatus const&) const = default;
};

/// What other programs are shown of a blob of content. Source: EVE, pillar/types/blob.go.
struct BlobStatus {
    std::string digest = {};
    std::string name = {};  ///< what datastores call it; empty: only its digest names it
    std::string media_type = {};
    State state = State::initial;
    std::uint64_t bytes = 0;  ///< that are here
    std::uint64_t total_bytes = 0;
    std::size_t references = 0;  ///< of content trees
    std::optional<Failure> error = {};

    bool operator==(BlobStatus const&) const = default;
};

/// What other programs are shown of the certificates of a holder.
struct CertificatesStatus {
    HolderKey key = {};
    std::string publisher = {};
    State state = State::initial;
    std::optional<Failure> error = {};

    bool operator==(CertificatesStatus const&) const = default;
};

/// The state of a snapshot.
enum class SnapshotState : std::uint8_t { initial, creating, created, rolling_back, deleting };

/// "ROLLING_BACK".
std::string_view name_of(SnapshotState state);

/// What other programs are shown of a snapshot.
struct SnapshotStatus {
    SnapshotKey key = {};
    std::string publisher = {};
    std::string user = {};
    SnapshotState state = SnapshotState::initial;
    std::vector<VolumeKey> volumes = {};
    std::uint64_t rollbacks = 0;  ///< the last one that was done, or is being done
    std::int64_t taken = 0;       ///< in seconds since 1970; 0: not yet
    std::optional<Failure> error = {};

    bool operator==(SnapshotStatus const&) const = default;
};

/// What other programs are shown of a volume.
struct VolumeStatus {
    VolumeKey key = {};
    std::string publisher = {};  ///< "unknown": found on disk, and claimed by nobody yet
    State state = State::initial;
    SubState sub_state = SubState::none;
    std::uint64_t most_bytes = 0;
    std::size_t references = 0;  ///< of configurations and users
    std::optional<Failure> error = {};

    bool operator==(VolumeStatus const&) const = default;
};

}  // namespace triton::volume
