#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/volume/keys.h"

namespace triton::volume {

/// How a volume begins. Source: EVE, "Volume Manager Management Agent", Overview.
enum class Origin : std::uint8_t {
    download,    ///< the content of a content tree
    blank,       ///< empty
    cloud_init,  ///< a seed image with user data
    clone,       ///< the content of another volume
    received,    ///< what `volumeadm receive` has put into the pool
};

enum class Layout : std::uint8_t {
    directory,  ///< a tree of files
    file,       ///< one file, an image of a disk
};

/// What a volume is on disk. Source: EVE, pillar/types/volumes.go, Format; its names in lower case are those of files.
enum class Format : std::uint8_t {
    raw,
    iso,
    qcow,
    qcow2,
    vmdk,
    vhd,
    vhdx,
    container,  ///< a tree that began as the root of an image
    directory,  ///< a tree that began empty
};

std::string_view name_of(Origin origin);
std::string_view name_of(Layout layout);
std::string_view name_of(Format format);
std::optional<Origin> parse_origin(std::string_view name);
std::optional<Layout> parse_layout(std::string_view name);
std::optional<Format> parse_format(std::string_view name);
Layout layout_of(Format format);

/// The desired state of a volume: it shall exist as long as somebody publishes this.
struct VolumeConfig {
    VolumeKey key = {};
    std::string publisher = {};
    std::string display_name = {};
    Origin origin = Origin::blank;
    std::optional<Layout> layout = {};     ///< none: that of its content, and a directory for what begins blank
    std::string content = {};              ///< origin `download`: the id of a content tree
    std::optional<VolumeKey> source = {};  ///< origin `clone`
    std::uint64_t most_bytes = 0;          ///< 0: no limit of its own
    bool is_encrypted = false;             ///< it must be in the vault
    bool is_read_only = false;
    std::optional<Format> format =
        {};  ///< raw: content of another format is converted; of origin `received`: what it is
    /// Origin `cloud_init`: paths of files that only root can read. What is in them is never kept elsewhere.
    std::string user_data = {};
    std::string network = {};  ///< empty: none

    bool operator==(VolumeConfig const&) const = default;
};

/// The signature that a content tree must have, besides its digest.
struct SignatureConfig {
    enum class Kind : std::uint8_t {
        minisign,
        openpgp_sums,  ///< of OpenPGP, over a file SHA256SUMS that names the content
        openpgp,       ///< of OpenPGP, over the content
        cms,           ///< with X.509 certificates, over the content
        x509,          ///< the same, over its digest
    };
    Kind kind = Kind::minisign;
    bool is_required = true;               ///< otherwise it can be missing, but one that is there must be good
    std::string keys = {};                 ///< path of a file with public keys, for minisign and OpenPGP
    std::optional<HolderKey> holder = {};  ///< of the certificates, for the rest
    std::string name = {};                 ///< what a datastore calls the signature; empty: `text` is the signature
    std::string sums = {};  ///< what it calls SHA256SUMS; the same name as that of the signature: it is signed inline
    std::string text = {};

    bool operator==(SignatureConfig const&) const = default;
};

/// The desired state of a content tree: it shall be fetched, verified and kept.
struct TreeConfig {
    std::string id = {};
    std::string publisher = {};
    std::string name = {};    ///< what a datastore calls it, with a tag or a digest
    std::string digest = {};  ///< empty: `name` is resolved once
    Format format = Format::container;
    std::vector<Uuid> datastores = {};  ///< where it can be had; they are tried in turn
    std::uint64_t most_bytes = 0;       ///< the largest download
    std::optional<SignatureConfig> signature = {};

    bool operator==(TreeConfig const&) const = default;
};

/// The certificates of somebody whose keys sign content, and those between them and a root: CertObjConfig. None of them
/// is trusted by itself.
struct CertificatesConfig {
    struct Certificate {
        std::string name = {};    ///< what a datastore calls it
        std::string digest = {};  ///< "sha256:<hex>", of the file

        bool operator==(Certificate const&) const = default;
    };
    HolderKey key = {};
    std::string publisher = {};
    std::vector<Uuid> datastores = {};  ///< where they can be had; they are tried in turn
    std::vector<Certificate> certificates = {};

