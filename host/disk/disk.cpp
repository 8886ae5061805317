#include "host/disk/disk.h"

#include <algorithm>
#include <string>
#include <utility>

namespace triton::disk {

namespace {

/// What the beginning of a file says to programs that guess. Source: QEMU, block/*.c, bdrv_probe.
struct Magic {
    std::size_t offset;
    std::string_view bytes;
    std::string_view name;
};
using namespace std::string_view_literals;
constexpr std::array magics{
    Magic{0, "QFI\xfb\0\0\0\1"sv, "qcow"},
    Magic{0, "QFI\xfb"sv, "qcow2"},
    Magic{0, "KDMV"sv, "vmdk"},
    Magic{0, "COWD"sv, "vmdk"},
    Magic{0, "# Disk DescriptorFile"sv, "vmdk"},
    Magic{0, "conectix"sv, "vhd"},
    Magic{0, "vhdxfile"sv, "vhdx"},
    Magic{0, "QED\0"sv, "QED"},
    Magic{0, "LUKS\xba\xbe"sv, "LUKS"},
    Magic{0, "Bochs Virtual HD Image"sv, "Bochs"},
    Magic{0, "WithoutFreeSpace"sv, "Parallels"},
    Magic{0, "WithouFreSpacExt"sv, "Parallels"},
    Magic{0, "#!/bin/sh\n#V2.0 Format\nmodprobe cloop"sv, "cloop"},
    Magic{64, "\x7f\x10\xda\xbe"sv, "VirtualBox disk image"},
};
constexpr std::uint64_t guessed_bytes = 4096;
constexpr std::uint64_t vhd_footer_bytes = 512;

/// ISO 9660 volume descriptors begin behind 32 KiB that are free for others; UDF has its own there.
constexpr std::uint64_t iso_descriptor = 32768;
constexpr std::size_t iso_descriptor_bytes = 2048;

/// A VMDK descriptor is text, and QEMU skips comments and blank lines in front of "version=".
bool is_vmdk_text(std::string_view start) {
    while (!start.empty()) {
        std::size_t const end = std::min(start.find('\n'), start.size());
        std::string_view line = start.substr(0, end);
        start.remove_prefix(std::min(end + 1, start.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.starts_with('#')) continue;
        if (std::ranges::all_of(line, [](char c) { return c == ' '; })) continue;
        return line.starts_with("version=");
    }
    return false;
}

Result<Facts> read_plain(Bytes& file) {
    std::string_view const other = TRY(guess(file));
    if (!other.empty()) return invalid("it looks like an image of another format: " + std::string(other));
    return Facts{file.size()};
}

Result<Facts> read_iso(Bytes& file) {
    Facts const facts = TRY(read_plain(file));
    if (file.size() < iso_descriptor + iso_descriptor_bytes) return not_an_image(Format::iso);
    std::string const descriptor = TRY(file.read(iso_descriptor, iso_descriptor_bytes));
    std::string_view const name = std::string_view(descriptor).substr(1, 5);
    if (name != "CD001" && name != "BEA01") return not_an_image(Format::iso);
    return facts;
}

Result<Facts> read_by_format(Format format, Bytes& file) {
    switch (format) {
        case Format::raw: return read_plain(file);
        case Format::iso: return read_iso(file);
        case Format::qcow: return read_qcow(file);
        case Format::qcow2: return read_qcow2(file);
        case Format::vmdk: return read_vmdk(file);
        case Format::vhd: return read_vhd(file);
        case Format::vhdx: return read_vhdx(file);
    }
    std::unreachable();
}

}  // namespace

Result<Facts> read_header(Format format, Bytes& file) {
    Facts const facts = TRY(read_by_format(format, file));
    if (facts.virtual_bytes > largest_disk)
        return invalid("its header claims " + std::to_string(facts.virtual_bytes) + " bytes");
    return facts;
}

Result<std::string_view> guess(Bytes& file) {
    std::string const start = TRY(file.read(0, std::min(file.size(), guessed_bytes)));
    for (Magic const& magic : magics) {
        if (start.size() >= magic.offset && std::string_view(start).substr(magic.offset).starts_with(magic.bytes))
            return magic.name;
    }
    if (is_vmdk_text(start)) return "vmdk";
    if (file.size() < vhd_footer_bytes) return "";
    // A VHD of fixed size has all that makes it one at its end.
    std::string const end = TRY(file.read(file.size() - vhd_footer_bytes, vhd_footer_bytes));
    return end.starts_with("conectix") ? "vhd" : "";
}

std::unexpected<Error> invalid(std::string text) { return fail(ErrorKind::invalid, std::move(text)); }

std::unexpected<Error> not_an_image(Format format) {
    return invalid("it is not an image of format " + std::string(format_names[static_cast<std::size_t>(format)]));
}

std::unexpected<Error> names_another_file(std::string_view how) {
    return invalid("it names another file: " + std::string(how));
}

}  // namespace triton::disk
