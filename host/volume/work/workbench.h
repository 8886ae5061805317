#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/content/fetcher.h"
#include "host/content/store.h"
#include "host/content/verify_job.h"
#include "host/image/image_service.h"
#include "host/image/site.h"
#include "host/storage/pool.h"
#include "host/volume/events.h"
#include "host/volume/objects.h"
#include "host/volume/work/vault.h"
#include "lib/base/result.h"

namespace triton::volume {

/// Where the volumes of a host are.
struct Place {
    image::Settings settings;
    image::Site site;
    std::string links;  ///< "/var/triton/volumes"
    std::string epoch;  ///< of the database
};

/// Errors: as of image::read_site().
Result<Place> read_place(std::string const& root);

/// A job with everything that it needs to know, as it was when the core asked for it.
struct Order {
    Job job;
    std::optional<VolumeRow> row = {};        ///< of the volume
    std::optional<VolumeConfig> config = {};  ///< likewise
    std::optional<VolumeRow> source = {};     ///< of a clone
    std::optional<TreeConfig> tree = {};
    std::optional<TreeRow> tree_row = {};
    std::optional<CertificatesConfig> certificates = {};  ///< of the holder, or of the signer of the content
    std::vector<DatastoreConfig> datastores = {};         ///< in the order of their attempts
    std::vector<VolumeRow> volumes = {};                  ///< of a snapshot: those that are made
    int cancel = -1;                                      ///< readable: give up. Borrowed
    std::function<void(JobProgress const&)> progress = {};
    std::function<void(BlobStatus const&)> blob = {};  ///< one of several of a content tree
};

struct Answer {
    std::string digest = {};             ///< of a resolve
    std::string image = {};              ///< of a fetch of a container
    std::uint64_t bytes = 0;             ///< of a fetch
    std::string signed_by = {};          ///< of a fetch
    std::vector<BlobStatus> blobs = {};  ///< of a fetch: all that the content tree keeps
    std::int64_t taken = 0;              ///< of a snapshot: when, in seconds since 1970
    /// Of a build: what it needs is not in the store. It was not made.
    bool is_content_lost = false;
    /// Of a volume in the vault: why nothing was done; empty: it was.
    std::string vault_problem = {};
};

/// What one thread works with: a store and a pool of its own. Each job can be repeated after a crash in its middle.
class Workbench {
public:
    /// Errors: those of opening the store.
    static Result<Workbench> open(Place const& place);

    /// Errors: `refused` after a cancel; otherwise class_of() says what is to become of it.
    Result<Answer> run(Order const& order);

    /// The volumes that have a tree in the pool or in the vault, and the names of other trees where volumes are.
    struct Found {
        std::set<VolumeKey> volumes;
        std::vector<std::string> foreign;
        VaultState vault = {};  ///< of a look at the vault: while it is locked, none of its volumes are among these
    };
    Result<Found> look_at_trees(bool is_in_vault);
    /// The holders of whom there are certificates. Errors: those of reading a directory.
    Result<std::set<HolderKey>> look_at_certificates() const;
    [[nodiscard]] VaultState look_at_vault() const { return volume::look_at_vault(place_.site); }
    /// Errors: `unavailable`: the vault is locked; those of storage::Pool::space().
    Result<storage::Space> space(bool is_in_vault) { return TRY(pool_of(is_in_vault))->space(); }
    /// st_dev of the pool. Errors: `not_found`: there is no vault; those of stat(2).
    Result<std::uint64_t> device(bool is_in_vault) const;
    /// The bytes that a volume takes. Errors: of storage::Pool::usage().
    Result<std::uint64_t> usage(VolumeRow const& row);
    /// The name that EVE has for its file or directory.
    [[nodiscard]] std::string link_path(VolumeRow const& row) const;
    // Snapshots of a volume. Those that this program makes for clones begin with "triton-", and are not shown.
    /// Errors: `invalid` name; `exists`; those of storage::Pool.
    Result<> snapshot(VolumeRow const& row, std::string const& name);
    /// Nobody may be using the volume meanwhile. Errors: `not_found`; those of storage::Pool.
    Result<> rollback(VolumeRow const& row, std::string const& name);
    Result<> delete_snapshot(VolumeRow const& row, std::string const& name);
    Result<std::vector<storage::SnapshotFacts>> snapshots(VolumeRow const& row);

    /// A blob that is bad, and whose it is.
    struct BadBlob {
        std::string digest;
        std::string reason;
        std::vector<content::Owner> owners;
    };
    struct Scrub {
        std::uint64_t blobs = 0;
        std::uint64_t bytes = 0;
        std::vector<BadBlob> bad = {};
        std::vector<std::string> missing = {};  ///< volumes whose content is not in the pool, each with the reason
    };
    /// Reads every blob of the content store and puts bad ones into quarantine, and looks for the content of volumes.
    /// `sign`: called after each blob. Errors: those of content::Store::scrub().
    Result<Scrub> scrub(std::vector<VolumeRow> const& rows, std::function<void()> const& sign);

