#include "config/ip_list.h"

#include <array>

#include <arpa/inet.h>
#include <netinet/in.h>

namespace triton::config {

namespace {

std::string_view trim(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    std::size_t const begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

/// The family of an address; nullopt when the text is not an address. inet_pton(3) only computes and asks no resolver.
std::optional<IpFamily> family_of(std::string_view entry) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (entry.size() >= text.size()) return std::nullopt;
    entry.copy(text.data(), entry.size());
    in_addr v4{};
    if (::inet_pton(AF_INET, text.data(), &v4) == 1) return IpFamily::v4;
    in6_addr v6{};
    if (::inet_pton(AF_INET6, text.data(), &v6) != 1) return std::nullopt;
    return IN6_IS_ADDR_V4MAPPED(&v6) ? IpFamily::v4 : IpFamily::v6;
}

}  // namespace

std::optional<std::string_view> first_address(std::string_view list, IpFamily family) {
    while (true) {
        std::size_t const comma = list.find(',');
        std::string_view const entry = trim(list.substr(0, comma));
        if (family_of(entry) == family) return entry;
        if (comma == std::string_view::npos) return std::nullopt;
        list.remove_prefix(comma + 1);
    }
}

}  // namespace triton::config
