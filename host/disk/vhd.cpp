// VHD, fixed and dynamic. All numbers are big-endian. Source: Microsoft, "Virtual Hard Disk Image Format
// Specification", 1.0; QEMU, block/vpc.c, for how it finds its size.

#include <algorithm>

#include "host/disk/disk.h"

namespace triton::disk {

namespace {

constexpr std::uint64_t footer_bytes = 512;
constexpr std::size_t meaningful_bytes = 85;
constexpr std::size_t dynamic_bytes = 1024;

enum Type : std::uint32_t { fixed = 2, dynamic = 3, differencing = 4 };

/// The one's complement of the sum of all bytes but those of the sum itself.
bool has_right_checksum(std::string_view bytes, std::size_t sum_at) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
        if (i < sum_at || i >= sum_at + 4) sum += static_cast<unsigned char>(bytes[i]);
    return big_at<std::uint32_t>(bytes, sum_at) == ~sum;
}

/// Programs differ in which of the two they believe, so the larger one counts.
std::uint64_t size_in(std::string_view footer) {
    std::uint64_t const cylinders = big_at<std::uint16_t>(footer, 56);
    std::uint64_t const heads = big_at<std::uint8_t>(footer, 58);
    std::uint64_t const sectors = big_at<std::uint8_t>(footer, 59);
    return std::max(big_at<std::uint64_t>(footer, 48), cylinders * heads * sectors * sector);
}

bool is_zero(std::string_view bytes) {
    return std::ranges::all_of(bytes, [](char c) { return c == 0; });
}

Result<> check_dynamic(Bytes& file, std::string_view footer) {
    std::string const copy = TRY(file.read(0, footer_bytes));
    if (copy.substr(0, meaningful_bytes) != footer.substr(0, meaningful_bytes))
        return invalid("its footer and the copy of it differ");
    std::string const header = TRY(file.read(big_at<std::uint64_t>(footer, 16), dynamic_bytes));
    if (!header.starts_with("cxsparse") || !has_right_checksum(header, 36)) return not_an_image(Format::vhd);
    // The parent's identity, its name, and up to eight places where to look for it.
    if (!is_zero(std::string_view(header).substr(40, 16)) || !is_zero(std::string_view(header).substr(64, 704)))
        return names_another_file("it has a parent");
    std::uint64_t const entries = big_at<std::uint32_t>(header, 28);
    std::uint64_t const table = big_at<std::uint64_t>(header, 16);
    if (table > file.size() || entries * 4 > file.size() - table)
        return invalid("its header points behind the end of the file");
    if (big_at<std::uint32_t>(header, 32) < sector) return invalid("its blocks have a size that no image has");
    return {};
}

}  // namespace

Result<Facts> read_vhd(Bytes& file) {
    if (file.size() < 2 * footer_bytes) return not_an_image(Format::vhd);
    std::string const footer = TRY(file.read(file.size() - footer_bytes, footer_bytes));
    if (!footer.starts_with("conectix") || !has_right_checksum(footer, 64)) return not_an_image(Format::vhd);
    std::uint64_t const bytes = size_in(footer);
    switch (big_at<std::uint32_t>(footer, 60)) {
        case fixed:
            // A program that looks at the beginning would find another disk there.
            if (TRY(file.read(0, 8)) == "conectix") return invalid("it has a header of another kind than its footer");
            if (big_at<std::uint64_t>(footer, 48) > file.size() - footer_bytes)
                return invalid("it is shorter than its footer says");
            return Facts{bytes};
        case dynamic: TRY(check_dynamic(file, footer)); return Facts{bytes};
        case differencing: return names_another_file("it has a parent");
        default: return invalid("its type is not known here");
    }
}

}  // namespace triton::disk
