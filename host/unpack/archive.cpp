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
/// A file of another owner could be read, changed and removed by nobody in a machine.
constexpr std::uint32_t largest_id_of_machine = 65535;
constexpr std::uint32_t largest_id = UINT32_MAX - 1;  // chown(2) leaves the owner unchanged for -1

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

/// Converts a time for utimensat(2); the kernel adjusts it to the file system's range. Of the time -1.25, libarchive
/// makes -1 second and 0.25 seconds after it: it reads the fraction without the sign.
timespec time_of(time_t seconds, long nanoseconds) {
    constexpr long second = 1'000'000'000;
    bool const is_earliest = seconds == std::numeric_limits<time_t>::min();
    if (nanoseconds <= 0 || nanoseconds >= second || is_earliest) return {.tv_sec = seconds, .tv_nsec = 0};
    if (seconds >= 0) return {.tv_sec = seconds, .tv_nsec = nanoseconds};
    return {.tv_sec = seconds - 1, .tv_nsec = second - nanoseconds};
}

Times times_of(archive_entry* entry) {
    timespec const modified = time_of(::archive_entry_mtime(entry), ::archive_entry_mtime_nsec(entry));
    bool const has_access = ::archive_entry_atime_is_set(entry) != 0;
    return {
        .accessed = has_access ? time_of(::archive_entry_atime(entry), ::archive_entry_atime_nsec(entry)) : modified,
        .modified = modified};
}

Result<std::uint32_t> owner_id(std::int64_t id, std::string const& path) {
    if (id < 0 || id > largest_id)
        return fail(ErrorKind::corrupt,
                    "entry " + json::quoted(path) + " belongs to a user or group that cannot exist");
    if (id > largest_id_of_machine)
        return fail(ErrorKind::unsupported, "entry " + json::quoted(path) + " belongs to user or group " +
                                                std::to_string(id) + ", and machines have 0 to 65535");
    return static_cast<std::uint32_t>(id);
}

// Access control lists. Source: Linux, include/uapi/linux/posix_acl_xattr.h.

struct AclKind {
    int type;
    std::string_view attribute;
    std::string_view text;  ///< its name in a pax archive
};
constexpr std::array<AclKind, 2> acl_kinds{{
    {ARCHIVE_ENTRY_ACL_TYPE_ACCESS, "system.posix_acl_access", "SCHILY.acl.access"},
    {ARCHIVE_ENTRY_ACL_TYPE_DEFAULT, default_acl_name, "SCHILY.acl.default"},
}};

struct AclEntry {
    std::uint16_t tag;
    std::uint16_t rights;
    std::uint32_t id;
    auto operator<=>(AclEntry const&) const = default;
};
constexpr std::uint32_t no_id = UINT32_MAX;

std::optional<std::uint16_t> acl_tag_of(int tag) {
    switch (tag) {
        case ARCHIVE_ENTRY_ACL_USER_OBJ: return 1;
        case ARCHIVE_ENTRY_ACL_USER: return 2;
        case ARCHIVE_ENTRY_ACL_GROUP_OBJ: return 4;
        case ARCHIVE_ENTRY_ACL_GROUP: return 8;
        case ARCHIVE_ENTRY_ACL_MASK: return 16;
        case ARCHIVE_ENTRY_ACL_OTHER: return 32;
        default: return std::nullopt;
    }
}

/// Reads the list of one kind. Returns nothing when it names a user by a name only: there are no names here.
std::optional<std::vector<AclEntry>> acl_of(archive_entry* entry, AclKind const& kind) {
    std::vector<AclEntry> acl;
    int type = 0;
    int rights = 0;
    int tag = 0;
    int id = 0;
    char const* name = nullptr;
    if (::archive_entry_acl_reset(entry, kind.type) == 0) return acl;  // none, or no more than the mode says
    while (::archive_entry_acl_next(entry, kind.type, &type, &rights, &tag, &id, &name) == ARCHIVE_OK) {
        auto const converted = acl_tag_of(tag);
        bool const has_id = tag == ARCHIVE_ENTRY_ACL_USER || tag == ARCHIVE_ENTRY_ACL_GROUP;
        if (!converted || (has_id && id < 0)) return std::nullopt;
        acl.push_back(
            {*converted, static_cast<std::uint16_t>(rights & 7), has_id ? static_cast<std::uint32_t>(id) : no_id});
    }
    std::ranges::sort(acl);
    return acl;
}

std::string acl_value(std::vector<AclEntry> const& acl) {
    std::string value;
    auto const put = [&value](std::uint32_t number, int bytes) {
        for (int i = 0; i < bytes; ++i)
            value += static_cast<char>(number >> (8 * i));
    };
    put(2, 4);  // the version
    for (AclEntry const& one : acl) {
        put(one.tag, 2);
        put(one.rights, 2);
        put(one.id, 4);
    }
    return value;
}

