#include "host/image/file_import.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <optional>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/image/installation.h"
#include "host/image/intents.h"
#include "host/image/layer_trees.h"
#include "host/image/local_content.h"
#include "host/image/oci_import.h"
#include "host/image/tree_archive.h"
#include "host/image/zfs_stream.h"
#include "lib/base/new_calls.h"
#include "lib/base/rfc3339.h"
#include "lib/base/write_all.h"
#include "lib/json/text.h"

namespace triton::image {

namespace {

constexpr std::uint64_t largest_archive = std::uint64_t{1} << 42;
constexpr std::size_t shown_digest = 12;

Result<UniqueFd> open_source(std::string const& path, struct stat& status) {
    // O_NONBLOCK: opening a FIFO without a writer must not wait.
    UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) return fail(errno, "open " + path);
    if (::fstat(file.get(), &status) < 0) return fail(errno, "look at " + path);
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return fail(path + " is neither a file nor a directory");
    return file;
}

/// Returns "alpine-minirootfs" for "/srv/alpine-minirootfs.tar.gz".
std::string name_of_file(std::string_view path) {
    while (path.size() > 1 && path.ends_with('/'))
        path.remove_suffix(1);
    std::string_view name = path.substr(path.rfind('/') + 1);
    for (std::string_view const end : {".gz", ".bz2", ".xz", ".zst", ".tgz", ".txz", ".tar"}) {
        if (name.size() > end.size() && name.ends_with(end)) name.remove_suffix(end.size());
    }
    return name.empty() || name == "." || name == ".." ? "image" : std::string(name);
}

/// The compression that the beginning of a file shows, for its manifest. The unpacker finds out the real one.
Compression compression_of(int file) {
    std::array<unsigned char, 6> head{};
    if (::pread(file, head.data(), head.size(), 0) != static_cast<ssize_t>(head.size())) return Compression::none;
    struct Magic {
        std::array<unsigned char, 4> bytes;
        std::size_t length;
        Compression compression;
    };
    static constexpr std::array<Magic, 4> magics{{{{0x1f, 0x8b}, 2, Compression::gzip},
                                                  {{0x28, 0xb5, 0x2f, 0xfd}, 4, Compression::zstd},
                                                  {{0xfd, '7', 'z', 'X'}, 4, Compression::xz},
                                                  {{'B', 'Z', 'h'}, 3, Compression::bzip2}}};
    for (Magic const& magic : magics) {
        if (std::equal(magic.bytes.begin(), magic.bytes.begin() + magic.length, head.begin())) return magic.compression;
    }
    return Compression::none;
}

Result<Plan> plan_file(content::Blob const& blob, Compression compression, std::string const& path,
                       ImportOptions const& options) {
    Uuid const uuid = options.uuid.value_or(uuid_of_name(image_space(), blob.digest.text()));
    std::string const version = options.version.empty() ? blob.digest.hex().substr(0, shown_digest) : options.version;
    Manifest manifest =
        TRY(make_manifest({.uuid = uuid,
                           .name = options.name.empty() ? name_of_file(path) : options.name,
                           .version = version,
                           .published_at = rfc3339(::time(nullptr)),
                           .files = {{.size = blob.size, .sha256 = blob.digest.hex(), .compression = compression}}}));
    return Plan{.image = {.manifest = std::move(manifest), .tree = {}, .source = path}, .shown = path};
}

/// Reads a manifest that a user has given, first in a process without rights.
Result<Manifest> read_given_manifest(Workshop& shop, std::string_view text) {
    UniqueFd file(::memfd_create("manifest", MFD_CLOEXEC));
    if (!file || !write_all(file.get(), text) || ::lseek(file.get(), 0, SEEK_SET) < 0)
        return fail(errno, "keep the manifest");
    role::ReadDocument const request{.kind = role::DocumentKind::other, .expected = {.maximum = 4 << 20}};
    auto const document = content::check_document(shop.jobs(), request, std::move(file));
    if (!document && document.error().kind == ErrorKind::corrupt) {
        Error error = fail("the file given with -m is not JSON").error();
        error.details = document.error().details;
        return std::unexpected(std::move(error));
    }
    if (!document) return std::unexpected(document.error());
    auto read = TRY(read_manifest(document->json, "the file given with -m", ManifestUse::install));
    for (std::string const& warning : read.warnings)
        shop.observer->warning("manifest: " + warning);
    return std::move(read.manifest);
}

/// Whether a directory has the images of docker save. Some writers make no "repositories", and an image may have a
/// manifest.json of its own, so that is read, first in a process without rights.
Result<bool> has_saved_images(Workshop& shop, int root) {
    UniqueFd own(::openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!own) return fail(errno, "open a directory");
    auto const directory = TRY(files::ConfinedDirectory::adopt(std::move(own)));
    auto file = directory.open_file("manifest.json");
    if (!file) return false;
    if (entry_exists(root, "repositories")) return true;
    role::ReadDocument const request{.kind = role::DocumentKind::other, .expected = {.maximum = largest_document}};
    auto const document = content::check_document(shop.jobs(), request, std::move(file->fd));
    TRY(shop.check_cancelled());
    return document && read_saved_images(document->json, "manifest.json");
}

/// Checks that a file system is not an image in another format, which would become a machine without programs.
Result<> check_is_root(Workshop& shop, int root, std::string const& path, bool is_directory) {
    auto const has = [root](char const* name) { return entry_exists(root, name); };
    std::string const as_layout = is_directory ? "oci:" : "oci-archive:";
    if (has("oci-layout") && has("index.json"))
        return fail(path + " is an OCI layout; imgadm import " + as_layout + path + " imports its image");
    if (!TRY(has_saved_images(shop, root))) return {};
    std::string const prefix = is_directory ? "oci:" : "docker-archive:";
    return fail(path + " is what docker save writes; imgadm import " + prefix + path + " imports its image");
}

/// The work for a file of this host, of which the store has a copy. If that fails, the copy is of no use, unlike what
/// was downloaded.
Result<Imported> with_copy(Workshop& shop, WorkLease& lease, content::Blob const& blob,
                           std::function<Result<Imported>()> const& work) {
    auto imported = work();
    TRY(lease.end());
    if (!imported) (void)shop.store.discard(blob.digest);  // else gc() takes it
    return imported;
}

/// Whether the file of an image is taken for a stream of ZFS.
bool may_be_stream(Workshop const& shop, Manifest const& manifest) {
    return shop.pool->kind() == storage::Backend::zfs && is_dataset(manifest.type);
}

}  // namespace

