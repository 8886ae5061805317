#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/content/fetcher.h"
#include "host/content/store.h"
#include "host/image/manifest.h"
#include "host/image/observer.h"
#include "host/image/platform.h"
#include "host/image/reference.h"
#include "host/image/sources.h"
#include "host/image/uuid.h"
#include "host/storage/pool.h"
#include "lib/base/result.h"

namespace triton::image {

/// The paths of a host. `root` (TRITON_ROOT) comes before all of them; empty: the real root.
struct Settings {
    std::string root = {};
    std::string configuration = "/etc/triton/triton.json";
    std::string state = "/var/triton";
    /// Names the pool that the host must have: by its directory, or on ZFS by its dataset or zpool. Empty: any.
    std::string pool = {};
    /// A descriptor that is readable when the work is to be given up. Borrowed; -1: never.
    int cancel = -1;
    /// The command makes room: on a full disk it has what is kept for that, and what is left of that is kept again in
    /// the end. Others keep it.
    bool makes_room = false;
    /// The command only reports what it would do: it recovers nothing, and needs no room.
    bool is_dry_run = false;
};

/// An installed image.
struct Image {
    Manifest manifest;
    std::string tree;               ///< the tree from whose snapshot "final" machines are cloned
    std::string source;             ///< where it came from: a URL, a registry, a path
    std::string reference = {};     ///< for a registry or a layout: what was asked for
    std::string digest = {};        ///< what that was when it was resolved: "sha256:<hex>"
    std::string platform = {};      ///< "linux/amd64"
    std::int64_t installed_at = 0;  ///< seconds since 1970
    std::uint64_t size = 0;         ///< bytes of its blobs
    std::uint64_t clones = 0;       ///< machines and other trees that were made from it
    bool is_pinned = false;

    [[nodiscard]] Uuid const& uuid() const { return *manifest.uuid; }
};

/// An image that a source has.
struct AvailableImage {
    Manifest manifest;
    std::string source;
};

/// A server that has images of a registry, as a client configures it.
struct RegistryHost {
    content::ServerSettings settings;  ///< its base: "https://mirror.example/v2"; empty: what imgadm.conf has
    bool resolves = true;              ///< it can say what a tag means
    bool has_content = true;           ///< it can give manifests and layers by their digests
    std::string query = {};            ///< "ns=docker.io", added to each request

    bool operator==(RegistryHost const&) const = default;
};

struct ImportOptions {
    std::optional<Uuid> uuid = {};          ///< for a tarball or tree: its UUID here
    std::string name = {};                  ///< likewise; empty: the file's name
    std::string version = {};               ///< likewise; empty: the beginning of the digest
    std::optional<Platform> platform = {};  ///< none: this machine's
    std::string source = {};                ///< only this one is asked; empty: all of imgadm.conf
    std::string authfile = {};              ///< credentials for a registry that is not a source
    std::string credentials = {};           ///< instead: the text of an authfile
    bool is_insecure = false;               ///< plain HTTP from a registry is allowed
    bool is_quiet = false;                  ///< does not report an image that is installed already
    /// Who keeps what comes, from the moment that it is in the store: a reference each, which outlives a reboot, while
    /// the lease of an import does not. The caller removes them.
    std::optional<content::Owner> keeper = {};
    bool is_fresh = false;  ///< a tag means what the registry says now, also when it is known here
    /// The servers of the registry, in the order in which they are asked, in place of those that imgadm.conf has. The
    /// last one gets the credentials. Empty: those of imgadm.conf, or the registry itself.
    std::vector<RegistryHost> hosts = {};
};

/// The result of a command for one image.
struct Imported {
    Uuid uuid;
    bool was_there = false;
};

struct CreateOptions {
    std::string manifest = {};  ///< JSON; missing keys are filled in
    std::string output = {};    ///< directory for the file and its manifest; empty: it is installed here
    Compression compression = Compression::none;
    bool is_stream = false;     ///< a ZFS stream instead of a tarball, of a machine on ZFS, into an output directory
    bool is_increment = false;  ///< for a stream: only what the machine has changed since its image
    std::optional<std::size_t> most_origins = {};  ///< for an increment: the most images below it
    std::string script = {};                       ///< a program that prepares a copy of the machine; empty: none
};

struct Created {
    Manifest manifest;
    std::string file = {};  ///< empty: it was installed here
    std::string manifest_file = {};
};

struct UpdateChange {
    std::string reference;
    std::string old_digest, new_digest;
    std::optional<Uuid> old_image, new_image;
    std::optional<Error> failure = {};  ///< why it could not be resolved or imported, unlike the others
};

/// Something that is removed, or would be.
struct Victim {
    std::string what;  ///< "image 7b59...", "blob sha256:...", "layer sha256:..."
    std::string reason;
    std::uint64_t bytes = 0;
};

/// A blob that is bad, or a tree that is missing.
struct ScrubFinding {
    std::string digest;               ///< of the blob; or the ChainID of the tree
    std::vector<std::string> images;  ///< titles of the images that were made from it
    bool was_fetched_again = false;
    bool is_quarantined = false;  ///< its bytes are kept for inspection
    bool is_tree = false;
    std::string reason;
};

struct ScrubReport {
    std::uint64_t blobs = 0;
    std::uint64_t bytes = 0;
    std::vector<ScrubFinding> bad;
    std::optional<Error> failure = {};  ///< why the other blobs were not read
};

/// The images of a host, for imgadm and vmadm.
///
/// Every change is all or nothing, even when the process is killed: the next command that changes something finishes or
/// removes what a killed one has left. An image is listed only when its content is verified, unpacked and on disk.
class ImageService {
public:
    /// Opens it for reading: needs only the right to read, changes nothing, and waits for nothing.
    static Result<ImageService> open_for_reading(Settings const& settings);
    /// Opens it for makers of machines: for reading, hold() and release(). Recovers nothing and opens no pool.
    static Result<ImageService> open_for_holding(Settings const& settings);
    /// Opens it for everything, and recovers what killed commands have left. Errors: `denied` without root's rights.
    static Result<ImageService> open(Settings const& settings, Observer& observer);

