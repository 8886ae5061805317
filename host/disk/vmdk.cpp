// VMDK with one sparse extent in the same file, as qemu-img and exports of virtual machines have it. All numbers are
// little-endian. Source: VMware, "Virtual Disk Format 5.0"; QEMU, block/vmdk.c, for what a program does with a header.

#include <algorithm>
#include <cctype>

#include "host/disk/disk.h"

namespace triton::disk {

namespace {

constexpr std::uint64_t directory_at_end = UINT64_MAX;  // the real header follows the data
constexpr std::uint64_t footer_from_end = 2 * sector;   // a marker for the end is behind it
constexpr std::uint64_t least_descriptor_bytes = 20 * sector;
constexpr std::uint64_t largest_descriptor_bytes = 1 << 20;
constexpr std::uint32_t newest_version = 3;

struct Header {
    std::uint64_t capacity;  // in sectors
    std::uint64_t grain;
    std::uint64_t descriptor;
    std::uint64_t descriptor_sectors;
    std::uint32_t entries;
    std::uint64_t directory;
    bool operator==(Header const&) const = default;
};

Result<Header> read_sparse_header(Bytes& file, std::uint64_t offset) {
    if (file.size() < sector) return not_an_image(Format::vmdk);
    std::string const bytes = TRY(file.read(offset, sector));
    if (!bytes.starts_with("KDMV")) return not_an_image(Format::vmdk);
    std::uint32_t const version = little_at<std::uint32_t>(bytes, 4);
    if (version == 0 || version > newest_version) return invalid("its version is not known here");
    Header const header{.capacity = little_at<std::uint64_t>(bytes, 12),
                        .grain = little_at<std::uint64_t>(bytes, 20),
                        .descriptor = little_at<std::uint64_t>(bytes, 28),
                        .descriptor_sectors = little_at<std::uint64_t>(bytes, 36),
                        .entries = little_at<std::uint32_t>(bytes, 44),
                        .directory = little_at<std::uint64_t>(bytes, 56)};
    if (header.grain == 0 || header.entries == 0) return invalid("its header makes no sense");
    return header;
}

bool is_same_character(char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}
bool has_word(std::string_view text, std::string_view word) {
    return !std::ranges::search(text, word, is_same_character).empty();
}
bool begins_with(std::string_view text, std::string_view word) {
    return text.size() >= word.size() && std::ranges::equal(text.substr(0, word.size()), word, is_same_character);
}

std::string_view without_blanks(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
        text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
        text.remove_suffix(1);
    return text;
}

/// The value of "name = value", without its quotation marks; the name is compared without regard to case.
std::optional<std::string_view> value_of(std::string_view line, std::string_view name) {
    if (!begins_with(line, name)) return std::nullopt;
    std::string_view rest = without_blanks(line.substr(name.size()));
    if (!rest.starts_with('=')) return std::nullopt;
    rest = without_blanks(rest.substr(1));
    if (rest.size() >= 2 && rest.front() == '"' && rest.back() == '"') rest = rest.substr(1, rest.size() - 2);
    return rest;
}

bool is_extent(std::string_view line) {
    return begins_with(line, "RW ") || begins_with(line, "RDONLY ") || begins_with(line, "NOACCESS ");
}

/// An extent in this file is written with the file's name at that time. One with a directory is elsewhere.
bool is_in_this_file(std::string_view line) {
    return has_word(line, " SPARSE ") && line.find('/') == std::string_view::npos &&
           line.find('\\') == std::string_view::npos;
}

/// The text in the file that says what the disk is made of.
Result<> check_descriptor(std::string_view text) {
    // Programs look for this word anywhere, and not only where it belongs.
    if (has_word(text, "parentFileNameHint")) return names_another_file("it has a parent");
    text = text.substr(0, text.find('\0'));
    std::size_t extents = 0;
    bool has_type = false;
    while (!text.empty()) {
        std::size_t const end = std::min(text.find('\n'), text.size());
        std::string_view const line = without_blanks(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (auto const parent = value_of(line, "parentCID"); parent && !begins_with(*parent, "ffffffff"))
            return names_another_file("it has a parent");
        if (auto const type = value_of(line, "createType")) {
            if (*type != "monolithicSparse" && *type != "streamOptimized")
                return names_another_file("its type says that its data are in other files");
            has_type = true;
        }
        if (begins_with(line, "changeTrackPath")) return names_another_file("it has a file that tracks changes");
        if (begins_with(line, "encryption")) return invalid("it is encrypted");
        if (!is_extent(line)) continue;
        if (++extents > 1 || !is_in_this_file(line)) return names_another_file("it has an extent elsewhere");
    }
    if (!has_type || extents != 1) return invalid("its descriptor is not that of a disk in one file");
    return {};
}

}  // namespace

Result<Facts> read_vmdk(Bytes& file) {
    Header const header = TRY(read_sparse_header(file, 0));
    // QEMU takes a header without a capacity as a hint to read the descriptor, which then names the files.
    if (header.capacity == 0) return names_another_file("its header has no capacity");
    if (header.descriptor != 1) return invalid("its descriptor is not where it belongs");
    if (header.directory == directory_at_end) {
        if (file.size() < 4 * sector) return not_an_image(Format::vmdk);
        Header footer = TRY(read_sparse_header(file, file.size() - footer_from_end));
        bool const is_alike = footer.capacity == header.capacity && footer.directory != directory_at_end &&
                              (footer.descriptor == 0 || footer.descriptor == header.descriptor);
        if (!is_alike) return invalid("its header and its footer differ");
    }
    std::uint64_t const given = std::min(header.descriptor_sectors, largest_descriptor_bytes / sector) * sector;
    std::uint64_t const bytes = std::max(given, least_descriptor_bytes);
    TRY(check_descriptor(TRY(file.read(sector, std::min(bytes, file.size() - sector)))));
    if (header.capacity > largest_disk / sector) return Facts{UINT64_MAX};
    return Facts{header.capacity * sector};
}

}  // namespace triton::disk
