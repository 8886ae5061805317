#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace triton::download {

/// The authorization that a server asks for. Source: RFC 9110, section 11.6.1; distribution-spec, "token
/// authentication".
struct Challenge {
    enum class Scheme : std::uint8_t { basic, bearer };
    Scheme scheme = Scheme::basic;
    std::string realm;    ///< bearer: the URL of the token service
    std::string service;  ///< bearer
    std::string scope;    ///< bearer: what the token would be for

    bool operator==(Challenge const&) const = default;
};

/// The challenges in one header WWW-Authenticate that we can answer, in order; parameters of others are skipped. A
/// malformed element ends the list.
std::vector<Challenge> parse_challenges(std::string_view header);

}  // namespace triton::download
