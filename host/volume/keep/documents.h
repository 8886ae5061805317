#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "host/volume/objects.h"
#include "host/volume/states.h"
#include "lib/base/result.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"

namespace triton::volume {

/// Everything that a publisher can publish. The JSON of each has the names of EVE.
using Config =
    std::variant<VolumeConfig, TreeConfig, ReferenceConfig, DatastoreConfig, CertificatesConfig, SnapshotConfig>;

/// "VolumeConfig", "ContentTreeConfig", "VolumeRefConfig", "DatastoreConfig", "CertObjConfig",
/// "VolumesSnapshotConfig".
std::string_view kind_of(Config const& config);
/// Its key among objects of its kind.
std::string key_of(Config const& config);
std::string const& publisher_of(Config const& config);

/// Reads an object that somebody publishes. Errors: `invalid`, which names kind and member: a member that is missing,
/// unknown or of another type; a size of 0 where one is needed; what cannot be a name.
Result<Config> read_config(std::string_view kind, json::Object const& object, std::string_view publisher);
std::string config_text(Config const& config);

/// Whether a text can be a publisher's name: 1 to 32 small letters, digits and '-'.
bool is_publisher(std::string_view text);

/// `content`: the blobs that it is or will be made of, root first.
void write_status(json::Writer& out, VolumeStatus const& status, VolumeConfig const* config, VolumeRow const* row,
                  std::span<BlobStatus const> content);
void write_status(json::Writer& out, BlobStatus const& status);
/// DownloaderStatus and VerifyImageStatus: a blob as those who fetch and verify it show it. Whether there is one:
bool is_downloaded(BlobStatus const& status);
bool is_verified(BlobStatus const& status);
void write_download(json::Writer& out, BlobStatus const& status);
void write_verification(json::Writer& out, BlobStatus const& status);
void write_status(json::Writer& out, TreeStatus const& status, TreeConfig const* config);
void write_status(json::Writer& out, CertificatesStatus const& status, CertificatesConfig const* config);
void write_status(json::Writer& out, SnapshotStatus const& status);

}  // namespace triton::volume
