#include "host/image/zfs_stream.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/image/intents.h"
#include "host/image/layer_trees.h"
#include "host/image/tree_archive.h"
#include "host/storage/own_ids.h"
#include "lib/base/pipe.h"
#include "lib/base/start_thread.h"
#include "lib/process/run_command.h"

namespace triton::image {

namespace {

constexpr std::uint64_t backup_magic = 0x2F5bacbacULL;
constexpr auto stream_patience = std::chrono::hours(6);

/// Receives a compressed blob: a child decompresses it into a pipe meanwhile.
Result<> receive_compressed(storage::Pool& pool, storage::TreeName const& tree, int blob, std::string const& program,
                            int cancel) {
    auto [read_end, write_end] = TRY(make_pipe());
    Result<process::Completed> completed = process::Completed{};
    std::thread child = TRY(start_thread([&completed, &program, blob, cancel, end = std::move(write_end)]() mutable {
        completed =
            process::run_command({.arguments = {program, "-dc"}, .in = blob, .out = end.get(), .cancel = cancel});
        end = UniqueFd();
    }));
    auto const received = pool.receive(tree, read_end.get());
    read_end = UniqueFd();  // so that the decompressor sees that nobody reads any more
    child.join();
    if (!completed) return std::unexpected(completed.error());  // ZFS has received a part
    if (!received) return received;
    if (!completed->is_ok()) return fail(ErrorKind::corrupt, "decompress with " + program, completed->errors);
    return {};
}

/// Renames the snapshot of the stream to "final", where increments start.
Result<> settle_snapshot(storage::Pool& pool, storage::TreeName const& tree) {
    auto const snapshots = TRY(pool.snapshots(tree));
    if (snapshots.size() != 1) {
        return fail(ErrorKind::corrupt,
                    "the stream has " + std::to_string(snapshots.size()) + " snapshots; an image has exactly one");
    }
    if (snapshots.front() == LayerTrees::final_snapshot()) return {};
    return pool.rename_snapshot(tree, snapshots.front(), LayerTrees::final_snapshot());
}

/// Checks what a stream is a change of. ZFS finds that by itself, anywhere in the pool. It must be the image that the
/// manifest names: otherwise nobody would know what needs what.
Result<> check_origin(Workshop& shop, storage::TreeName const& tree, std::optional<Uuid> const& origin) {
    auto const below = TRY(shop.pool->origin(tree));
    std::optional<std::string> expected;
    if (origin) expected = TRY(shop.catalog.get(*origin)).tree;
    if ((below ? std::optional(below->text()) : std::nullopt) == expected) return {};
    return fail(ErrorKind::corrupt, "the stream is not a change of the image that its manifest names as its origin");
}

Result<> check_root(storage::Pool& pool, storage::TreeName const& tree) {
    UniqueFd const directory = TRY(pool.open(tree));
    struct stat status{};
    if (::fstatat(directory.get(), "root", &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(status.st_mode))
        return fail(ErrorKind::corrupt, "the stream has no directory root/");
    if (status.st_uid < storage::ids_of_machine) return {};
    return fail(ErrorKind::unsupported, "root/ of the stream belongs to user " + std::to_string(status.st_uid) +
                                            " of the host that made it, and machines have 0 to 65535: make a tarball");
}

}  // namespace

bool is_zfs_stream(int file) {
    std::array<unsigned char, 16> head{};
    if (::pread(file, head.data(), head.size(), 0) != static_cast<ssize_t>(head.size())) return false;
    std::uint64_t magic = 0;
    std::memcpy(&magic, head.data() + 8, sizeof magic);
    return magic == backup_magic || magic == __builtin_bswap64(backup_magic);
}

Result<> write_stream(Workshop& shop, storage::TreeName const& tree, storage::SnapshotName const& snapshot,
                      bool is_increment, Compression compression, int file) {
    auto const send = [&](int out) {
        return is_increment ? shop.pool->send_since_origin(tree, snapshot, out)
                            : shop.pool->send(tree, snapshot, std::nullopt, out);
    };
    if (compression == Compression::none) return send(file);
    auto [read_end, write_end] = TRY(make_pipe());
    Result<> compressed;
    int const cancel = shop.settings.cancel;
    std::thread compressor =
        TRY(start_thread([&compressed, file, compression, cancel, in = std::move(read_end)]() mutable {
            compressed = compress(in.get(), file, compression, cancel);
            in = UniqueFd();  // so that the sender sees that nobody reads any more
        }));
    auto const sent = send(write_end.get());
    write_end = UniqueFd();
    compressor.join();
    return compressed ? sent : compressed;
}

Result<Imported> install_stream(Workshop& shop, content::Blob const& blob, Plan plan, ImportOptions const& options) {
    // The stream is the only layer. Its diffID is not known, so its tree is named after the stream.
    std::string const chain = blob.digest.text();
    content::KeyLock const alone = TRY(shop.lock({image_key(plan.image.uuid())}, stream_patience));
    if (auto done = TRY(already_installed(shop, plan, options))) return *done;
    auto const damage = TRY(damage_of(shop, plan.image.uuid()));
    ImageFile const& file = plan.image.manifest.files.front();
    auto intent = TRY(OpenIntent::begin(shop, "import of " + plan.shown, plan.image.uuid(), {&chain, 1}));
    TreeBuilder const builder(*shop.pool, intent.id(), shop.jobs());
    auto const work = [&]() -> Result<> {
        content::KeyLock const lock = TRY(shop.lock({chain_key(chain)}, stream_patience));
        LayerTrees trees(*shop.pool);
        if (!TRY(trees.has(chain))) {
            TRY(trees.destroy_unfinished(intent.id()));
            UniqueFd const stream = TRY(shop.store.open_blob(blob.digest));
            std::string const program = decompressor(file.compression);
            TRY(program.empty()
                    ? shop.pool->receive(builder.name(), stream.get())
                    : receive_compressed(*shop.pool, builder.name(), stream.get(), program, shop.settings.cancel));
            TRY(check_origin(shop, builder.name(), plan.image.manifest.origin));
            TRY(check_root(*shop.pool, builder.name()));
            TRY(settle_snapshot(*shop.pool, builder.name()));
            TRY(trees.name(builder.name(), chain));
        }
        plan.layers = {{blob.digest.text(), chain}};
        plan.descriptors = {{.digest = blob.digest.text(), .size = blob.size}};
        return enter_image(shop, plan);
    };
    auto const worked = work();
    auto const finished = intent.finish();
    TRY(worked);
    TRY(finished);
    tell_installed(shop, plan.image, damage);
    return Imported{plan.image.uuid(), false};
}

}  // namespace triton::image
