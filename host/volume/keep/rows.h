#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host/content/database.h"
#include "host/volume/events.h"
#include "host/volume/keep/documents.h"
#include "lib/base/result.h"

namespace triton::volume {

/// Forgets what a publisher has published.
struct EraseConfig {
    std::string kind;
    std::string key;
};
/// Room that others leave to a volume; see content::Store::promise(). Without bytes it ends, as it does with the row of
/// the volume.
struct SetPromise {
    VolumeKey key;
    std::uint64_t device = 0;
    std::uint64_t bytes = 0;
};
/// What a look at a volume has found. It makes no promise: the volume may be gone, or have grown, since the look.
struct SetWritten {
    VolumeKey key;
    std::uint64_t device = 0;
    std::uint64_t written = 0;
};
using Change = std::variant<Config, EraseConfig, VolumeRow, TreeRow, SnapshotRow, Save::EraseVolume, Save::EraseTree,
                            Save::EraseSnapshot, SetPromise, SetWritten>;

/// Everything that is in the database.
struct AllRows {
    std::vector<VolumeRow> volumes;
    std::vector<TreeRow> trees;
    std::vector<Config> configs;
    std::vector<SnapshotRow> snapshots = {};
    std::map<std::string, std::vector<BlobStatus>> blobs = {};  ///< that content trees keep
};

/// Errors: `refused`: a snapshot is being given back to the volume, which nobody can begin to use; those of the
/// database, whose tables must be up to date.
Result<> check_not_rolling_back(content::Database& database, VolumeKey const& key);

/// The tables of the area "volume" in content.db: what was published, and what was made of it.
class Rows {
public:
    /// Brings the tables up to date. Errors: `unsupported` for tables of a newer version; those of the database.
    static Result<Rows> open(content::Database& database);
    /// The same without changing anything. nullopt: there are none yet.
    static Result<std::optional<Rows>> open_for_reading(content::Database& database);

    Result<AllRows> load();
    /// Names this database: trees of another one are not ours to remove.
    Result<std::string> epoch();
    /// Makes all changes, in this order, durable at once. Errors: those of the database; then nothing has changed.
    Result<> apply(std::span<Change const> changes);

private:
    Rows(content::Database& database, std::size_t version) : database_(&database), version_(version) {}
    content::Database* database_;
    std::size_t version_;  // of the tables; an older one is only read
};

}  // namespace triton::volume
