#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/content/database.h"
#include "host/image/image_service.h"
#include "host/image/uuid.h"
#include "lib/base/result.h"

namespace triton::image {

/// One layer of an image, lowest first: the blob that it was unpacked from, and the ChainID of the file system with it.
struct Layer {
    std::string blob;   ///< "sha256:<hex>"
    std::string chain;  ///< "sha256:<hex>"

    bool operator==(Layer const&) const = default;
};

/// The intent of a command. It becomes durable before anything is changed, and is removed after everything has
/// happened. A killed command leaves it, and the next one finishes or removes what it names.
enum class IntentId : std::int64_t {};
struct Intent {
    IntentId id;
    std::string owner;                ///< key of the lock that its process holds while it lives
    std::string purpose;              ///< "import of docker.io/library/alpine:3.20"
    std::optional<Uuid> image;        ///< whose file in images/ may have to be written or removed
    std::vector<std::string> chains;  ///< trees that are removed unless an image or another intent needs them
    std::optional<std::string> snapshot_of = {};  ///< the tree of a machine of which it has made a snapshot

    bool operator==(Intent const&) const = default;
};

/// The result of resolving a tag.
struct Latch {
    std::string reference;
    std::string digest;
    Uuid image;
};

/// The rows of images in the database of the content store. Changes that belong together are made inside one
/// content::Transaction, which the caller begins.
class Catalog {
public:
    /// Brings the tables up to date. `database` must outlive this. Errors: those of Database::migrate().
    static Result<Catalog> open(content::Database& database);
    /// For list(), get() and what else only reads: takes the tables as they are, also those of an older version. None:
    /// there are none yet. Errors: those of Database::version().
    static Result<std::optional<Catalog>> open_for_reading(content::Database& database);

    Result<std::vector<Image>> list();
    /// Errors: `not_found`: "image <uuid> is not installed".
    Result<Image> get(Uuid const& uuid);
    /// Nullopt: it is not installed, or has been deleted by another imgadm just now.
    Result<std::optional<Image>> find(Uuid const& uuid);
    Result<bool> has(Uuid const& uuid);
    Result<std::vector<Layer>> layers(Uuid const& uuid);

    Result<> add(Image const& image, std::span<Layer const> layers);
    /// Replaces the blobs that an installed image was made of by others with the same content, as those of another
    /// compression. All else stays, also its name. Errors: `refused` when the image has another tree.
    Result<> replace_layers(Image const& image, std::span<Layer const> layers);
    /// Removes an image with its layers, latches and pins.
    Result<> remove(Uuid const& uuid);
    Result<> set_pinned(Uuid const& uuid, bool is_pinned);

    /// The images that are increments of this one.
    Result<std::vector<Uuid>> children(Uuid const& uuid);
    Result<std::vector<std::string>> holders(Uuid const& uuid);
    Result<> hold(Uuid const& uuid, std::string_view holder);
    Result<> release(Uuid const& uuid, std::string_view holder);
    Result<> release_all(std::string_view holder);

    Result<std::optional<Latch>> latch(std::string_view reference);
    Result<std::vector<Latch>> latches();
    Result<> set_latch(Latch const& latch);
    /// Removes a name that a tag was resolved to; the image stays. There may be none.
    Result<> remove_latch(std::string_view reference);

    /// The images that have a blob or a layer: for `why` and `scrub`.
    Result<std::vector<Uuid>> images_with(std::string_view digest);

    Result<IntentId> begin_intent(std::string_view owner, std::string_view purpose, std::optional<Uuid> const& image,
                                  std::span<std::string const> chains,
                                  std::optional<std::string> const& snapshot_of = {});
    /// Adds a tree whose ChainID is known only now.
    Result<> add_to_intent(IntentId id, std::string_view chain);
    Result<> end_intent(IntentId id);
    Result<std::vector<Intent>> intents();
    Result<bool> has_intent(IntentId id);
    /// Whether an image, or an intent other than `but`, needs the tree of that ChainID.
    Result<bool> is_needed(std::string_view chain, IntentId but);
    /// If something else needs a tree, takes it off an intent: whatever needs it last, removes it. Of two intents that
    /// have one tree and end at the same time, only one leaves it to the other. Returns whether it was left.
    Result<bool> leave_to_others(std::string_view chain, IntentId id);

private:
    Result<> add_layers(Uuid const& uuid, std::span<Layer const> layers);
    explicit Catalog(content::Database& database) : database_(&database) {}
    Result<std::vector<Uuid>> uuids(content::Statement statement);

    content::Database* database_;
};

}  // namespace triton::image
