#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/cri/monitor/message.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::cri {

/// What the client of the stream server may do, once.
struct Ticket {
    monitor::Kind kind = monitor::Kind::attach;  ///< execute_streams, attach or forward
    std::string id = {};                         ///< of a container; of a pod for `forward`
    std::vector<std::string> command = {};
    std::int64_t streams = 0;              ///< StreamBit
    std::vector<std::int32_t> ports = {};  ///< for clients that do not name them themselves

    bool operator==(Ticket const&) const = default;
};

/// Tickets by their tokens: 256 random bits as 64 hexadecimal digits. The first half finds a ticket; the second half is
/// compared in constant time, so that how long an answer takes says nothing about it.
class Tickets {
public:
    static constexpr std::size_t most = 1000;
    static constexpr Duration lifetime = std::chrono::minutes(1);

    /// Returns its token. Errors: `exhausted`: too many wait for their clients; those of getrandom(2).
    Result<std::string> issue(Ticket ticket, TimePoint now);
    /// It is used up; also by a token whose second half is wrong. nullopt: there is none, or it is too old, or of
    /// another kind.
    std::optional<Ticket> redeem(std::string_view token, monitor::Kind kind, TimePoint now);
    [[nodiscard]] std::size_t size() const { return tickets_.size(); }

private:
    struct Waiting {
        std::string secret;
        TimePoint expires;
        Ticket ticket;
    };
    void remove_expired(TimePoint now);

    std::map<std::string, Waiting, std::less<>> tickets_;
};

}  // namespace triton::cri
