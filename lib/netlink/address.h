#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace triton::netlink {

/// An IP address with the length of its network's prefix.
struct Address {
    bool is_v6 = false;
    std::uint8_t prefix = 0;
    std::array<std::uint8_t, 16> bytes = {};  ///< the first four of an IPv4 address

    /// "10.0.0.7/24", "fe80::1/64"; without a slash the whole address. nullopt: it is neither.
    static std::optional<Address> parse(std::string_view text);

    [[nodiscard]] std::span<std::uint8_t const> octets() const { return {bytes.data(), is_v6 ? 16U : 4U}; }
    [[nodiscard]] std::uint8_t whole_prefix() const { return is_v6 ? 128 : 32; }
    /// Without the prefix.
    [[nodiscard]] std::string host_text() const;
    [[nodiscard]] std::string text() const;
    /// The network: the bits after the prefix are zero.
    [[nodiscard]] Address network() const;
    /// Whether `other` is of the same network.
    [[nodiscard]] bool contains(Address const& other) const;

    bool operator==(Address const&) const = default;
};

using HardwareAddress = std::array<std::uint8_t, 6>;

/// "02:08:20:0a:0b:0c"; nullopt: it is not six pairs of hexadecimal digits.
std::optional<HardwareAddress> parse_hardware_address(std::string_view text);
std::string text_of(HardwareAddress const& address);

/// The address that a link of this hardware address gives itself. Source: RFC 4291, appendix A.
Address link_local_of(HardwareAddress const& address);

}  // namespace triton::netlink
