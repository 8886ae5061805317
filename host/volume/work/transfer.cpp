// Volumes as streams.

#include "host/volume/work/transfer.h"

#include <cerrno>
#include <set>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/storage/directory_entries.h"
#include "host/storage/envelope.h"
#include "host/storage/own_ids.h"
#include "host/volume/keep/documents.h"
#include "host/volume/keep/uses.h"
#include "host/volume/work/own_snapshots.h"
#include "lib/json/text.h"

namespace triton::volume {

namespace {

constexpr storage::EnvelopeKind volume_stream{.magic = "triton-volume ",
                                              .member = "volume",
                                              .sending = "send the volume",
                                              .receiving = "receive a volume",
                                              .maker = "volumeadm send"};
constexpr char directory_entry[] = "root";

std::unexpected<Error> corrupt(std::string reason) {
    return fail(ErrorKind::corrupt, "receive a volume", std::move(reason));
}

/// The configuration that a stream asks for. Its content is all that the stream has.
Result<VolumeConfig> config_in(std::string const& payload) {
    json::ProblemList problems(1);
    auto const node = json::read_json(payload, {}, problems);
    auto const* const object = node ? node->get<json::Object>() : nullptr;
    if (!object) return corrupt("its head is malformed");
    auto const config = read_config("VolumeConfig", *object, "admin");
    if (!config) return corrupt(config.error().text());
    auto const& volume = std::get<VolumeConfig>(*config);
    if (volume.origin != Origin::received) return corrupt("its head is of another volume");
    return volume;
}

/// Makes what was unpacked a volume's: the one entry that a volume has, with its name, owner and mode.
Result<> settle(storage::Pool& pool, storage::TreeName const& tree, std::string const& entry, std::string const& name,
                bool is_directory) {
    UniqueFd const directory = TRY(pool.open(tree));
    std::vector<std::string> entries;
    storage::DirectoryReader reader;
    TRY(reader.read(
        directory.get(),
        [&entries](std::string const& one, unsigned char) -> Result<> {
            entries.push_back(one);
            return {};
        }));
    if (entries != std::vector<std::string>{entry}) return corrupt("its tree is not that of a volume");
    UniqueFd file{::openat(directory.get(), entry.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0) return corrupt("its tree is not that of a volume");
    if (is_directory ? !S_ISDIR(status.st_mode) : !S_ISREG(status.st_mode) || status.st_nlink != 1)
        return corrupt("its content is of another type");
    // A sender whose file system has no idmapped mounts has given the files to uids of its own.
    if (is_directory) {
        TRY(storage::restore_own_ids(std::move(file)));
    } else if (::fchown(file.get(), 0, 0) != 0 || ::fchmod(file.get(), 0600) != 0) {
        return fail(errno, "give the received file to root");
    }
    if (entry != name && ::renameat(directory.get(), entry.c_str(), directory.get(), name.c_str()) != 0)
        return fail(errno, "give the received file its name");
    if (::syncfs(directory.get()) != 0) return fail(errno, "make " + tree.text() + " durable");
    return {};
}

/// Removes what killed processes have unpacked and nobody has published.
Result<> forget_unpublished(storage::Pool& pool, Uses& uses) {
    for (storage::TreeName const& tree : TRY(pool.list("volumes/received"))) {
        auto const key = key_of_tree(tree);
        auto const known = key ? TRY(uses.look_at(*key)) : std::nullopt;
        if (!known) TRY(unless_missing(pool.destroy(tree)));
    }
    return {};
}

}  // namespace

Result<> send_volume(Place const& place, VolumeRow const& row, std::optional<VolumeConfig> const& config,
                     std::string const& snapshot, int to) {
    if (row.is_in_vault)
        return fail(ErrorKind::unsupported, "send volume " + row.key.text(), "it is encrypted, and a stream is not");
    auto const pool = TRY(storage::open_pool(place.site.storage));
    (void)pool->recover();  // what a killed process left, and cannot be removed now, is removed the next time
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    UniqueFd const own = TRY(lock_for_sending(place.links, row.key));
    bool const is_given = !snapshot.empty();
    auto const name = TRY(storage::SnapshotName::parse(is_given ? snapshot : std::string(send_snapshot)));
    if (!is_given) {
        TRY(unless_missing(pool->delete_snapshot(tree, name)));  // of a process that was killed
        UniqueFd const directory = TRY(pool->open(tree));
        if (::syncfs(directory.get()) != 0) return fail(errno, "make " + tree.text() + " durable");
        TRY(pool->snapshot(tree, name));
    }
    VolumeConfig sent = config.value_or(VolumeConfig{});
    bool const is_directory = layout_of(row.format) == Layout::directory;
    sent = {.key = row.key,
            .publisher = "admin",
            .display_name = sent.display_name,
            .origin = Origin::received,
            .layout = layout_of(row.format),
            .most_bytes = row.bytes,
            .is_encrypted = row.is_in_vault,
            .is_read_only = sent.is_read_only,
            .format = is_directory ? Format::directory : row.format};
    storage::EnvelopeWriter stream(volume_stream, to);
    auto done = stream.head({std::string(storage::stream_kind(pool->kind())), config_text(sent)});
    if (done)
        done = storage::through_pipe([&](int pipe) { return pool->send(tree, name, std::nullopt, pipe); },
                                     [&](int pipe) { return stream.content(pipe); });
    auto const forgotten = is_given ? Result<>() : unless_missing(pool->delete_snapshot(tree, name));
    forget_lock_for_sending(place.links, row.key);
    TRY(done);
    return forgotten;
}

Result<VolumeConfig> receive_volume(Place const& place, Reception const& reception, int from) {
    auto const pool = TRY(storage::open_pool(place.site.storage));
    (void)pool->recover();  // as in send_volume()
    storage::EnvelopeReader stream(volume_stream, from);
    storage::EnvelopeHead const head = TRY(stream.head());
    std::string const here(storage::stream_kind(pool->kind()));
    if (head.storage != here)
        return fail(ErrorKind::unsupported, "receive a volume",
                    "its tree is a stream of the kind " + json::quoted(head.storage) + ", and the pool here takes \"" +
                        here + "\"");
    VolumeConfig config = TRY(config_in(head.payload));
    if (config.is_encrypted)
        return fail(ErrorKind::unsupported, "receive a volume", "it is encrypted, and would be unpacked in clear here");
    bool const is_directory = *config.format == Format::directory;
    std::string const entry = is_directory ? directory_entry : file_name(config.key, *config.format);
    if (reception.is_new) config.key = {TRY(Uuid::random()), 0};
    if (!reception.name.empty()) config.display_name = reception.name;
    UniqueFd const own = TRY(lock_file(place.links, "receive.lock", "another volume is being received"));
    auto database = TRY(content::Database::open(place.site.content + "/content.db"));
    Uses uses = TRY(Uses::open(database));
    if (TRY(uses.look_at(config.key)))
        return fail(ErrorKind::exists,
                    "volume " + config.key.text() + " exists already; --new gives this one another UUID");
    TRY(forget_unpublished(*pool, uses));
    storage::TreeName const tree = TRY(received_tree(config.key));
    auto received = storage::through_pipe([&](int pipe) { return stream.content(pipe); },
                                          [&](int pipe) { return pool->receive(tree, pipe); });
    auto const unpack = [&]() -> Result<> {
        TRY(received);
        for (storage::SnapshotName const& snapshot : TRY(pool->snapshots(tree)))
            TRY(unless_missing(pool->delete_snapshot(tree, snapshot)));
        return settle(*pool, tree, entry, is_directory ? entry : file_name(config.key, *config.format), is_directory);
    };
    if (auto const unpacked = unpack(); !unpacked) {
        (void)pool->destroy(tree);  // the next reception removes it otherwise
        return std::unexpected(unpacked.error());
    }
    return config;
}

}  // namespace triton::volume
