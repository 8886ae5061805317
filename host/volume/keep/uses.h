#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/content/database.h"
#include "host/volume/objects.h"
#include "lib/base/result.h"

namespace triton::volume {

/// The publisher of references that are written without volumemgr: those of machines.
inline constexpr std::string_view machine_publisher = "vmadm";

/// In the directory of the volumes' links; written after each change of these references, for volumemgr to follow.
inline constexpr std::string_view uses_file_name = "uses";

/// How a machine uses a volume.
struct Use {
    VolumeKey volume;
    bool is_read_only = false;

    bool operator==(Use const&) const = default;
};

/// What the database knows about one volume.
struct KnownVolume {
    VolumeKey key = {};
    std::string name = {};  ///< its DisplayName
    std::optional<VolumeRow> row = {};
    bool is_configured = false;
    bool is_read_only = false;
    bool is_file = false;  ///< as far as that is known before it is made
    bool is_in_vault = false;
};

/// The users of volumes, as rows that a command changes without volumemgr. A volume is held by a VolumeRefConfig; each
/// change checks the volume and the other users in the same transaction, so that no volume is deleted, and no file gets
/// a second writer, between the check and the hold. volumemgr makes the same checks when it deletes (rows.cpp).
class Uses {
public:
    /// Makes the tables if there are none. Errors: as of Rows::open().
    static Result<Uses> open(content::Database& database);
    /// The same without changing anything. nullopt: there are no tables yet.
    static Result<std::optional<Uses>> open_for_reading(content::Database& database);

    /// The volume that a word means: a key, a UUID (its highest generation) or a DisplayName.
    /// Errors: `not_found`; `refused` when several volumes have the name.
    Result<VolumeKey> find(std::string_view word);
    /// nullopt: neither its configuration nor anything of it exists.
    Result<std::optional<KnownVolume>> look_at(VolumeKey const& key);
    /// The machines that hold volumes, each once.
    Result<std::vector<std::string>> users();
    /// What a machine holds.
    Result<std::vector<Use>> uses_of(std::string_view user);

    struct Rules {
        /// Whether the file system of a volume maps owners (mount_setattr(2)). If not, the files of the volume belong
        /// to the uids of one user. Called only when there are two.
        std::function<Result<bool>(KnownVolume const& volume)> maps_owners = {};
        /// Holds that are not among `wanted` remain.
        bool keeps_others = false;
    };
    /// Called within the transaction, so that a concurrent change of what is wanted is not lost.
    using Wanted = std::function<Result<std::vector<Use>>()>;
    /// Holds what is wanted, and releases everything else. Returns whether something has changed.
    /// Errors: `not_found` volume; `refused`: it is being deleted, it is read-only, or another user excludes this one;
    /// those of `wanted` and of the database. Then nothing has changed.
    Result<bool> hold(std::string const& user, Wanted const& wanted, Rules const& rules);

private:
    explicit Uses(content::Database& database) : database_(&database) {}
    Result<> check(Use const& use, std::string const& user, Rules const& rules);
    Result<std::optional<VolumeKey>> highest_generation(Uuid const& id);

    content::Database* database_;
};

/// The references to a volume, from the rows. Errors: those of the database.
Result<std::vector<ReferenceConfig>> references_to(content::Database& database, VolumeKey const& key);
/// The references of one publisher.
Result<std::vector<ReferenceConfig>> references_of(content::Database& database, std::string_view publisher);

}  // namespace triton::volume
