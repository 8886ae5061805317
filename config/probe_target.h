#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace triton::config {

/// Where a probe over the network goes. Borrowed from the text that it was read from.
struct ProbeTarget {
    std::string_view host = {};  ///< an IPv4 or IPv6 literal without brackets, or "localhost"
    std::uint16_t port = 0;      ///< never 0
    bool is_tls = false;         ///< URL: https
    std::string_view path = {};  ///< URL: with the query, as a request line has it; at least "/"

    bool operator==(ProbeTarget const&) const = default;
};

/// Reads HOST:PORT; an IPv6 address is in brackets. Other names than localhost are refused: no resolver is asked.
/// Does not allocate unless it fails. Errors: ready to be shown behind the place: "\"localhost\" has no port",
/// "\"70000\" is not a port from 1 to 65535".
std::expected<ProbeTarget, std::string> parse_probe_address(std::string_view text);

/// Reads http://HOST[:PORT][/PATH][?QUERY] or https://.., at most 4096 bytes, the host as above. What follows the host
/// goes into a request as it is, so it must be what a URL may have there (RFC 3986), without a fragment.
/// Errors: the same: "\"ftp://[::1]\" begins with neither http:// nor https://".
std::expected<ProbeTarget, std::string> parse_probe_url(std::string_view text);

/// Reads the pattern that a line of a process's output is to match: 1 to 1024 bytes. Whether it is a regular expression
/// knows the agent alone, which has RE2. Returns no place in a network. Errors: as above.
std::expected<ProbeTarget, std::string> parse_log_pattern(std::string_view text);

/// Which lines of a process count.
enum class LogStream : std::uint8_t { both, out, err };

/// Status codes of HTTP.
struct StatusRange {
    std::uint16_t first = 200;  ///< 100 to 599
    std::uint16_t last = 399;   ///< at least `first`

    bool operator==(StatusRange const&) const = default;
};

/// How the agent sees whether something is well: by a connection, by a request, by gRPC's health checking protocol
/// (grpc.health.v1.Health/Check), or by a line of its output, which we hand to the agent.
enum class ProbeKind : std::uint8_t { tcp, http, grpc, log };

struct ProbeKindRow {
    ProbeKind kind;
    std::string_view name;  ///< in a configuration and on the wire
    std::expected<ProbeTarget, std::string> (*parse_target)(std::string_view text);
};
inline constexpr std::array<ProbeKindRow, 4> probe_kinds{{{ProbeKind::tcp, "tcp", &parse_probe_address},
                                                          {ProbeKind::http, "http", &parse_probe_url},
                                                          {ProbeKind::grpc, "grpc", &parse_probe_address},
                                                          {ProbeKind::log, "log", &parse_log_pattern}}};

constexpr ProbeKindRow const& row_of(ProbeKind kind) { return probe_kinds[static_cast<std::size_t>(kind)]; }
static_assert(row_of(ProbeKind::tcp).kind == ProbeKind::tcp && row_of(ProbeKind::http).kind == ProbeKind::http &&
              row_of(ProbeKind::grpc).kind == ProbeKind::grpc && row_of(ProbeKind::log).kind == ProbeKind::log);
/// Null: there is none of that name.
constexpr ProbeKindRow const* find_probe_kind(std::string_view name) {
    for (ProbeKindRow const& row : probe_kinds)
        if (row.name == name) return &row;
    return nullptr;
}
constexpr std::string_view name_of(ProbeKind kind) { return row_of(kind).name; }

}  // namespace triton::config
