#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace triton::config {

/// How a syslog daemon is reached: by a Unix socket, which the launcher writes to itself, or over a network, which is
/// the agent's.
enum class SyslogTransport : std::uint8_t { local, udp, tcp, tls };
inline constexpr std::array<std::string_view, 4> syslog_transport_names{"unix", "udp", "tcp", "tls"};

/// Borrowed from the text that it was read from.
struct SyslogTarget {
    SyslogTransport transport = SyslogTransport::local;
    std::string_view path = {};  ///< local: absolute
    std::string_view host = {};  ///< an IPv4 or IPv6 literal without brackets, or "localhost"
    std::uint16_t port = 0;      ///< never 0 with a host

    bool operator==(SyslogTarget const&) const = default;
};

/// Reads unix:PATH, udp:HOST:PORT, tcp:HOST:PORT or tls:HOST:PORT; the host is that of a probe.
/// Errors: ready to be shown behind the place: "\"udp:log:514\": \"log\" is neither an IP address nor localhost".
std::expected<SyslogTarget, std::string> parse_syslog_address(std::string_view text);

/// In the order of their numbers. Source: RFC 5424, 6.2.1.
inline constexpr std::array<std::string_view, 24> syslog_facilities{
    "kern",   "user",   "mail",     "daemon", "auth",   "syslog", "lpr",    "news",
    "uucp",   "cron",   "authpriv", "ftp",    "ntp",    "audit",  "alert",  "clock",
    "local0", "local1", "local2",   "local3", "local4", "local5", "local6", "local7"};
inline constexpr std::array<std::string_view, 8> syslog_severities{"emerg",   "alert",  "crit", "err",
                                                                   "warning", "notice", "info", "debug"};
enum class SyslogFacility : std::uint8_t { daemon = 3 };                    // by number
enum class SyslogSeverity : std::uint8_t { err = 3, info = 6, debug = 7 };  // the same

/// Of a message: that of RFC 5424, or the older one of RFC 3164 as programs on the same machine write it, without a
/// host. journald, and rsyslog at its own socket, read only that.
enum class SyslogFormat : std::uint8_t { rfc5424, rfc3164 };
inline constexpr std::array<std::string_view, 2> syslog_formats{"rfc5424", "rfc3164"};

/// Where lines go as messages.
struct Syslog {
    std::string address = "unix:/dev/log";  ///< for parse_syslog_address()
    SyslogFacility facility = SyslogFacility::daemon;
    std::optional<SyslogSeverity> severity = {};        ///< absent: info
    std::optional<SyslogSeverity> error_severity = {};  ///< of the standard error; absent: err
    std::string name = {};                              ///< APP-NAME; empty: that of the program
    SyslogFormat format = SyslogFormat::rfc5424;

    [[nodiscard]] bool is_local() const { return address.starts_with("unix:"); }
    bool operator==(Syslog const&) const = default;
};

}  // namespace triton::config
