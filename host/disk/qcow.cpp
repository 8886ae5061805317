// QCOW, versions 1 to 3. Source: QEMU, docs/interop/qcow2.txt, and block/qcow.c for version 1. All numbers are
// big-endian.

#include "host/disk/disk.h"

namespace triton::disk {

namespace {

constexpr std::string_view magic = "QFI\xfb";
constexpr std::size_t size_of_version_1 = 48;
constexpr std::size_t size_of_version_2 = 72;
constexpr std::size_t size_of_version_3 = 104;
constexpr std::uint64_t largest_table = std::uint64_t{1} << 40;

enum Incompatible : std::uint64_t {
    dirty = 1U << 0,
    corrupt = 1U << 1,
    external_data = 1U << 2,
    compression_type = 1U << 3,
    extended_l2 = 1U << 4,
};
constexpr std::uint64_t known_features = dirty | corrupt | external_data | compression_type | extended_l2;

enum Extension : std::uint32_t {
    end_of_extensions = 0,
    backing_format = 0xe2792aca,
    external_data_name = 0x44415441,
    encryption_header = 0x0537be77,
};

Result<std::string> read_start(Format format, Bytes& file, std::size_t length, std::uint32_t least,
                               std::uint32_t most) {
    if (file.size() < length) return not_an_image(format);
    std::string header = TRY(file.read(0, length));
    std::uint32_t const version = big_at<std::uint32_t>(header, 4);
    if (!header.starts_with(magic) || version < least || version > most) return not_an_image(format);
    return header;
}

/// Where the table of the first level is must be within the file, up to the end of its last cluster.
Result<> check_table(std::uint64_t offset, std::uint64_t bytes, std::uint64_t cluster, std::uint64_t file_bytes) {
    std::uint64_t const end = (file_bytes / cluster + 1) * cluster;
    if (offset > end || bytes > end - offset) return invalid("its header points behind the end of the file");
    return {};
}

/// Header extensions follow the header, up to the end of the first cluster.
Result<> check_extensions(Bytes& file, std::uint64_t begin, std::uint64_t cluster) {
    std::uint64_t const end = std::min(cluster, file.size());
    if (begin >= end) return {};
    std::string const area = TRY(file.read(begin, end - begin));
    std::size_t at = 0;
    while (area.size() - at >= 8) {
        std::uint32_t const type = big_at<std::uint32_t>(area, at);
        std::uint32_t const length = big_at<std::uint32_t>(area, at + 4);
        at += 8;
        if (type == end_of_extensions) return {};
        if (type == external_data_name) return names_another_file("it has an external data file");
        if (type == backing_format) return names_another_file("it has the format of a backing file");
        if (type == encryption_header) return invalid("it is encrypted");
        if (length > area.size() - at) return invalid("an extension of its header is too long");
        at += length;
        at += std::min<std::size_t>((8 - length % 8) % 8, area.size() - at);
    }
    return {};
}

Result<> check_features(std::uint64_t features) {
    if (features & external_data) return names_another_file("it has an external data file");
    if (features & corrupt) return invalid("it is marked as corrupt");
    if (features & ~known_features) return invalid("it needs features that are not known here");
    return {};
}

}  // namespace

Result<Facts> read_qcow(Bytes& file) {
    std::string const header = TRY(read_start(Format::qcow, file, size_of_version_1, 1, 1));
    if (big_at<std::uint64_t>(header, 8) != 0 || big_at<std::uint32_t>(header, 16) != 0)
        return names_another_file("it has a backing file");
    auto const cluster_bits = big_at<std::uint8_t>(header, 32);
    auto const table_bits = big_at<std::uint8_t>(header, 33);
    if (cluster_bits < 9 || cluster_bits > 16 || table_bits < 6 || table_bits > 13)
        return invalid("its clusters have a size that no image has");
    if (big_at<std::uint32_t>(header, 36) != 0) return invalid("it is encrypted");
    std::uint64_t const bytes = big_at<std::uint64_t>(header, 24);
    if (bytes > largest_disk) return Facts{bytes};
    std::uint64_t const reach = std::uint64_t{1} << (cluster_bits + table_bits);  // of one entry of the first level
    TRY(check_table(big_at<std::uint64_t>(header, 40), (bytes / reach + (bytes % reach != 0 ? 1 : 0)) * 8,
                    std::uint64_t{1} << cluster_bits, file.size()));
    return Facts{bytes};
}

Result<Facts> read_qcow2(Bytes& file) {
    std::string header = TRY(read_start(Format::qcow2, file, size_of_version_2, 2, 3));
    bool const is_version_3 = big_at<std::uint32_t>(header, 4) == 3;
    if (big_at<std::uint64_t>(header, 8) != 0 || big_at<std::uint32_t>(header, 16) != 0)
        return names_another_file("it has a backing file");
    if (big_at<std::uint32_t>(header, 32) != 0) return invalid("it is encrypted");
    std::uint32_t const cluster_bits = big_at<std::uint32_t>(header, 20);
    if (cluster_bits < 9 || cluster_bits > 21) return invalid("its clusters have a size that no image has");
    std::uint64_t const cluster = std::uint64_t{1} << cluster_bits;
    std::uint64_t header_bytes = size_of_version_2;
    if (is_version_3) {
        header = TRY(read_start(Format::qcow2, file, size_of_version_3, 3, 3));
        TRY(check_features(big_at<std::uint64_t>(header, 72)));
        header_bytes = big_at<std::uint32_t>(header, 100);
        if (header_bytes < size_of_version_3 || header_bytes > cluster) return invalid("its header is too large");
    }
    TRY(check_extensions(file, header_bytes, cluster));
    std::uint64_t const entries = big_at<std::uint32_t>(header, 36);
    static_assert(std::uint64_t{UINT32_MAX} * 8 < largest_table);  // so that nothing below overflows
    TRY(check_table(big_at<std::uint64_t>(header, 40), entries * 8, cluster, file.size()));
    return Facts{big_at<std::uint64_t>(header, 24)};
}

}  // namespace triton::disk
