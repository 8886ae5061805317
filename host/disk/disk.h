#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "host/disk/bytes.h"
#include "lib/base/result.h"

namespace triton::disk {

/// A format of disk images.
enum class Format : std::uint8_t { raw, iso, qcow, qcow2, vmdk, vhd, vhdx };
inline constexpr std::array<std::string_view, 7> format_names{"raw", "iso", "qcow", "qcow2", "vmdk", "vhd", "vhdx"};

/// What a header says.
struct Facts {
    std::uint64_t virtual_bytes = 0;  ///< the size of the disk that a machine would see
};

/// No disk is larger.
inline constexpr std::uint64_t largest_disk = std::uint64_t{1} << 60;

/// Reads the header of a disk image and checks that using the image as `format` opens no other file and needs no key:
/// there is no backing file, data file, parent or extent elsewhere, the format's own encryption is not used, and no
/// journal would change the header later. Raw content must not begin like an image of another format, because programs
/// that guess the format would take it for one.
/// Errors: `invalid`, which says what is wrong: "it names another file: it has a backing file"; those of Bytes.
Result<Facts> read_header(Format format, Bytes& file);

/// The format that the content looks like, by its first and last bytes: "qcow2", "LUKS", "VirtualBox disk image";
/// empty: none that programs would recognize as an image. An ISO image is none.
Result<std::string_view> guess(Bytes& file);

// One for each format with a header, called by read_header().
Result<Facts> read_qcow(Bytes& file);
Result<Facts> read_qcow2(Bytes& file);
Result<Facts> read_vmdk(Bytes& file);
Result<Facts> read_vhd(Bytes& file);
Result<Facts> read_vhdx(Bytes& file);

/// Of the formats that count in sectors.
inline constexpr std::uint64_t sector = 512;

/// Errors: `invalid`.
std::unexpected<Error> invalid(std::string text);
/// Errors: `invalid`: "it is not a qcow2 image".
std::unexpected<Error> not_an_image(Format format);
/// Errors: `invalid`: "it names another file: ...".
std::unexpected<Error> names_another_file(std::string_view how);

}  // namespace triton::disk
