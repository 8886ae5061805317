#include "host/cri/stream/negotiation.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/http/websocket/accept_key.h"

namespace triton::cri::stream {

namespace {

struct PurposeRow {
    std::string_view prefix;
    Purpose purpose;
};
constexpr std::array<PurposeRow, 3> purposes{
    {{"/exec/", Purpose::execute}, {"/attach/", Purpose::attach}, {"/portforward/", Purpose::forward}}};

struct ProtocolRow {
    std::string_view name;
    bool is_forward;
    bool is_websocket;
    int version;
    bool is_base64 = false;
    bool is_tunnel = false;
};
constexpr std::array<ProtocolRow, 13> protocols{{
    {"v4.channel.k8s.io", false, false, 4},
    {"v3.channel.k8s.io", false, false, 3},
    {"v2.channel.k8s.io", false, false, 2},
    {"channel.k8s.io", false, false, 1},
    {"portforward.k8s.io", true, false, 1},
    {"v5.channel.k8s.io", false, true, 5},
    {"v4.channel.k8s.io", false, true, 4},
    {"v4.base64.channel.k8s.io", false, true, 4, true},
    {"channel.k8s.io", false, true, 1},
    {"base64.channel.k8s.io", false, true, 1, true},
    {"v4.channel.k8s.io", true, true, 4},
    {"v4.base64.channel.k8s.io", true, true, 4, true},
    {"SPDY/3.1+portforward.k8s.io", true, true, 1, false, true},
}};
// What a client of a WebSocket gets that names none.
constexpr std::string_view default_of_commands = "channel.k8s.io";
constexpr std::string_view default_of_forwards = "v4.channel.k8s.io";
constexpr std::size_t token_characters = 64;

Refusal refusal(unsigned status, std::string_view reason, std::string_view text, std::string_view fields = {}) {
    return {plain_answer(status, reason, text, fields)};
}

ProtocolRow const* find(std::string_view name, bool is_forward, bool is_websocket) {
    auto const* const found = std::ranges::find_if(protocols, [&](ProtocolRow const& row) {
        return row.name == name && row.is_forward == is_forward && row.is_websocket == is_websocket;
    });
    return found == protocols.end() ? nullptr : found;
}

ProtocolRow const* first_of(std::vector<std::string> const& offered, bool is_forward, bool is_websocket) {
    for (std::string const& name : offered)
        if (auto const* const row = find(name, is_forward, is_websocket)) return row;
    return nullptr;
}

void fill(Upgrade& upgrade, ProtocolRow const& row) {
    upgrade.is_websocket = row.is_websocket;
    upgrade.version = row.version;
    upgrade.is_base64 = row.is_base64;
    upgrade.is_tunnel = row.is_tunnel;
}

std::variant<Upgrade, Refusal> negotiate_spdy(RequestHead const& head, Upgrade upgrade) {
    bool const is_forward = upgrade.purpose == Purpose::forward;
    auto const offered = head.list("x-stream-protocol-version");
    if (offered.empty()) return refusal(400, "Bad Request", "X-Stream-Protocol-Version is missing");
    auto const* const row = first_of(offered, is_forward, false);
    if (!row) {
        std::string fields;
        for (ProtocolRow const& one : protocols)
            if (!one.is_websocket && one.is_forward == is_forward)
                fields.append("X-Accepted-Stream-Protocol-Versions: ").append(one.name).append("\r\n");
        return refusal(403, "Forbidden", "no protocol in common", fields);
    }
    fill(upgrade, *row);
    upgrade.answer =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        "X-Stream-Protocol-Version: " +
        std::string(row->name) + "\r\n\r\n";
    return upgrade;
}

std::variant<Upgrade, Refusal> negotiate_websocket(RequestHead const& head, Upgrade upgrade) {
    constexpr std::size_t key_characters = 24;
    bool const is_forward = upgrade.purpose == Purpose::forward;
    std::string_view const key = head.value("sec-websocket-key");
    if (head.value("sec-websocket-version") != "13")
        return refusal(426, "Upgrade Required", "only version 13 of WebSocket is spoken",
                       "Sec-WebSocket-Version: 13\r\n");
    if (head.method != "GET" || key.size() != key_characters)
        return refusal(400, "Bad Request", "this is no handshake of WebSocket");
    auto const offered = head.list("sec-websocket-protocol");
    auto const* const row = offered.empty()
                                ? find(is_forward ? default_of_forwards : default_of_commands, is_forward, true)
                                : first_of(offered, is_forward, true);
    if (!row) return refusal(403, "Forbidden", "no protocol in common");
    fill(upgrade, *row);
    upgrade.answer =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Accept: " +
        http::websocket::accept_key(key) + "\r\n";
    if (!offered.empty()) upgrade.answer.append("Sec-WebSocket-Protocol: ").append(row->name).append("\r\n");
    upgrade.answer += "\r\n";
    return upgrade;
}

}  // namespace

std::variant<Upgrade, Refusal> negotiate(RequestHead const& head) {
    auto const* const purpose =
        std::ranges::find_if(purposes, [&](PurposeRow const& row) { return head.path.starts_with(row.prefix); });
    if (purpose == purposes.end()) return refusal(404, "Not Found", "there is nothing of that name");
    Upgrade upgrade{.purpose = purpose->purpose, .token = head.path.substr(purpose->prefix.size())};
    bool const is_token = upgrade.token.size() == token_characters &&
                          upgrade.token.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!is_token) return refusal(404, "Not Found", "there is nothing of that name");
    if (head.method != "GET" && head.method != "POST")
        return refusal(405, "Method Not Allowed", "only GET and POST are served", "Allow: GET, POST\r\n");
    std::string_view const length = head.value("content-length");
    if ((!length.empty() && length != "0") || !head.value("transfer-encoding").empty())
        return refusal(400, "Bad Request", "a request for an upgrade has no content");
    if (!head.has_token("connection", "upgrade")) return refusal(400, "Bad Request", "an upgrade is needed");
    if (head.has_token("upgrade", "spdy/3.1")) return negotiate_spdy(head, std::move(upgrade));
    if (head.has_token("upgrade", "websocket")) return negotiate_websocket(head, std::move(upgrade));
    return refusal(400, "Bad Request", "an upgrade to SPDY/3.1 or websocket is needed");
}

}  // namespace triton::cri::stream
