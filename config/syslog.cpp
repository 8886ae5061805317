#include "config/syslog.h"

#include <algorithm>

#include "config/probe_target.h"
#include "config/socket_address.h"
#include "lib/base/nearest.h"
#include "lib/json/text.h"

namespace triton::config {

std::expected<SyslogTarget, std::string> parse_syslog_address(std::string_view text) {
    auto const fault = [text](std::string_view reason) {
        return std::unexpected(json::quoted(text, 128).append(": ").append(reason));
    };
    std::size_t const colon = text.find(':');
    std::string_view const name = text.substr(0, colon);
    auto const found = std::ranges::find(syslog_transport_names, name);
    if (colon == std::string_view::npos || found == syslog_transport_names.end()) {
        auto const meant = nearest(name, syslog_transport_names);
        return fault("begins with none of unix:, udp:, tcp:, tls:" +
                     (meant ? "; did you mean " + std::string(*meant) + ":?" : std::string()));
    }
    std::string_view const rest = text.substr(colon + 1);
    SyslogTarget target{.transport = static_cast<SyslogTransport>(found - syslog_transport_names.begin())};
    if (target.transport == SyslogTransport::local) {
        if (auto const path = parse_socket_address(text); !path) return fault(path.error());
        target.path = rest;
        return target;
    }
    auto const host = parse_probe_address(rest);
    if (!host) return fault(host.error());
    target.host = host->host;
    target.port = host->port;
    return target;
}

}  // namespace triton::config
