// How volumes are made, grown and destroyed.

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "host/content/produce_job.h"
#include "host/content/verify_job.h"
#include "host/disk/disk.h"
#include "host/storage/data_copy.h"
#include "host/volume/work/own_snapshots.h"
#include "host/volume/work/secret.h"
#include "host/volume/work/workbench.h"
#include "lib/json/writer.h"

namespace triton::volume {

namespace {

constexpr std::size_t most_checked_disks = 1000;
constexpr char root_entry[] = "root";  // of a directory volume, as of the tree of an image
constexpr char final_snapshot[] = "final";

Result<> make_durable(int directory, std::string const& what) {
    if (::syncfs(directory) != 0) return fail(errno, "make " + what + " durable");
    return {};
}

void tell(Order const& order, SubState sub_state) {
    if (order.progress) order.progress({.job = {}, .sub_state = sub_state});
}

/// The format of a file volume, for whoever reads its header; nullopt for a directory.
std::optional<disk::Format> disk_format(Format format) {
    switch (format) {
        case Format::raw: return disk::Format::raw;
        case Format::iso: return disk::Format::iso;
        case Format::qcow: return disk::Format::qcow;
        case Format::qcow2: return disk::Format::qcow2;
        case Format::vmdk: return disk::Format::vmdk;
        case Format::vhd: return disk::Format::vhd;
        case Format::vhdx: return disk::Format::vhdx;
        case Format::container:
        case Format::directory: return std::nullopt;
    }
    std::unreachable();
}

/// An ISO image is raw already.
bool needs_conversion(Format from, Format to) {
    return to == Format::raw && from != Format::raw && from != Format::iso;
}

/// Makes a raw file longer; it is sparse there.
Result<> extend(int file, std::uint64_t bytes, std::string const& name) {
    struct stat status{};
    if (::fstat(file, &status) != 0) return fail(errno, "look at " + name);
    if (static_cast<std::uint64_t>(status.st_size) < bytes && ::ftruncate(file, static_cast<off_t>(bytes)) != 0)
        return fail(errno, "give " + name + " its size");
    return {};
}

/// Whether a name can be that of a host: RFC 1123, section 2.1.
bool is_host_name(std::string_view name) {
    auto const is_good = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
    };
    return !name.empty() && name.size() <= 64 && name.front() != '-' && name.front() != '.' &&
           std::ranges::all_of(name, is_good);
}

}  // namespace

/// Whether everything that a volume begins with is there.
Result<bool> Workbench::has_content(Order const& order) {
    if (order.row->content.empty()) return true;
    if (!order.tree_row) return false;
    if (order.row->format != Format::container) {
        auto const digest = TRY(content::Digest::parse(order.tree_row->digest));
        return TRY(store_.find(digest)).has_value();
    }
    auto const uuid = Uuid::parse(order.tree_row->image);
    auto service = TRY(image::ImageService::open_for_holding(place_.settings));
    auto const image = uuid ? service.get(*uuid) : fail(ErrorKind::not_found, "it has no image");
    if (!image && image.error().kind != ErrorKind::not_found) return std::unexpected(image.error());
    return image && TRY(TRY(pool_of(false))->exists(TRY(storage::TreeName::parse(image->tree))));
}

/// Each attempt begins anew: what is there under this name is not complete, or its row would say so.
Result<> Workbench::build(Order const& order) {
    VolumeRow const& row = *order.row;
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    if (order.config && order.config->origin == Origin::received) return take_received(order, tree);
    auto const pool = TRY(pool_of(row.is_in_vault));
    TRY(unless_missing(pool->destroy(tree)));
    tell(order, SubState::preparing);
    if (auto const made = make(order, *pool, tree); !made) {
        // What fails for good must not keep its room until somebody notices; the next attempt removes it otherwise.
        (void)pool->destroy(tree);
        return made;
    }
    tell(order, SubState::prepare_done);
    link(*pool, row);
    return {};
}