Result<role::Expected> expected_of(ImageFile const& file) {
    role::Expected expected{.maximum = file.size, .size = file.size};
    if (!file.sha256.empty()) expected.digest = TRY(role::Digest::of_hex(file.sha256));
    if (file.sha256.empty()) expected.sha1 = file.sha1;
    return expected;
}

Result<ImageFile> check_before_install(Workshop& shop, Manifest const& manifest) {
    TRY(check_installable(manifest));
    std::string const image = "image " + manifest.uuid->text();
    if (manifest.files.size() != 1)
        return fail(image + " has " + std::to_string(manifest.files.size()) + " files; one can be installed");
    ImageFile const& file = manifest.files.front();
    if (file.sha256.empty() && file.sha1.empty())
        return fail(ErrorKind::refused, image + " has no SHA-256 in its manifest, so nothing can be verified");
    if (file.sha256.empty())
        shop.observer->warning(image + " has only a SHA-1, which does not protect against forgery");
    if (manifest.origin && !TRY(shop.catalog.has(*manifest.origin)))
        return fail(ErrorKind::not_found,
                    image + " is an increment of " + manifest.origin->text() + ", which is not installed");
    return file;
}

Result<> check_increment(Workshop const& shop, Manifest const& manifest) {
    if (!manifest.origin || may_be_stream(shop, manifest)) return {};
    return fail(ErrorKind::unsupported,
                "image " + manifest.uuid->text() + " is an increment of another, which only ZFS can install");
}

Result<Imported> install_blob(Workshop& shop, content::Blob const& blob, Manifest manifest, std::string const& source,
                              ImportOptions const& options) {
    std::string const uuid = manifest.uuid->text();
    std::string const diff_id = manifest.files.front().uncompressed_digest;
    TRY(check_increment(shop, manifest));
    bool const is_stream = may_be_stream(shop, manifest);
    Plan plan{.image = {.manifest = std::move(manifest), .tree = {}, .source = source}, .shown = uuid};
    if (is_stream) return install_stream(shop, blob, std::move(plan), options);
    bool const is_raw_stream = is_zfs_stream(TRY(shop.store.open_blob(blob.digest)).get());
    if (is_raw_stream) {
        return fail(ErrorKind::unsupported, "image " + uuid + " is a ZFS stream, and this host keeps its images on " +
                                                std::string(storage::name_of(shop.pool->kind())));
    }
    bool const may_be_stream = is_dataset(plan.image.manifest.type);
    auto imported = install_archive(shop, blob, diff_id, std::move(plan), options);
    if (!imported && may_be_stream && imported.error().kind == ErrorKind::corrupt)
        imported.error().details.emplace_back("images of this type are ZFS streams, which need storage on ZFS");
    return imported;
}

