#include "host/role/unpack_messages.h"

namespace triton::role {

static std::span<Row<UnpackLimits> const> table(json::TableOf<UnpackLimits>) {
    static constexpr std::array<Row<UnpackLimits>, 6> rows{{
        required<&UnpackLimits::entries, Count>("entries"),
        required<&UnpackLimits::bytes, Count>("bytes"),
        required<&UnpackLimits::depth, Id>("depth"),
        required<&UnpackLimits::seconds, Id>("seconds"),
        required<&UnpackLimits::least_free_bytes, Count>("leastFreeBytes"),
        required<&UnpackLimits::least_free_inodes, Count>("leastFreeInodes"),
    }};
    return rows;
}

std::span<Row<Unpack> const> table(json::TableOf<Unpack>) {
    static constexpr std::array<Row<Unpack>, 4> rows{{
        required<&Unpack::compression, Name<Compression, compression_names>>("compression"),
        optional<&Unpack::diff_id, DigestText>("diffId"),
        required<&Unpack::limits, ObjectOf<UnpackLimits>>("limits"),
        required<&Unpack::applies_whiteouts, Flag>("appliesWhiteouts"),
    }};
    return rows;
}

std::span<Row<Unpacking> const> table(json::TableOf<Unpacking>) {
    static constexpr std::array<Row<Unpacking>, 3> rows{{
        required<&Unpacking::read, Count>("read"),
        required<&Unpacking::entries, Count>("entries"),
        required<&Unpacking::bytes, Count>("bytes"),
    }};
    return rows;
}

std::span<Row<Unpacked> const> table(json::TableOf<Unpacked>) {
    static constexpr std::array<Row<Unpacked>, 6> rows{{
        required<&Unpacked::entries, Count>("entries"),
        required<&Unpacked::bytes, Count>("bytes"),
        required<&Unpacked::diff_id, DigestText>("diffId"),
        required<&Unpacked::skipped_devices, Count>("skippedDevices"),
        required<&Unpacked::skipped_attributes, Count>("skippedAttributes"),
        required<&Unpacked::has_whiteout_names, Flag>("hasWhiteoutNames"),
    }};
    return rows;
}

std::span<Row<ConvertDisk> const> table(json::TableOf<ConvertDisk>) {
    static constexpr std::array<Row<ConvertDisk>, 3> rows{{
        required<&ConvertDisk::format, Name<disk::Format, disk::format_names>>("format"),
        required<&ConvertDisk::bytes, Count>("bytes"),
        required<&ConvertDisk::seconds, Id>("seconds"),
    }};
    return rows;
}

std::span<Row<ResizeDisk> const> table(json::TableOf<ResizeDisk>) {
    static constexpr std::array<Row<ResizeDisk>, 2> rows{{
        required<&ResizeDisk::format, Name<disk::Format, disk::format_names>>("format"),
        required<&ResizeDisk::bytes, Count>("bytes"),
    }};
    return rows;
}

std::span<Row<MakeSeed> const> table(json::TableOf<MakeSeed>) {
    static constexpr std::array<Row<MakeSeed>, 1> rows{{required<&MakeSeed::meta_data, String>("metaData")}};
    return rows;
}

std::span<Row<Produced> const> table(json::TableOf<Produced>) {
    static constexpr std::array<Row<Produced>, 1> rows{{required<&Produced::bytes, Count>("bytes")}};
    return rows;
}

}  // namespace triton::role