/// Adds what an archive has as text. One that has it as an extended attribute, too, means the same by it. A list that
/// cannot be used keeps the name that it has in the archive, and is left out like any other foreign attribute.
void add_acls(archive_entry* entry, std::vector<Attribute>& attributes) {
    for (AclKind const& kind : acl_kinds) {
        if (std::ranges::find(attributes, kind.attribute, &Attribute::name) != attributes.end()) continue;
        auto const acl = acl_of(entry, kind);
        if (!acl)
            attributes.push_back({std::string(kind.text), {}});
        else if (!acl->empty())
            attributes.push_back({std::string(kind.attribute), acl_value(*acl)});
    }
}

/// The bytes of data of a sparse file. Returns nothing for one that has a single piece or none.
std::optional<std::uint64_t> data_of(archive_entry* entry) {
    if (::archive_entry_sparse_reset(entry) == 0) return std::nullopt;
    std::uint64_t bytes = 0;
    la_int64_t offset = 0;
    la_int64_t length = 0;
    while (::archive_entry_sparse_next(entry, &offset, &length) == ARCHIVE_OK)
        bytes += static_cast<std::uint64_t>(length);
    return bytes;
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
    add_acls(entry, attributes);
    return attributes;
}

}  // namespace

ssize_t Archive::read(archive* reader, void* self, void const** bytes) {
    Archive& own = *static_cast<Archive*>(self);
    own.pace_.note_life();
    auto const next = own.stream_.next();
    if (!next) {
        own.stream_error_ = next.error();
        ::archive_set_error(reader, EIO, "%s", "the stream is broken");
        return -1;
    }
    *bytes = next->data();
    return static_cast<ssize_t>(next->size());
}

Result<std::unique_ptr<Archive>> Archive::open(Stream& stream, role::UnpackLimits const& limits, Pace& pace) {
    std::unique_ptr<Archive> own(new Archive(stream, limits, pace));
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
    return fail(ErrorKind::corrupt, std::string("archive is broken: ") + (text ? text : "no reason is known"));
}

std::unexpected<Error> Archive::warning() {
    char const* const text = ::archive_error_string(reader_);
    return fail(ErrorKind::corrupt, "archive is broken: a header is wrong" +
                                        (text ? ": libarchive says " + json::quoted(text) : std::string()));
}

Result<Entry> Archive::convert(archive_entry* from) {
    char const* const name = ::archive_entry_pathname(from);
    if (!name) return fail(ErrorKind::corrupt, "archive is broken: an entry has no usable name");
    std::string const path = name;
    if (path.size() > longest_name) return fail(ErrorKind::corrupt, "archive is broken: a name is too long");
    Entry entry;
    entry.kind = kind_of(from);
    entry.name = TRY(split_name(path, limits_.depth));
    if (char const* const target = ::archive_entry_hardlink(from)) entry.linked = TRY(split_name(target, limits_.depth));
    if (entry.kind == Entry::Kind::symbolic_link) {
        char const* const target = ::archive_entry_symlink(from);
        if (!target || !*target)
            return fail(ErrorKind::corrupt, "entry " + json::quoted(path) + " is a link to nothing");
        entry.link_target = target;
    }
    std::int64_t const size = ::archive_entry_size(from);
    if (size < 0) return fail(ErrorKind::corrupt, "entry " + json::quoted(path) + " has a negative size");
    entry.size = entry.kind == Entry::Kind::file ? static_cast<std::uint64_t>(size) : 0;
    if (entry.kind == Entry::Kind::file) entry.data = data_of(from);
    entry.mode = ::archive_entry_perm(from) & 07777;
    entry.user = TRY(owner_id(::archive_entry_uid(from), path));
    entry.group = TRY(owner_id(::archive_entry_gid(from), path));
    entry.times = times_of(from);
    entry.attributes = TRY(attributes_of(from, path));
    return entry;
}

Result<std::optional<Entry>> Archive::next() {
    archive_entry* entry = nullptr;
    int const status = ::archive_read_next_header(reader_, &entry);
    if (status == ARCHIVE_EOF && !stream_error_) return std::optional<Entry>();
    // A name that is not in this character set is used unchanged. What else libarchive would only warn of, as a broken
    // pax header, would have changed the entry.
    bool const is_of_characters = status == ARCHIVE_WARN && ::archive_errno(reader_) == EILSEQ;
    if (status == ARCHIVE_WARN && !is_of_characters) return warning();
    if (status != ARCHIVE_OK && !is_of_characters) return error();
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