Result<Imported> import_path(Workshop& shop, std::string const& path, ImportOptions const& options) {
    struct stat status{};
    UniqueFd const source = TRY(open_source(path, status));
    auto lease = TRY(WorkLease::make(shop, "import of " + path));
    Compression const compression = S_ISDIR(status.st_mode) ? Compression::none : compression_of(source.get());
    if (S_ISDIR(status.st_mode)) TRY(check_is_root(shop, source.get(), path, true));
    if (S_ISREG(status.st_mode) && is_zfs_stream(source.get()))
        return fail(path + " is a ZFS stream; imgadm import -m MANIFEST -f " + path + " says what it is");
    content::Blob const blob = S_ISDIR(status.st_mode)
                                   ? TRY(store_tree(shop, lease.id(), source.get(), {.media_type = {}, .source = path}))
                                   : TRY(store_file(shop, lease.id(), source.get(), {.maximum = largest_archive},
                                                    {.media_type = {}, .source = path}));
    auto imported = with_copy(shop, lease, blob, [&]() -> Result<Imported> {
        auto const check = [&](int root) { return check_is_root(shop, root, path, S_ISDIR(status.st_mode)); };
        Plan plan = TRY(plan_file(blob, compression, path, options));
        return install_archive(shop, blob, {}, std::move(plan), options, check);
    });
    if (!imported && imported.error().attempted.empty()) imported.error().attempted = "import " + path;
    return imported;
}

Result<Imported> install_file(Workshop& shop, std::string_view manifest_text, std::string const& path,
                              ImportOptions const& options) {
    Manifest manifest = TRY(read_given_manifest(shop, manifest_text));
    Plan const plan{.image = {.manifest = manifest, .tree = {}, .source = path}};
    if (auto done = TRY(already_installed(shop, plan, options))) return *done;
    ImageFile const file = TRY(check_before_install(shop, manifest));
    struct stat status{};
    UniqueFd const source = TRY(open_source(path, status));
    if (static_cast<std::uint64_t>(status.st_size) != file.size) {
        return fail(ErrorKind::corrupt, "image file size error: " + path + " has " + std::to_string(status.st_size) +
                                            " bytes, and its manifest says " + std::to_string(file.size));
    }
    auto lease = TRY(WorkLease::make(shop, "import of " + manifest.uuid->text()));
    role::Expected const expected = TRY(expected_of(file));
    auto const blob = store_file(shop, lease.id(), source.get(), expected, {.media_type = {}, .source = path});
    if (!blob && blob.error().kind == ErrorKind::corrupt)
        return fail(ErrorKind::corrupt, "image file checksum error: " + path + ": " + blob.error().text());
    if (!blob) return std::unexpected(blob.error());
    return with_copy(shop, lease, *blob, [&] { return install_blob(shop, *blob, std::move(manifest), path, options); });
}

Result<> with_layout_archive(Workshop& shop, content::LeaseId lease, LayoutReference const& reference,
                             std::function<Result<>(OciOrigin& origin)> const& work) {
    struct stat status{};
    UniqueFd const source = TRY(open_source(reference.path, status));
    auto own = TRY(WorkLease::make(shop, "unpacking of " + reference.path));
    content::Blob const archive = TRY(store_file(shop, own.id(), source.get(), {.maximum = largest_archive},
                                                 {.media_type = {}, .source = reference.path}));
    // The archive is unpacked next to the trees. If the command is killed, the intent leads to what it leaves.
    auto intent = TRY(OpenIntent::begin(shop, "import of " + reference.text(), std::nullopt, {}));
    auto const unpack_and_work = [&]() -> Result<> {
        TreeBuilder builder(*shop.pool, intent.id(), shop.jobs());
        TRY(builder.begin(std::nullopt));
        UniqueFd const blob = TRY(shop.store.open_blob(archive.digest));
        auto const applied = builder.apply(blob.get(), ArchiveKind::plain, {}, [](role::Unpacking const&) {});
        if (!applied) return fail(applied.error().kind, "unpack " + reference.path, applied.error().text());
        auto const origin = TRY(open_layout(shop, lease, reference, shop.pool->path(builder.name()) + "/root"));
        return work(*origin);
    };
    auto const worked = unpack_and_work();
    auto const finished = intent.finish();
    TRY(own.end());
    (void)shop.store.discard(archive.digest);  // else gc() takes it
    return worked ? finished : worked;
}

Result<Imported> import_layout_archive(Workshop& shop, LayoutReference const& reference, ImportOptions const& options) {
    auto lease = TRY(WorkLease::make(shop, "import of " + reference.text()));
    std::optional<Imported> imported;
    auto const import = [&](OciOrigin& origin) -> Result<> {
        shop.observer->progress({.phase = Phase::resolving, .image = reference.text()});
        OciDocument const root = TRY(resolve(origin));
        Plan plan = TRY(plan_oci(origin, root, name_of(reference), options));
        imported = TRY(install_layers(shop, origin, std::move(plan), options));
        return {};
    };
    auto const worked = with_layout_archive(shop, lease.id(), reference, import);
    TRY(lease.end());  // after an error, too: what was copied from an archive is there to be copied again
    TRY(worked);
    return *std::move(imported);
}

}  // namespace triton::image