/// What was received has a name of its own until it is looked at. It may have got its real name before a kill.
Result<> Workbench::take_received(Order const& order, storage::TreeName const& tree) {
    VolumeRow const& row = *order.row;
    if (row.is_in_vault) return fail(ErrorKind::unsupported, "a received volume is not encrypted");
    storage::TreeName const received = TRY(received_tree(row.key));
    auto const pool = TRY(pool_of(false));
    tell(order, SubState::preparing);
    if (TRY(pool->exists(received))) {
        TRY(unless_missing(pool->destroy(tree)));
        if (auto const disk = disk_format(row.format)) {
            UniqueFd const directory = TRY(pool->open(received));
            std::string const name = file_name(row.key, row.format);
            UniqueFd const file{::openat(directory.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
            if (!file) return fail(errno, "open " + name);
            std::uint64_t const bytes =
                TRY(content::check_disk({.role = {}, .cancel = order.cancel}, *disk, file.get()));
            if (row.bytes > 0 && bytes > row.bytes)
                return fail(ErrorKind::invalid, "the received disk has " + std::to_string(bytes) +
                                                    " bytes, and MaxVolSize is " + std::to_string(row.bytes));
        }
        TRY(pool->rename(received, tree));
    } else if (!TRY(pool->exists(tree))) {
        return fail(ErrorKind::not_found, "what was received is not in the pool any more; receive it again");
    }
    if (layout_of(row.format) == Layout::directory && row.bytes > 0) TRY(limit(*pool, tree, row.bytes));
    tell(order, SubState::prepare_done);
    link(*pool, row);
    return {};
}

Result<> Workbench::make(Order const& order, storage::Pool& pool, storage::TreeName const& tree) {
    VolumeRow const& row = *order.row;
    bool const is_copy = order.config && (order.config->origin == Origin::clone || row.format == Format::container);
    TRY(is_copy ? begin_clone(order, pool, tree) : begin_blank(order, pool, tree));
    if (layout_of(row.format) == Layout::directory && row.bytes > 0) TRY(limit(pool, tree, row.bytes));
    return {};
}

Result<> Workbench::begin_blank(Order const& order, storage::Pool& pool, storage::TreeName const& tree) {
    TRY(pool.make(tree));
    UniqueFd const directory = TRY(pool.open(tree));
    if (order.row->is_in_vault) TRY(prove_encrypted(pool, tree, directory));
    TRY(fill(order, directory.get()));
    if (order.row->format != Format::directory) return make_durable(directory.get(), tree.text());
    if (::fsync(directory.get()) != 0) return fail(errno, "make " + tree.text() + " durable");
    return {};
}

/// Makes the content of a new tree.
Result<> Workbench::fill(Order const& order, int directory) {
    VolumeRow const& row = *order.row;
    if (row.format == Format::directory) {
        if (::mkdirat(directory, root_entry, 0755) != 0) return fail(errno, "make volume " + row.key.text());
        return {};
    }
    std::string const name = file_name(row.key, row.format);
    UniqueFd const file{::openat(directory, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!file) return fail(errno, "make " + name);
    if (order.config && order.config->origin == Origin::cloud_init) return make_seed(order, file.get());
    if (!row.content.empty()) TRY(copy_content(order, file.get()));
    if (row.format == Format::raw) TRY(extend(file.get(), row.bytes, name));
    return {};
}

/// The seed image of a machine that runs cloud-init, which applies it again when its instance-id is another one.
Result<> Workbench::make_seed(Order const& order, int file) {
    VolumeConfig const& config = *order.config;
    json::Writer meta_data;  // JSON is YAML, too
    meta_data.open('{').member("instance-id", config.key.text());
    if (is_host_name(config.display_name)) meta_data.member("local-hostname", config.display_name);
    content::SeedRequest request{.meta_data = std::move(meta_data.close('}')).text() + "\n", .user_data = {}};
    request.user_data = TRY(read_secret(config.user_data));
    if (!config.network.empty()) request.network = TRY(read_secret(config.network));
    return content::make_seed({.role = {}, .cancel = order.cancel}, request, file);
}

Result<> Workbench::copy_content(Order const& order, int file) {
    auto const digest = TRY(content::Digest::parse(order.tree_row ? order.tree_row->digest : ""));
    UniqueFd const blob = TRY(store_.open_blob(digest));
    struct stat status{};
    if (::fstat(blob.get(), &status) != 0) return fail(errno, "look at " + digest.text());
    std::uint64_t const disk_bytes = TRY(check_disk(order, digest, blob.get()));
    if (order.row->bytes > 0 && disk_bytes > order.row->bytes)
        return fail(ErrorKind::invalid, "its disk has " + std::to_string(disk_bytes) + " bytes, and MaxVolSize is " +
                                            std::to_string(order.row->bytes));
    if (order.row->bytes > 0 && static_cast<std::uint64_t>(status.st_size) > order.row->bytes)
        return fail(ErrorKind::invalid, "its content has " + std::to_string(status.st_size) +
                                            " bytes, and MaxVolSize is " + std::to_string(order.row->bytes));
    if (order.tree && needs_conversion(order.tree->format, order.row->format)) {
        // It is sparse, and what is not written reads as zeros.
        TRY(extend(file, std::max(order.row->bytes, disk_bytes), order.row->key.text()));
        auto const go_on = [&order](std::uint64_t /*bytes*/) { tell(order, SubState::preparing); };  // a sign of life
        return content::convert_disk({.role = {}, .cancel = order.cancel}, *disk_format(order.tree->format), blob.get(),
                                     file, go_on);
    }
    if (::ioctl(file, FICLONE, blob.get()) == 0) return {};
    TRY(storage::copy_data(blob.get(), status, file));
    return {};
}

/// Whether content is a disk of the format that its tree says; returns the size of the disk. The same bytes are looked
/// at once.
Result<std::uint64_t> Workbench::check_disk(Order const& order, content::Digest const& digest, int blob) {
    Format const format = order.tree ? order.tree->format : order.row->format;
    auto const disk = disk_format(format);
    if (!disk) return fail(ErrorKind::internal, "content tree " + order.row->content + " is no disk");
    std::pair const key(digest, format);
    if (auto const known = checked_disks_.find(key); known != checked_disks_.end()) return known->second;
    auto const bytes = content::check_disk({.role = {}, .cancel = order.cancel}, *disk, blob);
    if (!bytes && bytes.error().kind == ErrorKind::invalid)
        return fail(ErrorKind::invalid, "use content " + digest.text() + " as " + std::string(name_of(format)),
                    bytes.error().text());
    if (!bytes) return bytes;
    if (checked_disks_.size() >= most_checked_disks) checked_disks_.clear();
    checked_disks_.emplace(key, *bytes);
    return bytes;
}

/// A clone of a snapshot: of the tree of an image, or of another volume.
Result<> Workbench::begin_clone(Order const& order, storage::Pool& pool, storage::TreeName const& tree) {
    VolumeRow const& row = *order.row;
    if (order.config->origin != Origin::clone) {
        auto const uuid = Uuid::parse(order.tree_row ? order.tree_row->image : "");
        if (!uuid) return fail(ErrorKind::internal, "content tree " + row.content + " has no image");
        auto service = TRY(image::ImageService::open_for_holding(place_.settings));
        image::Image const image = TRY(service.get(*uuid));
        auto const from = TRY(storage::TreeName::parse(image.tree));
        if (row.is_in_vault)
            return fail(ErrorKind::unsupported,
                        "an image is in the pool of everything else, and the vault is another one; "
                        "an encrypted volume of a container cannot be made");
        return pool.clone(from, TRY(storage::SnapshotName::parse(final_snapshot)), tree);
    }
    if (!order.source) return fail(ErrorKind::not_found, "the volume that it is a clone of does not exist");
    if (order.source->is_in_vault != row.is_in_vault)
        return fail(ErrorKind::unsupported, row.is_in_vault ? "a clone in the vault needs a source in the vault"
                                                            : "a clone of an encrypted volume must be encrypted");
    auto const from = TRY(tree_of(order.source->key, order.source->is_in_vault));
    storage::SnapshotName const snapshot = TRY(clone_snapshot(row.key));
    TRY(unless_missing(pool.delete_snapshot(from, snapshot)));
    TRY(pool.snapshot(from, snapshot));
    auto const cloned = pool.clone(from, snapshot, tree);
    // On ZFS a clone needs its snapshot; there it goes with the clone.
    if (pool.kind() != storage::Backend::zfs || !cloned) TRY(pool.delete_snapshot(from, snapshot));
    TRY(cloned);
    if (layout_of(row.format) == Layout::directory) return {};
    UniqueFd const directory = TRY(pool.open(tree));
    std::string const old_name = file_name(order.source->key, row.format);
    std::string const name = file_name(row.key, row.format);
    if (::renameat(directory.get(), old_name.c_str(), directory.get(), name.c_str()) != 0)
        return fail(errno, "give " + name + " its name");
    UniqueFd const file{::openat(directory.get(), name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
    if (!file) return fail(errno, "open " + name);
    if (row.format == Format::raw) TRY(extend(file.get(), row.bytes, name));
    return make_durable(directory.get(), tree.text());
}

Result<> Workbench::limit(storage::Pool& pool, storage::TreeName const& tree, std::uint64_t bytes) {
    auto const set = pool.set_quota(tree, bytes);
    if (set || set.error().kind != ErrorKind::unsupported) return set;
    // It would grow without end, and what was promised to others would be gone.
    return fail(ErrorKind::unsupported, "this pool cannot limit a directory to " + std::to_string(bytes) +
                                            " bytes: " + set.error().text() + "; use layout file, or no MaxVolSize");
}

Result<> Workbench::grow(Order const& order) {
    VolumeRow const& row = *order.row;
    auto const pool = TRY(pool_of(row.is_in_vault));
    return set_size(row, *pool, order.job.bytes, order.cancel);
}

namespace {

/// Its header is checked before and after: whoever used the volume may have changed it since it was made.
Result<> grow_qcow2(int file, std::uint64_t bytes, int cancel) {
    content::JobSettings const settings{.role = {}, .cancel = cancel};
    std::uint64_t const before = TRY(content::check_disk(settings, disk::Format::qcow2, file));
    if (before >= bytes) return {};
    TRY(content::resize_disk(settings, disk::Format::qcow2, file, bytes));
    std::uint64_t const after = TRY(content::check_disk(settings, disk::Format::qcow2, file));
    if (after >= bytes) return {};
    return fail(ErrorKind::corrupt, "qemu-img has left a disk of " + std::to_string(after) + " bytes");
}

}  // namespace

/// Gives a volume that many bytes, if it has less, and makes that durable.
Result<> Workbench::set_size(VolumeRow const& row, storage::Pool& pool, std::uint64_t bytes, int cancel) {
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    if (layout_of(row.format) == Layout::directory) return limit(pool, tree, bytes);
    std::string const name = file_name(row.key, row.format);
    if (row.format != Format::raw && row.format != Format::qcow2)
        return fail(ErrorKind::unsupported, std::string(name_of(row.format)) + " files cannot grow; generation " +
                                                std::to_string(row.key.generation + 1) + " is needed");
    UniqueFd const directory = TRY(pool.open(tree));
    UniqueFd const file{::openat(directory.get(), name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
    if (!file) return fail(errno, "open " + name);
    TRY(row.format == Format::raw ? extend(file.get(), bytes, name) : grow_qcow2(file.get(), bytes, cancel));
    if (::fsync(file.get()) != 0) return fail(errno, "make " + name + " durable");
    return {};
}

Result<> Workbench::destroy(Order const& order) {
    VolumeRow const& row = *order.row;
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    auto const pool = TRY(pool_of(row.is_in_vault));
    (void)::unlink(link_path(row).c_str());  // it is derived
    return unless_missing(pool->destroy(tree));
}

std::string Workbench::link_path(VolumeRow const& row) const {
    return place_.links + (row.is_in_vault ? "/vault/" : "/clear/") + file_name(row.key, row.format);
}

/// Makes the name that EVE has for it. It is derived: without it everything works, and it is made again at a start.
void Workbench::link(storage::Pool const& pool, VolumeRow const& row) const {
    auto const tree = tree_of(row.key, row.is_in_vault);
    if (!tree) return;
    std::string const target =
        pool.path(*tree) +
        (layout_of(row.format) == Layout::directory ? std::string("/root") : "/" + file_name(row.key, row.format));
    std::string const path = link_path(row);
    std::error_code error;
    if (std::filesystem::read_symlink(path, error) == target) return;
    (void)::mkdir(place_.links.c_str(), 0700);
    (void)::mkdir(path.substr(0, path.rfind('/')).c_str(), 0700);
    (void)::unlink(path.c_str());
    (void)::symlink(target.c_str(), path.c_str());
}

void Workbench::repair_links(bool is_in_vault, std::vector<VolumeRow> const& made) {
    auto const pool = pool_of(is_in_vault);
    if (!pool) return;
    std::set<std::string> paths;
    for (VolumeRow const& row : made) {
        link(**pool, row);
        paths.insert(link_path(row));
    }
    std::error_code error;
    std::filesystem::directory_iterator at(place_.links + (is_in_vault ? "/vault" : "/clear"), error);
    for (std::filesystem::directory_iterator const end; !error && at != end; at.increment(error)) {
        std::string const path = at->path().string();
        if (at->is_symlink(error) && !paths.contains(path)) (void)::unlink(path.c_str());
    }
}

}  // namespace triton::volume
