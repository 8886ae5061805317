#include "host/unpack/extractor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lib/base/next_entry.h"
#include "lib/json/text.h"

namespace triton::unpack {

namespace {

constexpr std::uint64_t worth_writing_early = 256 << 10;
constexpr std::string_view whiteout_prefix = ".wh.";
constexpr std::string_view opaque_marker = ".wh..wh..opq";
constexpr std::string_view marker_prefix = ".wh..wh.";  // others belong to aufs
constexpr std::size_t most_late_links = 1'000'000;
constexpr mode_t special_bits = 07000;

std::array<timespec, 2> both(Times const& times) { return {times.accessed, times.modified}; }

/// Whether an image may set an extended attribute. overlayfs would take `trusted.` and `user.overlay.` for its own
/// notes, and the rest belongs to the host.
bool may_set(std::string_view name) {
    return (name.starts_with("user.") && !name.starts_with("user.overlay.")) || name == "security.capability" ||
           name == "system.posix_acl_access" || name == default_acl_name;
}

/// Removes an attribute that a directory of a lower layer has, and the new entry does not.
Result<> clear_attributes(int file) {
    std::array<char, 65536> names{};
    ssize_t const size = ::flistxattr(file, names.data(), names.size());
    std::string_view rest(names.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    while (!rest.empty()) {
        std::string const name(rest.substr(0, rest.find('\0')));
        rest.remove_prefix(std::min(rest.size(), name.size() + 1));
        if (may_set(name) && ::fremovexattr(file, name.c_str()) != 0 && errno != ENODATA && !is_left_out(errno))
            return fail(errno, "remove attribute " + name);
    }
    return {};
}

/// The access control list that a directory is to pass on; empty when it has none.
std::string default_acl_of(Entry const& entry) {
    auto const acl = std::ranges::find(entry.attributes, default_acl_name, &Attribute::name);
    return acl == entry.attributes.end() ? std::string() : acl->value;
}

}  // namespace

Extractor::Extractor(int root, role::Unpack const& job, Pace& pace)
    : limits_(job.limits), applies_whiteouts_(job.applies_whiteouts), pace_(pace), tree_(root, pace) {}

bool Extractor::is_ours(std::string const& path) const { return ours_.contains(std::hash<std::string>{}(path)); }

bool Extractor::is_skipped(std::vector<std::string> const& name) const {
    return skipped_.contains(std::hash<std::string>{}(join(name, name.size())));
}

void Extractor::remember(Entry const& entry) {
    if (!skipped_.empty()) skipped_.erase(std::hash<std::string>{}(entry.path()));
    // The directories above count, too: a whiteout next to them does not remove what this archive has put into them.
    for (std::size_t count = entry.name.size(); count > 0; --count)
        if (!ours_.insert(std::hash<std::string>{}(join(entry.name, count))).second) break;
}

Result<> Extractor::add(Entry const& entry, Archive& archive) {
    if (++entries_ > limits_.entries)
        return fail(ErrorKind::refused, "archive has more than " + std::to_string(limits_.entries) + " entries");
    if (entry.size > largest_file)
        return fail(ErrorKind::refused, "extract " + json::quoted(entry.path(), 200),
                    "it is larger than " + std::to_string(largest_file) + " bytes");
    file_bytes_ += std::min(entry.data.value_or(entry.size), limits_.bytes + 1);  // holes take no room
    if (file_bytes_ > limits_.bytes)
        return fail(ErrorKind::refused, "files are larger than " + std::to_string(limits_.bytes) + " bytes");
    TRY(pace_.step());
    auto done = apply(entry, archive);
    if (!done && done.error().kind == ErrorKind::not_found) {
        // An open directory was removed by another of its names.
        tree_.forget_all();
        done = apply(entry, archive);
    }
    if (done) return {};
    Error error = done.error();
    if (error.attempted.empty()) return done;
    std::string const why = error.text();
    return fail(error.kind, "extract " + json::quoted(entry.path(), 200), why);
}

Result<> Extractor::apply(Entry const& entry, Archive& archive) {
    // The name is checked before the kind, because whiteouts may also be hard links.
    bool const is_whiteout = !entry.name.empty() && entry.name.back().starts_with(whiteout_prefix);
    if (is_whiteout && applies_whiteouts_) return apply_whiteout(entry);
    if (is_whiteout) has_whiteout_names_ = true;
    if (entry.name.empty()) return make_root(entry);
    switch (entry.kind) {
        case Entry::Kind::file: return make_file(entry, archive);
        case Entry::Kind::directory: return make_directory(entry);
        case Entry::Kind::symbolic_link: return make_symbolic_link(entry);
        case Entry::Kind::hard_link: return make_hard_link(entry);
        case Entry::Kind::fifo: return make_fifo(entry);
        case Entry::Kind::device: return leave_out(entry);
    }
    std::unreachable();
}

// Whiteouts.

Result<> Extractor::apply_whiteout(Entry const& entry) {
    std::string const& marker = entry.name.back();
    std::size_t const above = entry.name.size() - 1;
    if (marker == opaque_marker) return clear_lower(entry.name, above);
    if (marker.starts_with(marker_prefix)) return {};
    std::string const name = marker.substr(whiteout_prefix.size());
    if (name.empty() || name == "." || name == "..")
        return fail(ErrorKind::corrupt, "entry " + json::quoted(entry.path()) + " hides a name that cannot exist");
    auto const parent = tree_.find_directory(entry.name, above);
    if (!parent) return {};
    std::vector<std::string> hidden = entry.name;
    hidden.back() = name;
    tree_.forget(hidden, hidden.size());
    return remove_lower(*parent, name, join(hidden, hidden.size()), limits_.depth);
}

/// Removes what lower layers have in a directory. What this archive has made in it stays, whatever the order.
Result<> Extractor::clear_lower(std::vector<std::string> const& components, std::size_t count) {
    auto const directory = tree_.find_directory(components, count);
    if (!directory) return {};
    UniqueFd listing(open_beneath(*directory, ".", O_RDONLY | O_DIRECTORY, 0, RESOLVE_BENEATH));
    using Directory = std::unique_ptr<DIR, decltype([](DIR* one) { ::closedir(one); })>;
    Directory const open(listing ? ::fdopendir(listing.get()) : nullptr);
    if (!open) return fail(errno, "list " + join(components, count));
    int const fd = listing.release();
    std::string const path = join(components, count);
    while (dirent const* const entry = TRY(next_entry(open.get(), path))) {
        std::string const name = entry->d_name;
        if (name == "." || name == "..") continue;
        pace_.note_life();
        TRY(remove_lower(fd, name, path.empty() ? name : path + "/" + name, limits_.depth));
    }
    return {};
}

Result<> Extractor::remove_lower(int parent, std::string const& name, std::string const& path, unsigned most_depth) {
    if (!is_ours(path)) {
        tree_.forget_ends(path);
        return remove_all(parent, name, limits_.depth, &pace_);
    }
    if (most_depth == 0) return fail(ErrorKind::refused, "remove " + path, "it is too deep");
    UniqueFd directory(open_beneath(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
                                    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS));
    if (!directory) return {};  // it is a file of this archive
    using Directory = std::unique_ptr<DIR, decltype([](DIR* one) { ::closedir(one); })>;
    Directory const open(::fdopendir(directory.get()));
    if (!open) return fail(errno, "list " + path);
    int const fd = directory.release();
    while (dirent const* const entry = TRY(next_entry(open.get(), path))) {
        std::string const below = entry->d_name;
        if (below == "." || below == "..") continue;
        pace_.note_life();
        TRY(remove_lower(fd, below, path + "/" + below, most_depth - 1));
    }
    return {};
}

// What is made.

/// Removes what is in the place of an entry.
Result<> Extractor::make_way(int parent, Entry const& entry) {
    tree_.forget(entry.name, entry.name.size());
    tree_.forget_ends(entry.path());
    return remove_all(parent, entry.name.back(), limits_.depth, &pace_);
}

Result<> Extractor::make_root(Entry const& entry) {
    if (entry.kind != Entry::Kind::directory) return fail(ErrorKind::corrupt, "the archive's root is not a directory");
    (void)TRY(tree_.make_directory(entry.name, 0));
    TRY(clear_attributes(tree_.root()));
    TRY(set_attributes(tree_.root(), entry));
    tree_.set_gives_group((entry.mode & S_ISGID) != 0);
    tree_.set_times("", entry.times);
    return tree_.set_default_acl("", default_acl_of(entry));
}

Result<> Extractor::make_directory(Entry const& entry) {
    char const* const name = entry.name.back().c_str();
    int const parent = TRY(tree_.make_directory(entry.name, entry.name.size() - 1));
    bool is_new = ::mkdirat(parent, name, 0700) == 0;
    if (!is_new && errno != EEXIST) return fail(errno, "make a directory");
    if (!is_new) {
        struct stat status{};
        if (::fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return fail(errno, "look at what is there");
        if (!S_ISDIR(status.st_mode)) {
            TRY(make_way(parent, entry));
            if (::mkdirat(parent, name, 0700) != 0) return fail(errno, "make a directory");
            is_new = true;
        }
    }
    int const directory = TRY(tree_.make_directory(entry.name, entry.name.size()));
    if (!is_new) TRY(clear_attributes(directory));
    TRY(set_attributes(directory, entry));
    tree_.set_gives_group((entry.mode & S_ISGID) != 0);
    tree_.set_times(entry.path(), entry.times);
    TRY(tree_.set_default_acl(entry.path(), default_acl_of(entry)));
    remember(entry);
    return {};
}

Result<> Extractor::make_file(Entry const& entry, Archive& archive) {
    int const parent = TRY(tree_.make_directory(entry.name, entry.name.size() - 1));
    bool const gives_group = tree_.gives_group();
    auto const create = [&] {
        return open_beneath(parent, entry.name.back().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                            entry.mode & ~special_bits, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    };
    UniqueFd file(create());
    if (!file && errno == EEXIST) {
        TRY(make_way(parent, entry));
        file = UniqueFd(create());
    }
    if (!file) return fail(errno, "make a file");
    TRY(write_content(file.get(), entry, archive));
    // It was made with this mode and for id 0 of our namespace, which is right for most files of most archives.
    if (entry.user != 0 || entry.group != 0 || gives_group || (entry.mode & special_bits) != 0 ||
        !entry.attributes.empty())
        TRY(set_attributes(file.get(), entry));
    if (::futimens(file.get(), both(entry.times).data()) != 0) return fail(errno, "set its times");
    remember(entry);
    return {};
}

Result<> Extractor::write_content(int file, Entry const& entry, Archive& archive) {
    std::uint64_t end = 0;
    std::uint64_t got = 0;
    for (;;) {
        auto const block = TRY(archive.next_block());
        if (!block) break;
        TRY(pace_.step(block->bytes.size()));
        std::span<char const> bytes = block->bytes;
        if (bytes.empty()) continue;
        std::uint64_t at = block->offset;
        if (at > entry.size || bytes.size() > entry.size - at)
            return fail(ErrorKind::corrupt, "archive is broken: a file is too long");
        if (at < end) return fail(ErrorKind::corrupt, "archive is broken: the pieces of a file overlap");
        end = at + bytes.size();
        got += bytes.size();
        while (!bytes.empty()) {
            ssize_t const written = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(at));
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) return fail(errno, "write it");
            bytes = bytes.subspan(static_cast<std::size_t>(written));
            at += static_cast<std::uint64_t>(written);
        }
    }
    // libarchive ends a file whose pieces are more than the archive has of it, and the rest would become a hole. One
    // without any piece is a hole as a whole.
    std::uint64_t const due = entry.data.value_or(got == 0 ? 0 : entry.size);
    if (got != due)
        return fail(ErrorKind::corrupt, "archive is broken: a file has " + std::to_string(got) +
                                            " bytes of data, not " + std::to_string(due));
    if (end < entry.size && ::ftruncate(file, static_cast<off_t>(entry.size)) != 0) return fail(errno, "set its size");
    // Writing to the disk begins now, and not when the whole tree is made durable at the end. It is only a hint, so the
    // result does not matter.
    if (end >= worth_writing_early) (void)::sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
    return {};
}

/// Sets the owner first, because that clears setuid and security.capability.
Result<> Extractor::set_attributes(int file, Entry const& entry) {
    if (::fchown(file, entry.user, entry.group) != 0) {
        if (errno == EINVAL)
            return fail(ErrorKind::unsupported, "change its owner",
                        "user " + std::to_string(entry.user) + " or group " + std::to_string(entry.group) +
                            " is outside of what the target may have");
        return fail(errno, "change its owner");
    }
    if (::fchmod(file, entry.mode) != 0) return fail(errno, "change its mode");
    for (Attribute const& attribute : entry.attributes) {
        if (entry.kind == Entry::Kind::directory && attribute.name == default_acl_name) continue;  // set in the end
        if (may_set(attribute.name) &&
            ::fsetxattr(file, attribute.name.c_str(), attribute.value.data(), attribute.value.size(), 0) == 0)
            continue;
        if (may_set(attribute.name) && !is_left_out(errno)) return fail(errno, "set attribute " + attribute.name);
        ++skipped_attributes_;
    }
    return {};
}

/// Sets the attributes of a file that is not opened: a link or a FIFO.
Result<> Extractor::set_link_attributes(int parent, Entry const& entry) {
    char const* const name = entry.name.back().c_str();
    if ((entry.user != 0 || entry.group != 0 || tree_.gives_group()) &&
        ::fchownat(parent, name, entry.user, entry.group, AT_SYMLINK_NOFOLLOW) != 0)
        return fail(errno == EINVAL ? ErrorKind::unsupported : kind_of_errno(errno), "change its owner",
                    errno_text(errno));
    if (::utimensat(parent, name, both(entry.times).data(), AT_SYMLINK_NOFOLLOW) != 0)
        return fail(errno, "set its times");
    skipped_attributes_ += entry.attributes.size();
    return {};
}

Result<> Extractor::make_symbolic_link(Entry const& entry) {
    char const* const name = entry.name.back().c_str();
    int const parent = TRY(tree_.make_directory(entry.name, entry.name.size() - 1));
    int made = ::symlinkat(entry.link_target.c_str(), parent, name);
    if (made != 0 && errno == EEXIST) {
        TRY(make_way(parent, entry));
        made = ::symlinkat(entry.link_target.c_str(), parent, name);
    }
    if (made != 0) return fail(errno, "make a symbolic link");
    TRY(set_link_attributes(parent, entry));
    remember(entry);
    return {};
}

Result<> Extractor::make_fifo(Entry const& entry) {
    char const* const name = entry.name.back().c_str();
    int const parent = TRY(tree_.make_directory(entry.name, entry.name.size() - 1));
    int made = ::mknodat(parent, name, S_IFIFO | (entry.mode & ~special_bits), 0);
    if (made != 0 && errno == EEXIST) {
        TRY(make_way(parent, entry));
        made = ::mknodat(parent, name, S_IFIFO | (entry.mode & ~special_bits), 0);
    }
    if (made != 0) return fail(errno, "make a FIFO");
    TRY(set_link_attributes(parent, entry));
    remember(entry);
    return {};
}

/// A device is not made, since a machine has its own, and neither is a link to one. What a lower layer has in its place
/// goes all the same.
Result<> Extractor::leave_out(Entry const& entry) {
    ++skipped_devices_;
    skipped_.insert(std::hash<std::string>{}(entry.path()));
    auto const parent = tree_.find_directory(entry.name, entry.name.size() - 1);
    if (!parent) return {};
    return make_way(*parent, entry);
}

/// Makes a hard link. Returns false when the target does not exist (yet).
Result<bool> Extractor::link(Entry const& entry) {
    if (entry.linked.empty())
        return fail(ErrorKind::corrupt, "entry " + json::quoted(entry.path()) + " is a link to the root");
    if (entry.linked == entry.name) return true;  // a link to itself changes nothing
    if (is_skipped(entry.linked)) {
        TRY(leave_out(entry));
        return true;
    }
    auto const target_parent = tree_.find_directory(entry.linked, entry.linked.size() - 1);
    if (!target_parent) return false;
    UniqueFd const target(open_beneath(*target_parent, ".", O_RDONLY | O_DIRECTORY, 0, RESOLVE_BENEATH));
    if (!target) return fail(errno, "open the directory of its target");
    struct stat status{};
    if (::fstatat(target.get(), entry.linked.back().c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return false;
    int const parent = TRY(tree_.make_directory(entry.name, entry.name.size() - 1));
    auto const make = [&] {
        return ::linkat(target.get(), entry.linked.back().c_str(), parent, entry.name.back().c_str(), 0);
    };
    int made = make();
    if (made != 0 && errno == EEXIST) {
        struct stat there{};
        if (::fstatat(parent, entry.name.back().c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
            there.st_dev == status.st_dev && there.st_ino == status.st_ino)
            return true;
        TRY(make_way(parent, entry));
        made = make();
        if (made != 0 && errno == ENOENT)
            return fail(ErrorKind::corrupt, "entry " + json::quoted(entry.path()) + " replaces its own target");
    }
    if (made != 0) return fail(errno, "make a hard link");
    return true;
}

Result<> Extractor::make_hard_link(Entry const& entry) {
    if (TRY(link(entry))) {
        if (!is_skipped(entry.linked)) remember(entry);
        return {};
    }
    if (late_links_.size() == most_late_links)
        return fail(ErrorKind::refused, "archive has too many links that come early");
    late_links_.push_back(entry);
    return {};
}

Result<> Extractor::finish() {
    for (Entry const& entry : late_links_) {
        TRY(pace_.step());
        auto const linked = link(entry);
        if (!linked)
            return fail(linked.error().kind, "extract " + json::quoted(entry.path(), 200), linked.error().text());
        if (!*linked)
            return fail(ErrorKind::corrupt, "entry " + json::quoted(entry.path(), 200) + " is a link to " +
                                                json::quoted(join(entry.linked, entry.linked.size()), 200) +
                                                ", which is not there");
    }
    late_links_.clear();
    skipped_attributes_ += TRY(tree_.end());
    return {};
}

}  // namespace triton::unpack
