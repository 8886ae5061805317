#include "host/image/creation.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <functional>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/image/file_import.h"
#include "host/image/installation.h"
#include "host/image/intents.h"
#include "host/image/layer_trees.h"
#include "host/image/preparation.h"
#include "host/image/removal.h"
#include "host/image/site.h"
#include "host/image/tree_archive.h"
#include "host/image/zfs_stream.h"
#include "host/storage/own_ids.h"
#include "lib/base/rfc3339.h"
#include "lib/base/write_all.h"
#include "lib/files/pending_file.h"
#include "lib/files/sha256.h"
#include "lib/json/text.h"

namespace triton::image {

namespace {

constexpr std::size_t block = 1 << 20;

std::string_view file_end(Compression compression) {
    switch (compression) {
        case Compression::none: return "";
        case Compression::gzip: return ".gz";
        case Compression::bzip2: return ".bz2";
        case Compression::xz: return ".xz";
        case Compression::zstd: return ".zst";
    }
    std::unreachable();
}

/// What the user says about the image, with everything else filled in.
Result<NewManifest> facts_of(CreateOptions const& options, std::string_view directory) {
    Manifest given;
    if (!options.manifest.empty())
        given = TRY(read_manifest(options.manifest, "what is given with -m", ManifestUse::create)).manifest;
    std::size_t const slash = directory.rfind('/');
    std::string const name(directory.substr(slash == std::string_view::npos ? 0 : slash + 1));
    NewManifest facts{.uuid = given.uuid ? *given.uuid : TRY(Uuid::random()),
                      .name = given.name.empty() ? (is_file_name(name) ? name : "image") : given.name,
                      .version = given.version.empty() ? "1" : given.version,
                      .description = given.description,
                      .os = given.os.empty() ? "linux" : given.os,
                      .type = given.type,
                      .published_at = given.published_at.empty() ? rfc3339(::time(nullptr)) : given.published_at};
    if (auto const* const object = given.document.get<json::Object>()) facts.further = *object;
    return facts;
}

/// A file in the output directory that gets its name when the whole output is good.
struct Output {
    UniqueFd directory;
    files::PendingFile file;
    std::string path;
};

Result<Output> begin_output(std::string const& directory, std::string const& name) {
    if (!is_file_name(name))
        return fail(json::quoted(name) + " is not the name of a file; choose another name or version");
    UniqueFd folder = TRY(open_durable_directory(directory));
    std::string const path = directory + "/" + name;
    auto file = TRY(files::PendingFile::create(folder.get(), name, path, 0644, true));
    return Output{std::move(folder), std::move(file), path};
}

Result<> finish_output(Output& output) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    TRY(output.file.finish(0644, {now, now}));
    return output.file.make_durable();
}

/// Two commands that write one name and version give both files their names one after the other. Otherwise the manifest
/// of one could stand beside the content of the other.
Result<content::KeyLock> lock_names(Workshop& shop, Output const& file, std::string const& base) {
    constexpr auto patience = std::chrono::minutes(10);
    struct stat status{};
    if (::fstat(file.directory.get(), &status) < 0) return fail(errno, "look at the directory of " + file.path);
    std::string const key =
        "output " + std::to_string(status.st_dev) + " " + std::to_string(status.st_ino) + " " + base;
    return shop.lock({key}, patience);
}

struct Measured {
    std::uint64_t size = 0;
    std::string sha256;
};

Result<Measured> measure(int file) {
    files::Sha256 hash;
    Measured measured;
    std::vector<char> buffer(block);
    while (true) {
        ssize_t const got = ::pread(file, buffer.data(), buffer.size(), static_cast<off_t>(measured.size));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(errno, "read the image file");
        if (got == 0) break;
        hash.add({buffer.data(), static_cast<std::size_t>(got)});
        measured.size += static_cast<std::uint64_t>(got);
    }
    measured.sha256 = std::move(hash).take_hex();
    return measured;
}

/// Writes the image into its file, and what its manifest then says about it.
struct Content {
    std::string_view kind;  ///< end of the file's name: ".tar"
    std::string digest = {};
    std::function<Result<>(int file)> write;
};

Result<Created> write_files(Workshop& shop, Content const& content, NewManifest facts, CreateOptions const& options) {
    std::string const base = facts.name + "-" + facts.version;
    std::string const name = base + std::string(content.kind) + std::string(file_end(options.compression));
    Output file = TRY(begin_output(options.output, name));
    TRY(content.write(file.file.fd()));
    TRY(shop.check_cancelled());
    Measured const measured = TRY(measure(file.file.fd()));
    facts.files = {{.size = measured.size,
                    .sha256 = measured.sha256,
                    .compression = options.compression,
                    .uncompressed_digest = content.digest,
                    .path = name}};
    Manifest manifest = TRY(make_manifest(facts));
    std::string const document_name = base + ".imgmanifest";
    Output document = TRY(begin_output(options.output, document_name));
    if (!write_all(document.file.fd(), manifest.text() + "\n")) return fail(errno, "write " + document.path);
    TRY(finish_output(file));
    TRY(finish_output(document));
    content::KeyLock const names = TRY(lock_names(shop, file, base));
    // The manifest goes first and comes last: whoever sees it also finds its file.
    if (::unlinkat(document.directory.get(), document_name.c_str(), 0) == 0) {
        if (::fsync(document.directory.get()) < 0) return fail(errno, "make " + options.output + " durable");
    } else if (errno != ENOENT) {
        return fail(errno, "remove " + document.path);
    }
    TRY(file.file.put_in_place());
    TRY(document.file.put_in_place());
    if (::fsync(document.directory.get()) < 0) return fail(errno, "make " + options.output + " durable");
    return Created{std::move(manifest), file.path, document.path};
}

Result<Created> write_archive(Workshop& shop, content::Blob const& blob, NewManifest facts,
                              CreateOptions const& options) {
    UniqueFd const archive = TRY(shop.store.open_blob(blob.digest));
    Content const content{.kind = ".tar", .digest = blob.digest.text(), .write = [&](int file) {
                              return compress(archive.get(), file, options.compression, shop.settings.cancel);
                          }};
    return write_files(shop, content, std::move(facts), options);
}

std::unexpected<Error> is_installed(Uuid const& uuid) {
    return fail(ErrorKind::exists, "image " + uuid.text() + " is installed already");
}

Result<Created> install_here(Workshop& shop, content::Blob const& blob, NewManifest facts, std::string const& source) {
    facts.files = {{.size = blob.size, .sha256 = blob.digest.hex(), .uncompressed_digest = blob.digest.text()}};
    Manifest manifest = TRY(make_manifest(facts));
    Plan plan{.image = {.manifest = manifest, .tree = {}, .source = source}, .shown = source};
    auto const installed = TRY(install_archive(shop, blob, blob.digest.text(), std::move(plan), {.is_quiet = true}));
    if (installed.was_there) return is_installed(facts.uuid);
    return Created{std::move(manifest)};
}

Result<Created> create_from_tree(Workshop& shop, int directory, std::string const& shown,
                                 CreateOptions const& options) {
    NewManifest facts = TRY(facts_of(options, shown));
    if (is_dataset(facts.type)) {
        return fail("an image of type " + std::string(name_of(facts.type)) +
                    " is a ZFS stream, and a tarball would be made; --format zfs makes a stream of a machine");
    }
    if (options.output.empty() && TRY(shop.catalog.has(facts.uuid))) return is_installed(facts.uuid);
    auto lease = TRY(WorkLease::make(shop, "creation of image " + facts.uuid.text()));
    content::Blob const blob = TRY(store_tree(shop, lease.id(), directory, {.media_type = {}, .source = shown}));
    Created created = TRY(options.output.empty() ? install_here(shop, blob, std::move(facts), shown)
                                                 : write_archive(shop, blob, std::move(facts), options));
    TRY(lease.end());
    // What was only written to files is no longer needed here.
    if (!options.output.empty()) collect_quietly(shop);
    return created;
}

Result<> check_stream_options(Workshop& shop, CreateOptions const& options) {
    if (options.is_increment && !options.is_stream) return fail("an increment is a ZFS stream: --format zfs");
    if (!options.is_stream) return {};
    if (shop.pool->kind() != storage::Backend::zfs) {
        return fail(ErrorKind::unsupported,
                    "a ZFS stream is made where images are kept on ZFS, and this host keeps them on " +
                        std::string(storage::name_of(shop.pool->kind())));
    }
    if (options.output.empty()) return fail("a ZFS stream is written to a file: -o DIRECTORY says where");
    if (!options.script.empty()) {
        return fail(ErrorKind::unsupported,
                    "a script prepares a copy of the machine, of which only a tarball can be made");
    }
    return {};
}

/// Errors: `unsupported` for a machine whose files belong to uids of this host: a stream of ZFS has them as they are.
Result<> check_own_ids(storage::Pool& pool, storage::TreeName const& tree, std::string const& shown) {
    UniqueFd const directory = TRY(pool.open(tree));
    UniqueFd const root(::openat(directory.get(), "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!root) return fail(errno, "open the root of " + shown);
    if (!TRY(storage::shifted_by(root.get()))) return {};
    return fail(ErrorKind::unsupported, "the files of " + shown +
                                            " belong to uids of this host, because ZFS has no idmapped mounts here: " +
                                            "make a tarball, which has its own uids");
}

/// The image that a machine's tree was cloned from.
Result<Image> image_below(Workshop& shop, storage::TreeName const& tree, std::string const& shown) {
    auto const origin = TRY(shop.pool->origin(tree));
    for (Image& image : TRY(shop.catalog.list())) {
        if (origin && image.tree == origin->text()) return std::move(image);
    }
    return fail(ErrorKind::refused, shown + " is not made from an image that is installed here");
}

/// Errors: `refused` when there would be too many images below the increment.
Result<> check_depth(Workshop& shop, Image const& origin, std::size_t most) {
    std::size_t depth = 1;
    std::optional<Uuid> next = origin.manifest.origin;
    for (; next && depth <= most; ++depth)
        next = TRY(shop.catalog.get(*next)).manifest.origin;
    if (depth <= most) return {};
    return fail(ErrorKind::refused, "the image would have more than " + std::to_string(most) + " images below it");
}

Result<Created> create_stream(Workshop& shop, storage::TreeName const& tree, storage::SnapshotName const& snapshot,
                              std::string const& shown, CreateOptions const& options) {
    NewManifest facts = TRY(facts_of(options, shown));
    if (!is_dataset(facts.type)) facts.type = ImageType::zone_dataset;
    if (options.is_increment) {
        Image const origin = TRY(image_below(shop, tree, shown));
        TRY(check_depth(shop, origin, options.most_origins.value_or(most_origins)));
        if (!is_dataset(origin.manifest.type)) {
            shop.observer->warning("image " + origin.uuid().text() +
                                   " did not come as a ZFS stream: its increments fit on this host only");
        }
        facts.origin = origin.uuid();
    }
    Content const content{.kind = ".zfs", .write = [&](int file) {
                              return write_stream(shop, tree, snapshot, options.is_increment, options.compression,
                                                  file);
                          }};
    return write_files(shop, content, std::move(facts), options);
}

}  // namespace

Result<Created> create_from_directory(Workshop& shop, std::string const& directory, CreateOptions const& options) {
    if (options.is_stream) return fail(ErrorKind::unsupported, "a ZFS stream is made of a machine, not of a directory");
    if (!options.script.empty())
        return fail(ErrorKind::unsupported, "a script prepares a copy of a machine, not a directory");
    UniqueFd const tree(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!tree) return fail(errno, "open " + directory);
    return create_from_tree(shop, tree.get(), directory, options);
}

Result<Created> create_from_machine(Workshop& shop, Uuid const& machine, CreateOptions const& options) {
    TRY(check_stream_options(shop, options));
    auto const tree = TRY(storage::TreeName::parse("machines/" + machine.text()));
    if (!TRY(shop.pool->exists(tree))) return fail(ErrorKind::not_found, "there is no machine " + machine.text());
    auto intent = TRY(
        OpenIntent::begin(shop, "creation of an image of machine " + machine.text(), std::nullopt, {}, tree.text()));
    auto const work = [&]() -> Result<Created> {
        TRY(shop.pool->snapshot(tree, snapshot_of(intent.id())));
        std::string const shown = "machine " + machine.text();
        if (options.is_stream) TRY(check_own_ids(*shop.pool, tree, shown));
        if (options.is_stream) return create_stream(shop, tree, snapshot_of(intent.id()), shown, options);
        TreeBuilder builder(*shop.pool, intent.id(), shop.jobs());
        TRY(shop.pool->clone(tree, snapshot_of(intent.id()), builder.name()));
        TRY(storage::restore_own_ids(TRY(builder.root())));
        UniqueFd const root = TRY(builder.root());
        if (!options.script.empty())
            TRY(run_preparation(options.script, shop.pool->path(builder.name()) + "/root", shop.settings.cancel));
        return create_from_tree(shop, root.get(), shown, options);
    };
    auto created = work();
    auto const finished = intent.finish();  // removes the clone, then the snapshot that it was made from
    if (!created) return created;
    TRY(finished);
    return created;
}

}  // namespace triton::image
