#include "host/unpack/archive.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <new>
#include <utility>

#include <archive.h>
#include <archive_entry.h>

#include "lib/json/text.h"

namespace triton::unpack {

namespace {

constexpr std::size_t longest_name = 1 << 20;  // libarchive's own limit for names of pax
constexpr std::size_t most_attributes = 1024;
constexpr std::size_t longest_attribute = 64 * 1024;  // XATTR_SIZE_MAX
constexpr std::uint32_t largest_id = UINT32_MAX - 1;  // chown(2) leaves the owner unchanged for -1

std::unexpected<Error> corrupt(std::string reason) { return fail(ErrorKind::corrupt, std::move(reason)); }

Entry::Kind kind_of(archive_entry* entry) {
    if (::archive_entry_hardlink(entry)) return Entry::Kind::hard_link;
    switch (::archive_entry_filetype(entry)) {
        case AE_IFDIR: return Entry::Kind::directory;
        case AE_IFLNK: return Entry::Kind::symbolic_link;
        case AE_IFIFO: return Entry::Kind::fifo;
        case AE_IFCHR:
        case AE_IFBLK: return Entry::Kind::device;
        default: return Entry::Kind::file;
    }
}

/// Converts a time for utimensat(2); the kernel adjusts it to the file system's range.
timespec time_of(time_t seconds, long nanoseconds) {
    return {.tv_sec = seconds, .tv_nsec = nanoseconds >= 0 && nanoseconds < 1'000'000'000 ? nanoseconds : 0};
}

Times times_of(archive_entry* entry) {
    timespec const modified = time_of(::archive_entry_mtime(entry), ::archive_entry_mtime_nsec(entry));
    bool const has_access = ::archive_entry_atime_is_set(entry) != 0;
    return {
        .accessed = has_access ? time_of(::archive_entry_atime(entry), ::archive_entry_atime_nsec(entry)) : modified,
        .modified = modified};
}

Result<std::uint32_t> id_of(std::int64_t id, std::string const& path) {
    if (id < 0 || id > largest_id)
        return corrupt("entry " + json::quoted(path) + " belongs to a user or group that cannot exist");
    return static_cast<std::uint32_t>(id);
}

Result<std::vector<Attribute>> attributes_of(archive_entry* entry, std::string const& path) {
    std::vector<Attribute> attributes;
    ::archive_entry_xattr_reset(entry);
    char const* name = nullptr;
    void const* value = nullptr;
    std::size_t size = 0;
    while (::archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
        if (!name) continue;
        if (attributes.size() == most_attributes || size > longest_attribute)
            return fail(ErrorKind::refused, "entry " + json::quoted(path) + " has too many extended attributes");
        attributes.push_back({name, std::string(static_cast<char const*>(value), size)});
    }
    return attributes;
}

}  // namespace

ssize_t Archive::read(archive* reader, void* self, void const** bytes) {
    Archive& own = *static_cast<Archive*>(self);
    auto const next = own.stream_.next();
    if (!next) {
        own.stream_error_ = next.error();
        ::archive_set_error(reader, EIO, "%s", "the stream is broken");
        return -1;
    }
    *bytes = next->data();
    return static_cast<ssize_t>(next->size());
}

Result<std::unique_ptr<Archive>> Archive::open(Stream& stream, role::UnpackLimits const& limits) {
    std::unique_ptr<Archive> own(new Archive(stream, limits));
    own->reader_ = ::archive_read_new();
    if (!own->reader_) throw std::bad_alloc();
    // An empty archive is accepted, because a layer may change nothing.
    if (::archive_read_support_format_tar(own->reader_) != ARCHIVE_OK ||
        ::archive_read_support_format_empty(own->reader_) != ARCHIVE_OK ||
        ::archive_read_open(own->reader_, own.get(), nullptr, Archive::read, nullptr) != ARCHIVE_OK)
        return own->error();
    return own;
}

Archive::~Archive() { ::archive_read_free(reader_); }

std::unexpected<Error> Archive::error() {
    if (stream_error_) return std::unexpected(*stream_error_);
    char const* const text = ::archive_error_string(reader_);
    return corrupt(std::string("archive is broken: ") + (text ? text : "no reason is known"));
}

Result<Entry> Archive::convert(archive_entry* from) {
    char const* const name = ::archive_entry_pathname(from);
    if (!name) return corrupt("archive is broken: an entry has no usable name");
    std::string const path = name;
    if (path.size() > longest_name) return corrupt("archive is broken: a name is too long");
    Entry entry;
    entry.kind = kind_of(from);
    entry.name = TRY(split_name(path, limits_.depth));
    if (char const* const target = ::archive_entry_hardlink(from)) entry.linked = TRY(split_name(target, limits_.depth));
    if (entry.kind == Entry::Kind::symbolic_link) {
        char const* const target = ::archive_entry_symlink(from);
        if (!target || !*target) return corrupt("entry " + json::quoted(path) + " is a link to nothing");
        entry.link_target = target;
    }
    std::int64_t const size = ::archive_entry_size(from);
    if (size < 0) return corrupt("entry " + json::quoted(path) + " has a negative size");
    entry.size = entry.kind == Entry::Kind::file ? static_cast<std::uint64_t>(size) : 0;
    entry.mode = ::archive_entry_perm(from) & 07777;
    entry.user = TRY(id_of(::archive_entry_uid(from), path));
    entry.group = TRY(id_of(::archive_entry_gid(from), path));
    entry.times = times_of(from);
    entry.attributes = TRY(attributes_of(from, path));
    return entry;
}

Result<std::optional<Entry>> Archive::next() {
    archive_entry* entry = nullptr;
    int const status = ::archive_read_next_header(reader_, &entry);
    if (status == ARCHIVE_EOF && !stream_error_) return std::optional<Entry>();
    // ARCHIVE_WARN: the name is not in this character set, and is used unchanged.
    if (status != ARCHIVE_OK && status != ARCHIVE_WARN) return error();
    return TRY(convert(entry));
}

Result<std::optional<Archive::Block>> Archive::next_block() {
    void const* bytes = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    int const status = ::archive_read_data_block(reader_, &bytes, &size, &offset);
    if (status == ARCHIVE_EOF) return std::optional<Block>();
    if ((status != ARCHIVE_OK && status != ARCHIVE_WARN) || offset < 0) return error();
    return Block{{static_cast<char const*>(bytes), size}, static_cast<std::uint64_t>(offset)};
}

}  // namespace triton::unpack
