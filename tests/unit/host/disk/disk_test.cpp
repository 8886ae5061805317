#include "host/disk/disk.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

namespace triton::disk {
namespace {

/// An image in memory.
class Image final : public Bytes {
public:
    explicit Image(std::size_t size) : bytes_(size, '\0') {}
    [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
    Result<std::string> read_within(std::uint64_t offset, std::size_t length) override {
        EXPECT_LE(offset, bytes_.size());
        EXPECT_LE(length, bytes_.size() - offset);
        return bytes_.substr(offset, length);
    }

    Image& put(std::size_t at, std::string_view text) {
        bytes_.replace(at, text.size(), text);
        return *this;
    }
    template <std::unsigned_integral Number>
    Image& big(std::size_t at, Number number) {
        if constexpr (std::endian::native == std::endian::little) number = std::byteswap(number);
        std::memcpy(bytes_.data() + at, &number, sizeof number);
        return *this;
    }
    template <std::unsigned_integral Number>
    Image& little(std::size_t at, Number number) {
        if constexpr (std::endian::native == std::endian::big) number = std::byteswap(number);
        std::memcpy(bytes_.data() + at, &number, sizeof number);
        return *this;
    }
    [[nodiscard]] std::string_view bytes() const { return bytes_; }

private:
    std::string bytes_;
};

constexpr std::uint64_t mebibyte = 1 << 20;

std::string problem(Format format, Image& image) {
    auto const facts = read_header(format, image);
    if (facts) return "none: " + std::to_string(facts->virtual_bytes);
    EXPECT_EQ(facts.error().kind, ErrorKind::invalid);
    return facts.error().text();
}
std::string problem(Format format, Image&& image) { return problem(format, image); }

Image qcow2(std::uint32_t version = 3) {
    Image image(196608 + 65536);
    image.put(0, "QFI\xfb").big<std::uint32_t>(4, version).big<std::uint32_t>(20, 16).big<std::uint64_t>(24, mebibyte);
    image.big<std::uint32_t>(36, 1).big<std::uint64_t>(40, 196608);
    if (version == 3) image.big<std::uint32_t>(100, 104);
    return image;
}

TEST(Disk, Qcow2) {
    EXPECT_EQ(problem(Format::qcow2, qcow2()), "none: 1048576");
    EXPECT_EQ(problem(Format::qcow2, qcow2(2)), "none: 1048576");
    EXPECT_EQ(problem(Format::qcow2, qcow2(4)), "it is not an image of format qcow2");
    EXPECT_EQ(problem(Format::qcow, qcow2()), "it is not an image of format qcow");
    EXPECT_EQ(problem(Format::raw, qcow2()), "it looks like an image of another format: qcow2");
    EXPECT_EQ(problem(Format::qcow2, qcow2().big<std::uint64_t>(8, 512)),
              "it names another file: it has a backing file");
    EXPECT_EQ(problem(Format::qcow2, qcow2().big<std::uint32_t>(16, 11)),
              "it names another file: it has a backing file");
    EXPECT_EQ(problem(Format::qcow2, qcow2().big<std::uint32_t>(32, 1)), "it is encrypted");
    EXPECT_EQ(problem(Format::qcow2, qcow2().big<std::uint64_t>(72, 4)),
              "it names another file: it has an external data file");
    EXPECT_EQ(problem(Format::qcow2, qcow2().big<std::uint64_t>(72, 2)), "it is marked as corrupt");
    EXPECT_EQ(problem(Format::qcow2, qcow2().big<std::uint64_t>(72, 1ULL << 63)),
              "it needs features that are not known here");
    EXPECT_EQ(problem(Format::qcow2, qcow2().big<std::uint32_t>(20, 63)), "its clusters have a size that no image has");
    EXPECT_EQ(problem(Format::qcow2, qcow2().big<std::uint64_t>(24, 1ULL << 63)),
              "its header claims 9223372036854775808 bytes");
    EXPECT_EQ(problem(Format::qcow2, qcow2().big<std::uint64_t>(40, UINT64_MAX - 7)),
              "its header points behind the end of the file");
    EXPECT_EQ(problem(Format::qcow2, qcow2().big<std::uint32_t>(36, UINT32_MAX)),
              "its header points behind the end of the file");
    EXPECT_EQ(problem(Format::qcow2, qcow2().big<std::uint32_t>(100, UINT32_MAX)), "its header is too large");
}

TEST(Disk, Qcow2Extensions) {
    auto const with = [](std::uint32_t type, std::uint32_t length) {
        return qcow2().big<std::uint32_t>(104, type).big<std::uint32_t>(108, length);
    };
    EXPECT_EQ(problem(Format::qcow2, with(0x6803f857, 144)), "none: 1048576");  // names of features
    EXPECT_EQ(problem(Format::qcow2, with(0x44415441, 8)), "it names another file: it has an external data file");
    EXPECT_EQ(problem(Format::qcow2, with(0x0537be77, 16)), "it is encrypted");
    EXPECT_EQ(problem(Format::qcow2, with(0x6803f857, UINT32_MAX)), "an extension of its header is too long");
    // The second one counts, too, and where it begins is a multiple of eight.
    EXPECT_EQ(problem(Format::qcow2, with(0x6803f857, 5).big<std::uint32_t>(120, 0x44415441)),
              "it names another file: it has an external data file");
}

TEST(Disk, Qcow) {
    auto const image = [] {
        return Image(4096)
            .put(0, "QFI\xfb")
            .big<std::uint32_t>(4, 1)
            .big<std::uint64_t>(24, mebibyte)
            .put(32, "\x0c\x09")
            .big<std::uint64_t>(40, 48);
    };
    EXPECT_EQ(problem(Format::qcow, image()), "none: 1048576");
    EXPECT_EQ(problem(Format::qcow, image().big<std::uint64_t>(8, 48)), "it names another file: it has a backing file");
    EXPECT_EQ(problem(Format::qcow, image().big<std::uint32_t>(36, 1)), "it is encrypted");
    EXPECT_EQ(problem(Format::qcow, image().big<std::uint64_t>(24, 1ULL << 63)),
              "its header claims 9223372036854775808 bytes");
    EXPECT_EQ(problem(Format::qcow, image().big<std::uint64_t>(24, 1ULL << 60)),
              "its header points behind the end of the file");
    EXPECT_EQ(problem(Format::qcow, image().put(32, "\xff")), "its clusters have a size that no image has");
    EXPECT_EQ(problem(Format::raw, image()), "it looks like an image of another format: qcow");
}

constexpr std::string_view one_extent =
    "# Disk DescriptorFile\nversion=1\nparentCID=ffffffff\ncreateType=\"monolithicSparse\"\n"
    "RW 2048 SPARSE \"disk.vmdk\"\n";

Image vmdk(std::string_view descriptor = one_extent) {
    Image image(65536);
    image.put(0, "KDMV").little<std::uint32_t>(4, 1).little<std::uint64_t>(12, 2048).little<std::uint64_t>(20, 128);
    image.little<std::uint64_t>(28, 1).little<std::uint64_t>(36, 20).little<std::uint32_t>(44, 512);
    image.little<std::uint64_t>(56, 30).put(512, descriptor);
    return image;
}

TEST(Disk, Vmdk) {
    EXPECT_EQ(problem(Format::vmdk, vmdk()), "none: 1048576");
    EXPECT_EQ(problem(Format::raw, vmdk()), "it looks like an image of another format: vmdk");
    EXPECT_EQ(problem(Format::vmdk, vmdk().little<std::uint64_t>(12, 0)),
              "it names another file: its header has no capacity");
    EXPECT_EQ(problem(Format::vmdk, vmdk().little<std::uint64_t>(12, UINT64_MAX)),
              "its header claims 18446744073709551615 bytes");
    EXPECT_EQ(problem(Format::vmdk, vmdk().little<std::uint64_t>(28, 2)), "its descriptor is not where it belongs");
    EXPECT_EQ(problem(Format::vmdk, vmdk().little<std::uint64_t>(20, 0)), "its header makes no sense");
    // Text alone is a list of files.
    EXPECT_EQ(problem(Format::vmdk, Image(4096).put(0, one_extent)), "it is not an image of format vmdk");
    EXPECT_EQ(problem(Format::raw, Image(4096).put(0, "#\n \n#x\nversion=1\n")),
              "it looks like an image of another format: vmdk");
}

TEST(Disk, VmdkDescriptor) {
    std::string const start(one_extent);
    auto const with = [&start](std::string_view more) {
        return problem(Format::vmdk, vmdk(start + std::string(more)));
    };
    EXPECT_EQ(with("parentFileNameHint=\"/etc/shadow\"\n"), "it names another file: it has a parent");
    EXPECT_EQ(with(std::string_view("\0PARENTfilenamehint", 20)), "it names another file: it has a parent");
    EXPECT_EQ(with("RW 8 FLAT \"/etc/shadow\" 0\n"), "it names another file: it has an extent elsewhere");
    EXPECT_EQ(with("RW 8 SPARSE \"other.vmdk\"\n"), "it names another file: it has an extent elsewhere");
    EXPECT_EQ(with("changeTrackPath=\"x\"\n"), "it names another file: it has a file that tracks changes");
    auto const instead = [&start](std::string_view old, std::string_view now) {
        std::string text = start;
        text.replace(text.find(old), old.size(), now);
        return problem(Format::vmdk, vmdk(text));
    };
    EXPECT_EQ(instead("\"disk.vmdk\"", "\"/disk.vmdk\""), "it names another file: it has an extent elsewhere");
    EXPECT_EQ(instead("SPARSE", "VMFS"), "it names another file: it has an extent elsewhere");
    EXPECT_EQ(instead("RW 2048 SPARSE", "# "), "its descriptor is not that of a disk in one file");
    EXPECT_EQ(instead("ffffffff", "12345678"), "it names another file: it has a parent");
    EXPECT_EQ(instead("monolithicSparse", "twoGbMaxExtentSparse"),
              "it names another file: its type says that its data are in other files");
    EXPECT_EQ(instead("monolithicSparse", "streamOptimized"), "none: 1048576");
}

TEST(Disk, VmdkFooter) {
    auto const image = [] {
        Image made = vmdk().little<std::uint64_t>(56, UINT64_MAX);
        return made.put(65536 - 1024, std::string(vmdk().bytes().substr(0, 512)));
    };
    EXPECT_EQ(problem(Format::vmdk, image()), "none: 1048576");
    EXPECT_EQ(problem(Format::vmdk, image().little<std::uint64_t>(65536 - 1024 + 12, 0)),
              "its header and its footer differ");
    EXPECT_EQ(problem(Format::vmdk, image().little<std::uint64_t>(65536 - 1024 + 28, 9)),
              "its header and its footer differ");
    EXPECT_EQ(problem(Format::vmdk, image().put(65536 - 1024, "X")), "it is not an image of format vmdk");
}

Image& sum_vhd(Image& image, std::size_t begin, std::size_t length, std::size_t sum_at) {
    image.big<std::uint32_t>(begin + sum_at, 0);
    std::uint32_t sum = 0;
    for (char const c : image.bytes().substr(begin, length))
        sum += static_cast<unsigned char>(c);
    return image.big<std::uint32_t>(begin + sum_at, ~sum);
}

void put_footer(Image& image, std::size_t at, std::uint32_t type, std::uint64_t bytes) {
    image.put(at, "conectix").big<std::uint64_t>(at + 16, 512).big<std::uint64_t>(at + 48, bytes);
    sum_vhd(image.big<std::uint32_t>(at + 60, type), at, 512, 64);
}

Image dynamic_vhd(std::uint32_t type = 3) {
    Image image(4096);
    put_footer(image, 0, type, mebibyte);
    put_footer(image, 4096 - 512, type, mebibyte);
    image.put(512, "cxsparse").big<std::uint64_t>(512 + 16, 1536).big<std::uint32_t>(512 + 28, 1);
    image.big<std::uint32_t>(512 + 32, 2 << 20);
    return std::move(sum_vhd(image, 512, 1024, 36));
}

TEST(Disk, Vhd) {
    Image fixed(mebibyte + 512);
    put_footer(fixed, mebibyte, 2, mebibyte);
    EXPECT_EQ(problem(Format::vhd, fixed), "none: 1048576");
    EXPECT_EQ(problem(Format::raw, fixed), "it looks like an image of another format: vhd");
    fixed.put(0, "conectix");
    EXPECT_EQ(problem(Format::vhd, fixed), "it has a header of another kind than its footer");
    Image shorter(mebibyte);
    put_footer(shorter, mebibyte - 512, 2, mebibyte);
    EXPECT_EQ(problem(Format::vhd, shorter), "it is shorter than its footer says");

    EXPECT_EQ(problem(Format::vhd, dynamic_vhd()), "none: 1048576");
    EXPECT_EQ(problem(Format::vhd, dynamic_vhd(4)), "it names another file: it has a parent");
    EXPECT_EQ(problem(Format::vhd, dynamic_vhd(7)), "its type is not known here");
    EXPECT_EQ(problem(Format::vhd, dynamic_vhd().put(20, "x")), "its footer and the copy of it differ");
    EXPECT_EQ(problem(Format::vhd, dynamic_vhd().put(4096 - 500, "x")), "it is not an image of format vhd");
    for (std::size_t const at : {40U, 64U, 767U}) {
        Image image = dynamic_vhd().put(512 + at, "x");
        EXPECT_EQ(problem(Format::vhd, sum_vhd(image, 512, 1024, 36)), "it names another file: it has a parent");
    }
    // The larger of the two sizes that a footer has.
    Image image(4096);
    put_footer(image, 4096 - 512, 3, 0);
    image.put(4096 - 512 + 56, "\xff\xff\x10\xff");
    sum_vhd(image, 4096 - 512, 512, 64);
    image.put(0, std::string(image.bytes().substr(4096 - 512)))
        .put(512, std::string(dynamic_vhd().bytes().substr(512, 1024)));
    EXPECT_EQ(problem(Format::vhd, image), "none: 136899993600");
}

void sum_vhdx(Image& image, std::size_t begin, std::size_t length) {
    image.little<std::uint32_t>(begin + 4, 0);
    std::uint32_t sum = ~0U;
    for (char const c : image.bytes().substr(begin, length)) {
        sum ^= static_cast<unsigned char>(c);
        for (int bit = 0; bit < 8; ++bit)
            sum = sum >> 1 ^ (sum & 1U ? 0x82f63b78U : 0U);
    }
    image.little<std::uint32_t>(begin + 4, ~sum);
}

struct Vhdx {
    std::uint32_t flags = 0;
    std::uint64_t bytes = mebibyte;
    bool has_locator = false;
    std::string_view journal = "";
    std::uint32_t regions = 2;
    std::uint64_t metadata = 2 << 20;
};
Image vhdx(Vhdx const& wanted = {}) {
    static constexpr std::size_t kib = 1024;
    using namespace std::string_view_literals;
    Image image(3 << 20);
    image.put(0, "vhdxfile");
    for (std::size_t const at : {64 * kib, 128 * kib}) {
        image.put(at, "head").little<std::uint64_t>(at + 8, at).put(at + 48, at == 128 * kib ? wanted.journal : "");
        sum_vhdx(image, at, 4 * kib);
    }
    std::size_t const table = 192 * kib;
    image.put(table, "regi").little<std::uint32_t>(table + 8, wanted.regions);
    image.put(table + 16, "\x66\x77\xc2\x2d\x23\xf6\x00\x42\x9d\x64\x11\x5e\x9b\xfd\x4a\x08"sv);
    image.put(table + 48, "\x06\xa2\x7c\x8b\x90\x47\x9a\x4b\xb8\xfe\x57\x5f\x05\x0f\x88\x6e"sv);
    image.little<std::uint64_t>(table + 64, wanted.metadata).little<std::uint32_t>(table + 72, 1 << 20);
    sum_vhdx(image, table, 64 * kib);
    std::size_t const items = 2 << 20;
    image.put(items, "metadata").little<std::uint16_t>(items + 10, wanted.has_locator ? 3 : 2);
    image.put(items + 32, "\x37\x67\xa1\xca\x36\xfa\x43\x4d\xb3\xb6\x33\xf0\xaa\x44\xe7\x6b"sv);
    image.little<std::uint32_t>(items + 48, 64 * kib).little<std::uint32_t>(items + 64 * kib + 4, wanted.flags);
    image.put(items + 64, "\x24\x42\xa5\x2f\x1b\xcd\x76\x48\xb2\x11\x5d\xbe\xd8\x3b\xf4\xb8"sv);
    image.little<std::uint32_t>(items + 80, 64 * kib + 8).little<std::uint64_t>(items + 64 * kib + 8, wanted.bytes);
    if (wanted.has_locator) image.put(items + 96, "\x2d\x5f\xd3\xa8\x0b\xb3\x4d\x45\xab\xf7\xd3\xd8\x48\x34\xab\x0c"sv);
    return image;
}

TEST(Disk, Vhdx) {
    EXPECT_EQ(problem(Format::vhdx, vhdx()), "none: 1048576");
    EXPECT_EQ(problem(Format::raw, vhdx()), "it looks like an image of another format: vhdx");
    EXPECT_EQ(problem(Format::vhdx, vhdx({.flags = 2})), "it names another file: it has a parent");
    EXPECT_EQ(problem(Format::vhdx, vhdx({.has_locator = true})), "it names another file: it has a parent");
    EXPECT_EQ(problem(Format::vhdx, vhdx({.bytes = UINT64_MAX})), "its header claims 18446744073709551615 bytes");
    EXPECT_EQ(problem(Format::vhdx, vhdx({.journal = "x"})),
              "it was not closed: its journal is not empty; qemu-img check -r all repairs it");
    EXPECT_EQ(problem(Format::vhdx, vhdx({.regions = 1})), "it is not an image of format vhdx");
    EXPECT_EQ(problem(Format::vhdx, vhdx({.regions = UINT32_MAX})), "its table of regions is too long");
    EXPECT_EQ(problem(Format::vhdx, vhdx({.metadata = UINT64_MAX - 1})),
              "its header points behind the end of the file");
    EXPECT_EQ(problem(Format::vhdx, vhdx().little<std::uint16_t>((2 << 20) + 10, 65535)),
              "its table of metadata is too long");
    // A header with a wrong sum does not count, so that the older one does.
    EXPECT_EQ(problem(Format::vhdx, vhdx({.journal = "x"}).put(128 * 1024 + 100, "x")), "none: 1048576");
    EXPECT_EQ(problem(Format::vhdx, vhdx().put(192 * 1024 + 5000, "x")), "it is not an image of format vhdx");
}

TEST(Disk, WithoutAHeader) {
    EXPECT_EQ(problem(Format::raw, Image(0)), "none: 0");
    EXPECT_EQ(problem(Format::raw, Image(100)), "none: 100");
    EXPECT_EQ(problem(Format::raw, Image(4096).put(0, "LUKS\xba\xbe")),
              "it looks like an image of another format: LUKS");
    EXPECT_EQ(problem(Format::raw, Image(4096).put(64, "\x7f\x10\xda\xbe")),
              "it looks like an image of another format: VirtualBox disk image");
    Image iso(40960);
    EXPECT_EQ(problem(Format::iso, iso), "it is not an image of format iso");
    EXPECT_EQ(problem(Format::iso, Image(34000)), "it is not an image of format iso");
    iso.put(32768, "\1CD001");
    EXPECT_EQ(problem(Format::iso, iso), "none: 40960");
    EXPECT_EQ(problem(Format::raw, iso), "none: 40960");
    EXPECT_EQ(problem(Format::iso, iso.put(0, "QFI\xfb")), "it looks like an image of another format: qcow2");
    for (Format const format : {Format::qcow, Format::qcow2, Format::vmdk, Format::vhd, Format::vhdx})
        EXPECT_EQ(problem(format, Image(0)),
                  "it is not an image of format " + std::string(format_names[static_cast<std::size_t>(format)]));
}

}  // namespace
}  // namespace triton::disk
