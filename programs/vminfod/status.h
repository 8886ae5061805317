#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "host/info/agenda.h"
#include "lib/net/http_figures.h"
#include "lib/net/open_metrics.h"
#include "programs/vminfod/daemon.h"
#include "programs/vminfod/routes.h"

namespace triton::program {

/// Where somebody comes in.
enum class Entrance : std::uint8_t {
    unix_socket,  ///< root and one group: sees all, and may ask for a fresh look
    tcp,          ///< every user of this host, including browsers: sees no secrets
};
inline constexpr std::size_t entrance_count = 2;
std::string_view name_of(Entrance entrance);

/// Somebody who follows the events.
struct ListenerFacts {
    std::string id;          ///< as his first record has it
    std::string user_agent;  ///< printable ASCII
    Entrance entrance = Entrance::unix_socket;
    std::int64_t began_at = 0;  ///< microseconds since 1970
    std::uint64_t resyncs = 0;  ///< how often he fell behind
    bool is_in_snapshot = false;
};

/// All that /status and /metrics tell.
struct StatusFacts {
    std::string version;
    std::int64_t now = 0;  ///< microseconds since 1970
    std::uint64_t resident_bytes = 0;
    DaemonFacts daemon;
    std::size_t machines = 0;
    std::size_t unreadable = 0;
    std::map<std::string, std::size_t, std::less<>> states;  ///< how many machines are in each
    std::size_t document_bytes = 0;
    std::uint64_t first_sequence = 0;  ///< of the events that are kept
    std::uint64_t next_sequence = 0;
    std::size_t kept_bytes = 0;
    info::Agenda::Queue queue;
    std::vector<ListenerFacts> listeners;
    std::array<net::HttpFigures, entrance_count> http;
    std::map<std::pair<Endpoint, unsigned>, std::uint64_t> requests;  ///< by endpoint and status code
    std::uint64_t resyncs = 0;
};

/// The object of /status, with a newline. `is_full`: with the latest refreshes and connections. `names_listeners`: who
/// the listeners say they are, which is not for everybody.
std::string status_text(StatusFacts const& facts, bool is_full, bool names_listeners);

/// Metric names are documented in docs/host/vminfod-api.md.
std::string metrics_text(StatusFacts const& facts, net::MetricsFormat format);

}  // namespace triton::program
