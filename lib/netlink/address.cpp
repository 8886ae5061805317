#include "lib/netlink/address.h"

#include <algorithm>
#include <charconv>

#include <arpa/inet.h>

namespace triton::netlink {

namespace {

std::optional<std::uint8_t> byte_of(std::string_view text, int base) {
    std::uint8_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

}  // namespace

std::optional<Address> Address::parse(std::string_view text) {
    std::size_t const slash = std::min(text.find('/'), text.size());
    std::string const host(text.substr(0, slash));
    Address address;
    address.is_v6 = host.find(':') != std::string::npos;
    if (::inet_pton(address.is_v6 ? AF_INET6 : AF_INET, host.c_str(), address.bytes.data()) != 1) return std::nullopt;
    address.prefix = address.whole_prefix();
    if (slash == text.size()) return address;
    auto const prefix = byte_of(text.substr(slash + 1), 10);
    if (!prefix || *prefix > address.whole_prefix()) return std::nullopt;
    address.prefix = *prefix;
    return address;
}

std::string Address::host_text() const {
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(is_v6 ? AF_INET6 : AF_INET, bytes.data(), text.data(), text.size());
    return text.data();
}

std::string Address::text() const { return host_text() + "/" + std::to_string(prefix); }

Address Address::network() const {
    Address network = *this;
    for (std::size_t bit = prefix; bit < whole_prefix(); ++bit)
        network.bytes[bit / 8] &= static_cast<std::uint8_t>(~(0x80U >> (bit % 8)));
    return network;
}

bool Address::contains(Address const& other) const {
    Address narrowed = other;
    narrowed.prefix = prefix;
    return is_v6 == other.is_v6 && network() == narrowed.network();
}

std::optional<HardwareAddress> parse_hardware_address(std::string_view text) {
    constexpr std::size_t length = 17;
    HardwareAddress address{};
    if (text.size() != length) return std::nullopt;
    for (std::size_t i = 0; i < address.size(); ++i) {
        auto const byte = byte_of(text.substr(3 * i, 2), 16);
        bool const is_separated = i + 1 == address.size() || text[3 * i + 2] == ':';
        if (!byte || !is_separated) return std::nullopt;
        address[i] = *byte;
    }
    return address;
}

std::string text_of(HardwareAddress const& address) {
    static constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (std::uint8_t const byte : address) {
        if (!text.empty()) text += ':';
        text += digits[byte >> 4];
        text += digits[byte & 0xf];
    }
    return text;
}

Address link_local_of(HardwareAddress const& mac) {
    constexpr std::uint8_t universal_bit = 2;
    Address address{.is_v6 = true, .prefix = 64};
    address.bytes = {
        0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<std::uint8_t>(mac[0] ^ universal_bit),
        mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
    return address;
}

}  // namespace triton::netlink