    bool operator==(CertificatesConfig const&) const = default;
};

/// A user of a volume. While there is one, the volume is not deleted.
struct ReferenceConfig {
    ReferenceKey key;
    std::string publisher;
    bool is_verify_only = false;  ///< fetch and verify the content, but do not create the volume yet
    bool is_read_only = false;    ///< the user does not write: several such users can share a file

    bool operator==(ReferenceConfig const&) const = default;
};

/// The desired state of a snapshot: it shall exist as long as somebody publishes this. It has what its volumes had when
/// it was taken. Source: EVE, pillar/types/snapshottypes.go, VolumesSnapshotConfig.
struct SnapshotConfig {
    SnapshotKey key = {};
    std::string publisher = {};
    std::string user = {};  ///< for whom it is; empty: nobody in particular
    std::vector<VolumeKey> volumes = {};
    /// The volumes are given their content back once each time that this becomes larger after the snapshot was taken.
    std::uint64_t rollbacks = 0;

    bool operator==(SnapshotConfig const&) const = default;
};

/// Where content comes from. Source: EVE, pillar/types/domainmgrtypes.go, DatastoreConfig.
struct DatastoreConfig {
    enum class Type : std::uint8_t {
        http,       ///< and HTTPS, by the scheme of its address
        registry,   ///< an OCI registry
        directory,  ///< files of this host
    };
    Uuid id = {};
    std::string publisher = {};
    Type type = Type::http;
    std::string address = {};      ///< "https://images.example.com", "registry.example.com", "/srv/images"
    std::string path = {};         ///< in front of each name
    std::string credentials = {};  ///< path of a file that only root can read; empty: none
    bool is_insecure = false;      ///< a registry may be asked over plain HTTP

    bool operator==(DatastoreConfig const&) const = default;
};

/// How a message names a user: "machine <uuid>" or its name.
std::string shown_user(ReferenceConfig const& reference);

std::string_view name_of(DatastoreConfig::Type type);
std::string_view name_of(SignatureConfig::Kind kind);
std::optional<SignatureConfig::Kind> parse_signature_kind(std::string_view name);
/// Whether its keys have certificates, which somebody publishes, and not a file of keys.
bool has_certificates(SignatureConfig::Kind kind);
/// What content is checked for, in one line; empty: nothing. Content that was checked for something else is checked
/// again.
std::string demand_of(std::optional<SignatureConfig> const& signature);
std::optional<DatastoreConfig::Type> parse_datastore_type(std::string_view name);

/// What the database knows of a volume that this database has begun to make.
struct VolumeRow {
    /// A step is in the database before anything of it happens, so that after a crash it is known what a tree is.
    enum class Stage : std::uint8_t {
        intent,    ///< it is being made: a tree with its name can be incomplete
        made,      ///< it is complete
        deleting,  ///< it is being removed
    };
    VolumeKey key = {};
    Stage stage = Stage::intent;
    std::uint64_t bytes = 0;  ///< promised to it on its file system
    bool is_in_vault = false;
    std::string content = {};  ///< the content tree that it was made from
    Format format = Format::directory;
    std::int64_t unclaimed_seconds = 0;

    bool operator==(VolumeRow const&) const = default;
};

/// What the database knows of a content tree.
struct TreeRow {
    std::string id = {};
    std::string digest = {};  ///< what its name meant when it was resolved
    std::string image = {};   ///< of a container: the UUID that it is installed by
    bool is_loaded = false;   ///< all of it is verified and referenced
    std::uint64_t bytes = 0;
    std::string demand = {};     ///< what its signature was checked for; see demand_of()
    std::string signed_by = {};  ///< whose signature was good; empty: nobody's was asked for, or there was none

    bool operator==(TreeRow const&) const = default;
};

/// What the database knows of a snapshot that was asked for.
struct SnapshotRow {
    /// As of a volume, a step is in the database before anything of it happens.
    enum class Stage : std::uint8_t {
        intent,        ///< it is being taken: some of the volumes can have it
        made,          ///< each of its volumes has it
        rolling_back,  ///< some of the volumes can have their content back. Nobody may begin to use one
        deleting,      ///< it is being removed
    };
    SnapshotKey key = {};
    Stage stage = Stage::intent;
    std::vector<VolumeKey> volumes = {};
    std::uint64_t rollbacks = 0;  ///< the last one that was done, or is being done
    std::int64_t taken = 0;       ///< in seconds since 1970; 0: not yet

    bool operator==(SnapshotRow const&) const = default;
};

}  // namespace triton::volume
