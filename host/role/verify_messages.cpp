#include "host/role/verify_messages.h"

namespace triton::role {

namespace {

using Intervals = ListOf<ObjectOf<Interval>, most_intervals>;

}  // namespace

std::span<Row<Interval> const> table(json::TableOf<Interval>) {
    static constexpr std::array<Row<Interval>, 2> rows{{
        required<&Interval::offset, Count>("offset"),
        required<&Interval::length, Count>("length"),
    }};
    return rows;
}

static std::span<Row<Expected> const> table(json::TableOf<Expected>) {
    static constexpr std::array<Row<Expected>, 4> rows{{
        required<&Expected::maximum, Count>("maximum"),
        optional<&Expected::size, Count>("size"),
        optional<&Expected::digest, DigestText>("digest"),
        optional<&Expected::sha1, Sha1Text>("sha1"),
    }};
    return rows;
}

std::span<Row<Receive> const> table(json::TableOf<Receive>) {
    static constexpr std::array<Row<Receive>, 2> rows{{
        required<&Receive::expected, ObjectOf<Expected>>("expected"),
        required<&Receive::landed, Intervals>("landed"),
    }};
    return rows;
}

std::span<Row<Range> const> table(json::TableOf<Range>) {
    static constexpr std::array<Row<Range>, 3> rows{{
        required<&Range::id, Id>("id"),
        required<&Range::offset, Count>("offset"),
        optional<&Range::length, Count>("length"),
    }};
    return rows;
}

std::span<Row<End> const> table(json::TableOf<End>) {
    static constexpr std::array<Row<End>, 1> rows{{required<&End::size, Count>("size")}};
    return rows;
}

std::span<Row<Check> const> table(json::TableOf<Check>) {
    static constexpr std::array<Row<Check>, 1> rows{{required<&Check::expected, ObjectOf<Expected>>("expected")}};
    return rows;
}

std::span<Row<ReadDocument> const> table(json::TableOf<ReadDocument>) {
    static constexpr std::array<Row<ReadDocument>, 4> rows{{
        required<&ReadDocument::kind, Name<DocumentKind, document_kind_names>>("kind"),
        required<&ReadDocument::expected, ObjectOf<Expected>>("expected"),
        required<&ReadDocument::media_type, String>("mediaType"),
        required<&ReadDocument::most_layers, Id>("mostLayers"),
    }};
    return rows;
}

std::span<Row<CheckSignature> const> table(json::TableOf<CheckSignature>) {
    static constexpr std::array<Row<CheckSignature>, 3> rows{{
        required<&CheckSignature::kind, Name<SignatureKind, signature_kind_names>>("kind"),
        required<&CheckSignature::signed_name, String>("name"),
        required<&CheckSignature::digest, DigestText>("digest"),
    }};
    return rows;
}

std::span<Row<Landed> const> table(json::TableOf<Landed>) {
    static constexpr std::array<Row<Landed>, 2> rows{{
        required<&Landed::intervals, Intervals>("intervals"),
        required<&Landed::bytes, Count>("bytes"),
    }};
    return rows;
}

std::span<Row<RangeEnded> const> table(json::TableOf<RangeEnded>) {
    static constexpr std::array<Row<RangeEnded>, 2> rows{{
        required<&RangeEnded::id, Id>("id"),
        required<&RangeEnded::received, Count>("received"),
    }};
    return rows;
}

std::span<Row<Verified> const> table(json::TableOf<Verified>) {
    static constexpr std::array<Row<Verified>, 2> rows{{
        required<&Verified::size, Count>("size"),
        required<&Verified::digest, DigestText>("digest"),
    }};
    return rows;
}

std::span<Row<CheckedDocument> const> table(json::TableOf<CheckedDocument>) {
    static constexpr std::array<Row<CheckedDocument>, 3> rows{{
        required<&CheckedDocument::size, Count>("size"),
        required<&CheckedDocument::digest, DigestText>("digest"),
        required<&CheckedDocument::media_type, String>("mediaType"),
    }};
    return rows;
}

std::span<Row<Signed> const> table(json::TableOf<Signed>) {
    static constexpr std::array<Row<Signed>, 2> rows{{
        required<&Signed::key, String>("key"),
        required<&Signed::comment, String>("comment"),
    }};
    return rows;
}

std::span<Row<ReadDisk> const> table(json::TableOf<ReadDisk>) {
    static constexpr std::array<Row<ReadDisk>, 1> rows{{
        required<&ReadDisk::format, Name<disk::Format, disk::format_names>>("format"),
    }};
    return rows;
}

std::span<Row<CheckedDisk> const> table(json::TableOf<CheckedDisk>) {
    static constexpr std::array<Row<CheckedDisk>, 1> rows{{
        required<&CheckedDisk::virtual_bytes, Count>("virtualBytes"),
    }};
    return rows;
}

}  // namespace triton::role
