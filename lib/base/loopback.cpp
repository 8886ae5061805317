#include "lib/base/loopback.h"

#include <algorithm>

namespace triton {

bool is_loopback_host(std::string_view host) {
    std::size_t const bracket = host.starts_with('[') ? host.find(']') : 0;
    std::string_view const name = host.substr(0, host.find(':', bracket == host.npos ? 0 : bracket));
    bool const is_ipv4 = name.starts_with("127.") && std::ranges::count(name, '.') == 3 &&
                         std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
    return is_ipv4 || name == "localhost" || name == "[::1]";
}

}  // namespace triton