    ImageService(ImageService&& other) noexcept;
    ImageService& operator=(ImageService&& other) noexcept;
    ~ImageService();

    // The installed images.
    Result<std::vector<Image>> list();
    /// Errors: `not_found`: "image <uuid> is not installed".
    Result<Image> get(Uuid const& uuid);
    /// The image, its origin, the origin of that, and so on.
    Result<std::vector<Image>> ancestry(Uuid const& uuid);
    /// The UUID that a reference means here: itself, or what it was resolved to when it was imported.
    /// Errors: `not_found`.
    Result<Uuid> find(Reference const& reference);

    // The images of sources.
    Result<std::vector<AvailableImage>> available(std::string_view source);
    Result<AvailableImage> show(Uuid const& uuid, std::string_view source);

    // Changes.
    Result<Imported> import(Reference const& reference, ImportOptions const& options);
    /// The digest that a reference to a registry or a layout has now. Errors: `unsupported` for any other.
    Result<std::string> resolve(Reference const& reference, ImportOptions const& options);
    /// Installs an image from its manifest and its file.
    Result<Imported> install(std::string_view manifest, std::string const& file, ImportOptions const& options);
    Result<> remove(Uuid const& uuid);
    /// The unpinned images from which no machine was made, and of which no image is an increment that stays.
    Result<std::vector<Image>> unused();
    /// Removes those of these images that are still unused, in this order.
    Result<> vacuum(std::span<Uuid const> images);
    /// Resolves the tags of installed images again, and imports what they mean now; without `references`, all tags. A
    /// reference may also name an image, whose tags are meant. One that fails does not prevent the others. Of all tags,
    /// those of layouts that do not exist any more are left out.
    /// Errors: `not_found`: a reference by which no image was imported; `invalid`: an image without a tag.
    Result<std::vector<UpdateChange>> update(std::span<Reference const> references, bool is_dry_run,
                                             ImportOptions const& options);
    /// Makes an image from a directory, or from the tree of a machine ("machines/<uuid>").
    Result<Created> create(std::string const& directory, CreateOptions const& options);
    Result<Created> create(Uuid const& machine, CreateOptions const& options);
    Result<> set_pinned(Uuid const& uuid, bool is_pinned);

    // Users of an image.
    /// Holds an image for a machine, so that it cannot be deleted; twice is once.
    /// Errors: `not_found`: "image <uuid> is not installed".
    Result<> hold(Uuid const& uuid, std::string_view holder);
    /// Releases it. Succeeds also when it is not held or does not exist.
    Result<> release(Uuid const& uuid, std::string_view holder);
    /// Releases every image that this holder holds.
    Result<> release_all(std::string_view holder);

    // Sources.
    [[nodiscard]] std::vector<Source> const& sources() const;
    /// Gives the sources as they are now to `change`, and writes what it returns, while no other process changes them.
    using SourceChange = std::function<Result<std::vector<Source>>(std::vector<Source>)>;
    Result<> change_sources(SourceChange const& change);
    /// Checks that a source answers as its type says.
    Result<> check(Source const& source);

    // Content.
    Result<std::vector<Victim>> collect(bool is_dry_run);
    Result<ScrubReport> scrub();
    /// One sentence for each thing that refers to a digest. Errors: `not_found`.
    Result<std::vector<std::string>> why(std::string_view digest);

    /// The pool, for makers of machines.
    storage::Pool& pool();

private:
    class Implementation;
    explicit ImageService(std::unique_ptr<Implementation> implementation);
    std::unique_ptr<Implementation> implementation_;
};

}  // namespace triton::image
