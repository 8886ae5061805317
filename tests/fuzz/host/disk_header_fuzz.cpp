// Whatever comes as a disk image: no crash, no read outside of it, and what is accepted names no other file.
//
// Input: a byte for the format, the size as four bytes in units of 256 bytes, then pieces: an offset in such units
// (four bytes), a length (two bytes), and the bytes. So a small input is a file with holes, as images are. All low byte
// first.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "host/disk/disk.h"

namespace {

using namespace triton;

void require(bool holds) {
    if (!holds) std::abort();
}

constexpr std::size_t unit = 256;
constexpr std::size_t largest_file = 4 << 20;

class Input {
public:
    Input(std::uint8_t const* data, std::size_t size) : rest_(reinterpret_cast<char const*>(data), size) {}
    std::size_t number(std::size_t bytes) {
        std::size_t number = 0;
        for (std::size_t i = 0; i < bytes; ++i)
            number |= static_cast<std::size_t>(i < rest_.size() ? static_cast<unsigned char>(rest_[i]) : 0) << 8 * i;
        rest_.remove_prefix(std::min(bytes, rest_.size()));
        return number;
    }
    std::string_view take(std::size_t bytes) {
        std::string_view const taken = rest_.substr(0, bytes);
        rest_.remove_prefix(taken.size());
        return taken;
    }
    [[nodiscard]] bool is_empty() const { return rest_.empty(); }

private:
    std::string_view rest_;
};

class Image final : public disk::Bytes {
public:
    explicit Image(Input& input) : bytes_(std::min(input.number(4) * unit, largest_file), '\0') {
        while (!input.is_empty()) {
            std::size_t const at = input.number(4) * unit;
            std::string_view const piece = input.take(input.number(2));
            if (at < bytes_.size())
                std::memcpy(bytes_.data() + at, piece.data(), std::min(piece.size(), bytes_.size() - at));
        }
    }
    [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
    Result<std::string> read_within(std::uint64_t offset, std::size_t length) override {
        require(offset <= bytes_.size() && length <= bytes_.size() - offset);
        return bytes_.substr(offset, length);
    }
    [[nodiscard]] std::string_view bytes() const { return bytes_; }

private:
    std::string bytes_;
};

bool is_zero(std::string_view bytes) {
    return std::ranges::all_of(bytes, [](char c) { return c == 0; });
}

/// What must hold for an accepted image, found by other means than the parser's.
void check(disk::Format format, Image& image) {
    std::string_view const bytes = image.bytes();
    switch (format) {
        case disk::Format::raw:
        case disk::Format::iso: require(disk::guess(image)->empty()); break;
        case disk::Format::qcow:
        case disk::Format::qcow2: require(bytes.starts_with("QFI\xfb") && is_zero(bytes.substr(8, 12))); break;
        case disk::Format::vmdk:
            require(bytes.starts_with("KDMV") && !bytes.substr(512, 10240).contains("parentFileNameHint"));
            break;
        case disk::Format::vhd: require(bytes.substr(bytes.size() - 512).starts_with("conectix")); break;
        case disk::Format::vhdx: require(bytes.starts_with("vhdxfile")); break;
    }
}

int run(std::uint8_t const* data, std::size_t size) {
    Input input(data, size);
    auto const format = static_cast<disk::Format>(input.number(1) % disk::format_names.size());
    Image image(input);
    auto const facts = disk::read_header(format, image);
    if (!facts) {
        require(facts.error().kind == ErrorKind::invalid && !facts.error().text().empty());
        return 0;
    }
    require(facts->virtual_bytes <= disk::largest_disk);
    check(format, image);
    return 0;
}

}  // namespace

extern "C" int disk_header_fuzz(std::uint8_t const* data, std::size_t size) { return run(data, size); }

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    return disk_header_fuzz(data, size);
}
#endif
