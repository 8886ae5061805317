#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/image/manifest.h"
#include "host/image/observer.h"
#include "host/image/platform.h"
#include "host/image/reference.h"
#include "host/image/sources.h"
#include "host/image/uuid.h"
#include "host/storage/pool.h"
#include "lib/base/result.h"

namespace triton::image {

/// The paths of a host. `root` (TRITON_ROOT) is put before all of them; empty: the real root.
struct Settings {
    std::string root = {};
    std::string configuration = "/etc/triton/triton.json";
    std::string state = "/var/triton";
    /// Names the pool that the host must have: by its directory, or on ZFS by its dataset or zpool. Empty: any.
    std::string pool = {};
    /// Readable once the work is to be given up. Borrowed; -1: never.
    int cancel = -1;
};

/// An image that is installed.
struct Image {
    Manifest manifest;
    std::string tree;               ///< name of the tree that machines are cloned from, at the snapshot "final"
    std::string source;             ///< where it came from: a URL, a registry, a path
    std::string reference = {};     ///< of a registry or a layout: what was asked for
    std::string digest = {};        ///< what that was when it was resolved: "sha256:<hex>"
    std::string platform = {};      ///< "linux/amd64"
    std::int64_t installed_at = 0;  ///< seconds since 1970
    std::uint64_t size = 0;         ///< bytes of its blobs
    std::uint64_t clones = 0;       ///< machines and other trees that are made from it
    bool is_pinned = false;

    [[nodiscard]] Uuid const& uuid() const { return *manifest.uuid; }
};

/// An image that a source has.
struct AvailableImage {
    Manifest manifest;
    std::string source;
};

struct ImportOptions {
    std::optional<Uuid> uuid = {};          ///< of a tarball or tree: what it is to be known by
    std::string name = {};                  ///< of the same; empty: the file's name
    std::string version = {};               ///< of the same; empty: the digest's beginning
    std::optional<Platform> platform = {};  ///< none: this machine's
    std::string source = {};                ///< only this one is asked; empty: those of imgadm.conf
    std::string authfile = {};              ///< credentials for a registry that is not a source
    bool is_insecure = false;               ///< plain HTTP from a registry is allowed
    bool is_quiet = false;                  ///< does not report an image that is there already
};

/// The result of a command for one image.
struct Imported {
    Uuid uuid;
    bool was_there = false;
};

struct CreateOptions {
    std::string manifest = {};  ///< JSON; what is missing is filled in
    std::string output = {};    ///< directory for the file and its manifest; empty: it is installed here
    Compression compression = Compression::none;
    bool is_stream = false;     ///< a ZFS stream instead of a tarball; of machines on ZFS, into an output directory
    bool is_increment = false;  ///< of a stream: what the machine has changed since the image that it was made from
    std::optional<std::size_t> most_origins = {};  ///< of an increment: the most images below it
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
    std::optional<Error> failure = {};  ///< why it could not be resolved or imported; the others were
};

/// A thing that is removed, or would be.
struct Victim {
    std::string what;  ///< "image 7b59...", "blob sha256:...", "layer sha256:..."
    std::string reason;
    std::uint64_t bytes = 0;
};

struct ScrubFinding {
    std::string digest;
    std::vector<std::string> images;  ///< titles of what was made from it
    bool was_fetched_again = false;
    std::string reason;
};

struct ScrubReport {
    std::uint64_t blobs = 0;
    std::uint64_t bytes = 0;
    std::vector<ScrubFinding> bad;
};

/// The images of a host: imgadm is its client, and vmadm is.
///
/// Every change is all or nothing, also when the process is killed: what a killed one has left is finished or removed
/// by the next command that changes something. An image is listed when its content is verified, unpacked and on disk,
/// and not before.
class ImageService {
public:
    /// For reading only: needs only the right to read, changes nothing, and waits for nothing.
    static Result<ImageService> open_for_reading(Settings const& settings);
    /// For who makes machines: the same, and hold() and release(). It recovers nothing and opens no pool.
    static Result<ImageService> open_for_holding(Settings const& settings);
    /// For everything. It recovers what killed commands have left. Errors: `denied` without root's rights.
    static Result<ImageService> open(Settings const& settings, Observer& observer);

    ImageService(ImageService&& other) noexcept;
    ImageService& operator=(ImageService&& other) noexcept;
    ~ImageService();

    // What is installed.
    Result<std::vector<Image>> list();
    /// Errors: `not_found`: "image <uuid> is not installed".
    Result<Image> get(Uuid const& uuid);
    /// The image, then its origin, and so on.
    Result<std::vector<Image>> ancestry(Uuid const& uuid);
    /// The UUID that a reference means here: itself, or what it was resolved to when it was imported.
    /// Errors: `not_found`.
    Result<Uuid> find(Reference const& reference);

    // What sources have.
    Result<std::vector<AvailableImage>> available(std::string_view source);
    Result<AvailableImage> show(Uuid const& uuid, std::string_view source);

    // Changes.
    Result<Imported> import(Reference const& reference, ImportOptions const& options);
    /// An image from its manifest and its file.
    Result<Imported> install(std::string_view manifest, std::string const& file, ImportOptions const& options);
    Result<> remove(Uuid const& uuid);
    /// Unpinned images that no machine is made from and no image is an increment of.
    Result<std::vector<Victim>> vacuum(bool is_dry_run);
    /// Resolves the tags of installed images again and imports what they mean now. Empty: of all of them. One that
    /// fails does not keep the others. Errors: `not_found`: a reference that no image was imported by.
    Result<std::vector<UpdateChange>> update(std::span<std::string const> references, bool is_dry_run,
                                             ImportOptions const& options);
    /// From a directory, or from the tree of a machine ("machines/<uuid>").
    Result<Created> create(std::string const& directory, CreateOptions const& options);
    Result<Created> create(Uuid const& machine, CreateOptions const& options);
    Result<> set_pinned(Uuid const& uuid, bool is_pinned);

    // Users of an image. A machine holds its image so that it cannot be deleted; twice is once.
    /// Errors: `not_found`: "image <uuid> is not installed".
    Result<> hold(Uuid const& uuid, std::string_view holder);
    /// Success too when it is not held, or not there.
    Result<> release(Uuid const& uuid, std::string_view holder);
    /// Every image that this one holds.
    Result<> release_all(std::string_view holder);

    // Sources.
    [[nodiscard]] std::vector<Source> const& sources() const;
    Result<> set_sources(std::vector<Source> sources);
    /// Whether it answers as what it is said to be.
    Result<> check(Source const& source);

    // Content.
    Result<std::vector<Victim>> collect(bool is_dry_run);
    Result<ScrubReport> scrub();
    /// A sentence for each thing that refers to a digest. Errors: `not_found`.
    Result<std::vector<std::string>> why(std::string_view digest);

    /// For who makes machines.
    storage::Pool& pool();

private:
    class Implementation;
    explicit ImageService(std::unique_ptr<Implementation> implementation);
    std::unique_ptr<Implementation> implementation_;
};

}  // namespace triton::image
