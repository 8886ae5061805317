// VHDX. All numbers are little-endian. Source: Microsoft, [MS-VHDX] "Virtual Hard Disk v2 (VHDX) File Format".

#include <algorithm>
#include <string>

#include "host/disk/disk.h"

namespace triton::disk {

namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::array<std::uint64_t, 2> header_offsets{64 * kib, 128 * kib};
constexpr std::uint64_t header_bytes = 4 * kib;
constexpr std::uint64_t region_table = 192 * kib;
constexpr std::uint64_t table_bytes = 64 * kib;
constexpr std::uint32_t most_entries = 2047;
constexpr std::size_t entry_bytes = 32;
constexpr std::size_t guid_bytes = 16;
using namespace std::string_view_literals;

// As they are in the file: the first three numbers of a GUID have their low byte first.
constexpr auto metadata_region = "\x06\xa2\x7c\x8b\x90\x47\x9a\x4b\xb8\xfe\x57\x5f\x05\x0f\x88\x6e"sv;
constexpr auto allocation_region = "\x66\x77\xc2\x2d\x23\xf6\x00\x42\x9d\x64\x11\x5e\x9b\xfd\x4a\x08"sv;
constexpr auto file_parameters = "\x37\x67\xa1\xca\x36\xfa\x43\x4d\xb3\xb6\x33\xf0\xaa\x44\xe7\x6b"sv;
constexpr auto virtual_size = "\x24\x42\xa5\x2f\x1b\xcd\x76\x48\xb2\x11\x5d\xbe\xd8\x3b\xf4\xb8"sv;
constexpr auto parent_locator = "\x2d\x5f\xd3\xa8\x0b\xb3\x4d\x45\xab\xf7\xd3\xd8\x48\x34\xab\x0c"sv;
static_assert(metadata_region.size() == guid_bytes && allocation_region.size() == guid_bytes);
static_assert(file_parameters.size() == guid_bytes && virtual_size.size() == guid_bytes);
static_assert(parent_locator.size() == guid_bytes);
constexpr std::uint32_t has_parent = 1U << 1;  // of the flags of the file's parameters

/// CRC-32C, with its own four bytes taken as zero. Source: RFC 3720, appendix B.4.
bool has_right_crc(std::string_view bytes, std::size_t sum_at) {
    std::uint32_t sum = ~0U;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        sum ^= i >= sum_at && i < sum_at + 4 ? 0U : static_cast<unsigned char>(bytes[i]);
        for (int bit = 0; bit < 8; ++bit)
            sum = sum >> 1 ^ (sum & 1U ? 0x82f63b78U : 0U);
    }
    return ~sum == little_at<std::uint32_t>(bytes, sum_at);
}

/// What a journal holds is written into the file when it is opened, so it must be empty: what we read now stays.
Result<> check_journal(Bytes& file) {
    std::optional<std::uint64_t> newest;
    bool is_empty = false;
    for (std::uint64_t const offset : header_offsets) {
        std::string const header = TRY(file.read(offset, header_bytes));
        if (!header.starts_with("head") || !has_right_crc(header, 4)) continue;
        std::uint64_t const sequence = little_at<std::uint64_t>(header, 8);
        bool const has_no_journal = std::string_view(header).substr(48, guid_bytes) == std::string(guid_bytes, '\0');
        if (newest == sequence && is_empty != has_no_journal) return invalid("its two headers differ");
        if (newest && *newest > sequence) continue;
        newest = sequence;
        is_empty = has_no_journal;
    }
    if (!newest) return not_an_image(Format::vhdx);
    if (!is_empty) return invalid("it was not closed: its journal is not empty; qemu-img check -r all repairs it");
    return {};
}

struct Region {
    std::uint64_t offset;
    std::uint32_t bytes;
};

/// Where the metadata are.
Result<Region> find_metadata(Bytes& file) {
    std::string const table = TRY(file.read(region_table, table_bytes));
    if (!table.starts_with("regi") || !has_right_crc(table, 4)) return not_an_image(Format::vhdx);
    std::uint32_t const count = little_at<std::uint32_t>(table, 8);
    if (count > most_entries) return invalid("its table of regions is too long");
    std::optional<Region> metadata;
    bool has_allocation = false;
    for (std::size_t i = 0, at = 16; i < count; ++i, at += entry_bytes) {
        std::string_view const id = std::string_view(table).substr(at, guid_bytes);
        Region const region{little_at<std::uint64_t>(table, at + 16), little_at<std::uint32_t>(table, at + 24)};
        bool const is_twice = (id == metadata_region && metadata) || (id == allocation_region && has_allocation);
        if (is_twice) return invalid("it has a region twice");
        if (id == metadata_region)
            metadata = region;
        else if (id == allocation_region)
            has_allocation = true;
        else if (little_at<std::uint32_t>(table, at + 28) & 1U)
            return invalid("it needs a region that is not known here");
    }
    if (!metadata || !has_allocation) return not_an_image(Format::vhdx);
    return *metadata;
}

}  // namespace

Result<Facts> read_vhdx(Bytes& file) {
    if (file.size() < region_table + table_bytes || TRY(file.read(0, 8)) != "vhdxfile") return not_an_image(Format::vhdx);
    TRY(check_journal(file));
    Region const metadata = TRY(find_metadata(file));
    std::string const table = TRY(file.read(metadata.offset, table_bytes));
    if (!table.starts_with("metadata")) return not_an_image(Format::vhdx);
    std::uint32_t const count = little_at<std::uint16_t>(table, 10);
    if (count > most_entries) return invalid("its table of metadata is too long");
    std::optional<std::uint32_t> flags;
    std::optional<std::uint64_t> bytes;
    for (std::size_t i = 0, at = entry_bytes; i < count; ++i, at += entry_bytes) {
        std::string_view const id = std::string_view(table).substr(at, guid_bytes);
        std::uint32_t const offset = little_at<std::uint32_t>(table, at + 16);
        if (id == parent_locator) return names_another_file("it has a parent");
        if (id != file_parameters && id != virtual_size) continue;
        if (metadata.offset > UINT64_MAX - offset) return invalid("its header points behind the end of the file");
        std::string const value = TRY(file.read(metadata.offset + offset, 8));
        if ((id == file_parameters && flags) || (id == virtual_size && bytes))
            return invalid("it has an item of its metadata twice");
        if (id == file_parameters)
            flags = little_at<std::uint32_t>(value, 4);
        else
            bytes = little_at<std::uint64_t>(value, 0);
    }
    if (!flags || !bytes) return not_an_image(Format::vhdx);
    if (*flags & has_parent) return names_another_file("it has a parent");
    return Facts{*bytes};
}

}  // namespace triton::disk
