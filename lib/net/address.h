#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/ip/address.hpp>

namespace triton::net {

/// An IPv4 or IPv6 address, an IPv6 one perhaps with the zone that it is good in.
using Address = boost::asio::ip::address;

/// nullopt: it is not an address. "fe80::1%eth0" has a zone; brackets are not taken.
inline std::optional<Address> parse_address(std::string_view text) {
    boost::system::error_code failed;
    Address address = boost::asio::ip::make_address(std::string(text), failed);
    return failed ? std::nullopt : std::optional(std::move(address));
}

inline Address loopback_v4() { return boost::asio::ip::address_v4::loopback(); }
inline Address loopback_v6() { return boost::asio::ip::address_v6::loopback(); }

/// Of a host that was written as an address or as localhost, in the order in which they are tried. A name that means
/// both families is up when one of them is. Empty: it is neither.
inline std::vector<Address> addresses_of(std::string_view host) {
    if (host == "localhost") return {loopback_v4(), loopback_v6()};
    auto const address = parse_address(host);
    return address ? std::vector{*address} : std::vector<Address>();
}

}  // namespace triton::net
