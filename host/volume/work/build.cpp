// How volumes are made, grown and destroyed.

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "host/storage/data_copy.h"
#include "host/volume/work/workbench.h"

namespace triton::volume {

namespace {

constexpr char root_entry[] = "root";  // of a directory volume, as of the tree of an image
constexpr char final_snapshot[] = "final";
constexpr char clone_snapshot[] = "triton-clone";

Result<> make_durable(int directory, std::string const& what) {
    if (::syncfs(directory) != 0) return fail(errno, "make " + what + " durable");
    return {};
}

void tell(Order const& order, SubState sub_state) {
    if (order.progress) order.progress({.job = {}, .sub_state = sub_state});
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
    return image && TRY(pool_->exists(TRY(storage::TreeName::parse(image->tree))));
}

/// Each attempt begins anew: what is there under this name is not complete, or its row would say so.
Result<> Workbench::build(Order const& order) {
    VolumeRow const& row = *order.row;
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    TRY(unless_missing(pool_->destroy(tree)));
    tell(order, SubState::preparing);
    bool const is_copy = order.config && (order.config->origin == Origin::clone || row.format == Format::container);
    TRY(is_copy ? begin_clone(order, tree) : begin_blank(order, tree));
    if (layout_of(row.format) == Layout::directory && row.bytes > 0) TRY(limit(tree, row.bytes));
    tell(order, SubState::prepare_done);
    link(row);
    return {};
}

Result<> Workbench::begin_blank(Order const& order, storage::TreeName const& tree) {
    TRY(pool_->make(tree));
    UniqueFd const directory = TRY(pool_->open(tree));
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
    if (!row.content.empty()) TRY(copy_content(order, file.get()));
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) return fail(errno, "look at " + name);
    bool const is_longer = row.bytes > static_cast<std::uint64_t>(status.st_size);
    // Of the other formats only their own tools know how to make them longer.
    if (row.format == Format::raw && is_longer && ::ftruncate(file.get(), static_cast<off_t>(row.bytes)) != 0)
        return fail(errno, "give " + name + " its size");
    return {};
}

Result<> Workbench::copy_content(Order const& order, int file) {
    auto const digest = TRY(content::Digest::parse(order.tree_row ? order.tree_row->digest : ""));
    UniqueFd const blob = TRY(store_.open_blob(digest));
    struct stat status{};
    if (::fstat(blob.get(), &status) != 0) return fail(errno, "look at " + digest.text());
    if (order.row->bytes > 0 && static_cast<std::uint64_t>(status.st_size) > order.row->bytes)
        return fail(ErrorKind::invalid, "its content has " + std::to_string(status.st_size) +
                                            " bytes, and MaxVolSize is " + std::to_string(order.row->bytes));
    if (::ioctl(file, FICLONE, blob.get()) == 0) return {};
    TRY(storage::copy_data(blob.get(), status, file));
    return {};
}

/// A clone of a snapshot: of the tree of an image, or of another volume.
Result<> Workbench::begin_clone(Order const& order, storage::TreeName const& tree) {
    VolumeRow const& row = *order.row;
    if (order.config->origin != Origin::clone) {
        auto const uuid = Uuid::parse(order.tree_row ? order.tree_row->image : "");
        if (!uuid) return fail(ErrorKind::internal, "content tree " + row.content + " has no image");
        auto service = TRY(image::ImageService::open_for_holding(place_.settings));
        image::Image const image = TRY(service.get(*uuid));
        auto const from = TRY(storage::TreeName::parse(image.tree));
        return pool_->clone(from, TRY(storage::SnapshotName::parse(final_snapshot)), tree);
    }
    if (!order.source) return fail(ErrorKind::not_found, "the volume that it is a clone of does not exist");
    auto const from = TRY(tree_of(order.source->key, order.source->is_in_vault));
    // Of its own for each clone: two at once do not meet, and whoever was killed is told by the name.
    auto const snapshot = TRY(storage::SnapshotName::parse(std::string(clone_snapshot) + "-" + row.key.id.text() + "." +
                                                           std::to_string(row.key.generation)));
    TRY(unless_missing(pool_->delete_snapshot(from, snapshot)));
    TRY(pool_->snapshot(from, snapshot));
    auto const cloned = pool_->clone(from, snapshot, tree);
    // On ZFS a clone needs its snapshot; there it goes with the clone.
    if (pool_->kind() != storage::Backend::zfs || !cloned) TRY(pool_->delete_snapshot(from, snapshot));
    TRY(cloned);
    if (layout_of(row.format) == Layout::directory) return {};
    UniqueFd const directory = TRY(pool_->open(tree));
    std::string const old_name = file_name(order.source->key, row.format);
    std::string const name = file_name(row.key, row.format);
    if (::renameat(directory.get(), old_name.c_str(), directory.get(), name.c_str()) != 0)
        return fail(errno, "give " + name + " its name");
    struct stat status{};
    if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
        return fail(errno, "look at " + name);
    UniqueFd const file{::openat(directory.get(), name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
    if (!file) return fail(errno, "open " + name);
    if (row.format == Format::raw && row.bytes > static_cast<std::uint64_t>(status.st_size) &&
        ::ftruncate(file.get(), static_cast<off_t>(row.bytes)) != 0)
        return fail(errno, "give " + name + " its size");
    return make_durable(directory.get(), tree.text());
}

Result<> Workbench::limit(storage::TreeName const& tree, std::uint64_t bytes) {
    auto const set = pool_->set_quota(tree, bytes);
    if (set || set.error().kind != ErrorKind::unsupported) return set;
    // It would grow without end, and what was promised to others would be gone.
    return fail(ErrorKind::unsupported, "this pool cannot limit a directory to " + std::to_string(bytes) +
                                            " bytes: " + set.error().text() + "; use layout file, or no MaxVolSize");
}

Result<> Workbench::grow(Order const& order) {
    VolumeRow const& row = *order.row;
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    if (layout_of(row.format) == Layout::directory) return limit(tree, order.job.bytes);
    std::string const name = file_name(row.key, row.format);
    if (row.format != Format::raw)
        return fail(ErrorKind::unsupported, std::string(name_of(row.format)) + " files cannot grow; generation " +
                                                std::to_string(row.key.generation + 1) + " is needed");
    UniqueFd const directory = TRY(pool_->open(tree));
    UniqueFd const file{::openat(directory.get(), name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
    if (!file) return fail(errno, "open " + name);
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) return fail(errno, "look at " + name);
    if (static_cast<std::uint64_t>(status.st_size) < order.job.bytes &&
        ::ftruncate(file.get(), static_cast<off_t>(order.job.bytes)) != 0)
        return fail(errno, "make " + name + " larger");
    if (::fsync(file.get()) != 0) return fail(errno, "make " + name + " durable");
    return {};
}

Result<> Workbench::destroy(Order const& order) {
    VolumeRow const& row = *order.row;
    storage::TreeName const tree = TRY(tree_of(row.key, row.is_in_vault));
    (void)::unlink((place_.links + "/clear/" + file_name(row.key, row.format)).c_str());  // it is derived
    return unless_missing(pool_->destroy(tree));
}

/// Makes the name that EVE has for it. It is derived: without it everything works.
void Workbench::link(VolumeRow const& row) const {
    auto const tree = tree_of(row.key, row.is_in_vault);
    if (!tree) return;
    std::string const name = file_name(row.key, row.format);
    std::string const target =
        pool_->path(*tree) + (layout_of(row.format) == Layout::directory ? std::string("/root") : "/" + name);
    (void)::mkdir(place_.links.c_str(), 0700);
    (void)::mkdir((place_.links + "/clear").c_str(), 0700);
    (void)::unlink((place_.links + "/clear/" + name).c_str());
    (void)::symlink(target.c_str(), (place_.links + "/clear/" + name).c_str());
}

}  // namespace triton::volume