    /// Removes what killed processes have left in the pool, or in the vault.
    Result<> recover(bool is_in_vault);
    /// Removes the snapshots of these volumes that a killed process has made for a clone, or to send one. To be called
    /// before any job runs. Errors: those of storage::Pool.
    Result<> forget_own_snapshots(std::vector<VolumeRow> const& rows);
    /// Makes the links to these volumes that are missing, and removes those that lead to no volume. A link is not made
    /// durable, since it is derived.
    void repair_links(bool is_in_vault, std::vector<VolumeRow> const& made);

private:
    Workbench(Place place, content::Store store) : place_(std::move(place)), store_(std::move(store)) {}

    Result<PoolInUse> pool_of(bool is_in_vault);

    // build.cpp
    Result<bool> has_content(Order const& order);
    Result<> build(Order const& order);
    Result<> take_received(Order const& order, storage::TreeName const& tree);
    Result<> make(Order const& order, storage::Pool& pool, storage::TreeName const& tree);
    Result<> begin_blank(Order const& order, storage::Pool& pool, storage::TreeName const& tree);
    Result<> begin_clone(Order const& order, storage::Pool& pool, storage::TreeName const& tree);
    Result<> fill(Order const& order, int directory);
    Result<> copy_content(Order const& order, int file);
    Result<> make_seed(Order const& order, int file);
    Result<std::uint64_t> check_disk(Order const& order, content::Digest const& digest, int blob);
    Result<> grow(Order const& order);
    Result<> set_size(VolumeRow const& row, storage::Pool& pool, std::uint64_t bytes, int cancel);
    Result<> destroy(Order const& order);
    Result<> limit(storage::Pool& pool, storage::TreeName const& tree, std::uint64_t bytes);
    void link(storage::Pool const& pool, VolumeRow const& row) const;

    // snapshots.cpp
    Result<> take(VolumeRow const& row, storage::SnapshotName const& name);
    Result<> give_back(VolumeRow const& row, storage::SnapshotName const& name, int cancel);
    Result<Answer> take_snapshot(Order const& order);
    Result<> roll_back(Order const& order);
    Result<> delete_snapshot(Order const& order);

    // fetch.cpp
    Result<Answer> resolve(Order const& order);
    Result<Answer> fetch(Order const& order);
    Result<> check_fetched(Order const& order);
    Result<Answer> fetch_from(Order const& order, DatastoreConfig const& datastore);
    /// A blob, and who keeps it.
    struct Wanted {
        std::string name;  ///< what datastores call it
        content::Digest digest;
        std::uint64_t most_bytes = 0;
        content::Owner owner;
    };
    Result<content::Blob> fetch_blob(Order const& order, Wanted const& wanted, DatastoreConfig const& datastore);
    Result<content::Blob> fetch_remote(Order const& order, Wanted const& wanted, DatastoreConfig const& datastore);
    Result<content::Blob> fetch_local(Order const& order, Wanted const& wanted, DatastoreConfig const& datastore);
    Result<Answer> fetch_image(Order const& order, DatastoreConfig const& datastore);
    Result<> drop(Order const& order);
    Result<std::vector<BlobStatus>> blobs_of(std::string const& content);

    // certificates.cpp
    [[nodiscard]] std::string certificates_path(HolderKey const& key) const;
    Result<> fetch_certificates(Order const& order);
    Result<> fetch_certificate(Order const& order, CertificatesConfig::Certificate const& certificate);
    Result<> drop_certificates(HolderKey const& key);
    Result<> remove_views(HolderKey const& key, std::set<std::string> const& kept) const;
    Result<std::string> read_certificates(CertificatesConfig const& config);

    // signature.cpp
    Result<std::string> check_signature(Order const& order);
    Result<> add_keys(Order const& order, content::SignatureRequest& request);
    Result<std::optional<std::string>> find_small(Order const& order, std::string const& name, std::size_t most);
    Result<std::string> fetch_small(Order const& order, DatastoreConfig const& datastore, std::string const& name,
                                    std::size_t most);

    Place place_;
    content::Store store_;
    std::unique_ptr<storage::Pool> pool_;  // opened when it is needed: its disk may not answer
    std::map<std::pair<content::Digest, Format>, std::uint64_t> checked_disks_;  // the size that each one has
};

/// "volumes/clear/<uuid>.<generation>", or "volumes/vault/..." in the vault.
Result<storage::TreeName> tree_of(VolumeKey const& key, bool is_in_vault);
/// The volume that a tree belongs to, by its name; nullopt: none that we would make.
std::optional<VolumeKey> key_of_tree(storage::TreeName const& tree);
/// "volumes/received/<uuid>.<generation>": where a stream is unpacked.
Result<storage::TreeName> received_tree(VolumeKey const& key);
/// "<uuid>#<generation>.raw", the name of EVE; of the file in a tree, and of links.
std::string file_name(VolumeKey const& key, Format format);
/// "/srv/images/NAME", or a URL: where a datastore has something.
std::string joined_path(DatastoreConfig const& datastore, std::string const& name);
/// With the credentials of a datastore. Errors: as of read_secret().
Result<content::Access> access_of(DatastoreConfig const& datastore);
/// Whoever keeps the blobs of a content tree.
content::Owner owner_of(std::string const& content);
/// Whoever keeps the certificates of a holder.
content::Owner owner_of(HolderKey const& key);
/// The holder that an owner of blobs is; nullopt: it is another kind of owner.
std::optional<HolderKey> holder_of(content::Owner const& owner);

}  // namespace triton::volume
