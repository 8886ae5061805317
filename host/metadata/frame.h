#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The metadata protocol of SmartOS, version 2: lines `V2 LENGTH CHECKSUM ID WORD[ BASE64]`, in both directions. LENGTH
/// and CHECKSUM (CRC-32 of IEEE 802.3, eight digits in hexadecimal) are those of what follows the checksum and its
/// blank. Source: "SmartOS Metadata Protocol Specification, Version 2", and the clients of Debian's
/// joyent-mdata-client.
namespace triton::metadata {

struct Frame {
    std::string id;       ///< of the request, which its response repeats
    std::string word;     ///< GET, KEYS, PUT, DELETE; SUCCESS, NOTFOUND, FAILURE
    std::string payload;  ///< decoded

    bool operator==(Frame const&) const = default;
};

/// Parses what follows "V2 ". nullopt: it is damaged.
std::optional<Frame> parse_frame(std::string_view text);
/// Returns a whole line.
std::string frame_line(Frame const& frame);

}  // namespace triton::metadata
