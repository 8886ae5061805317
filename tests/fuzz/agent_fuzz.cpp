// Whatever is in peer rules, in a launcher's replies, in requests and in answers to probes: no crash. Rules that are
// read let in an invalid or expired chain only when they say so; replies become a status whose JSON and metrics can be
// written, or a probe whose target is within limits.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "config/limits.h"
#include "lib/json/writer.h"
#include "lib/net/verify_peers.h"
#include "sidecar/agent/metrics.h"
#include "sidecar/agent/probe_answer.h"
#include "sidecar/agent/probe_order.h"
#include "sidecar/agent/status.h"
#include "sidecar/control/control_reply.h"

namespace {

using namespace triton;
using namespace triton::agent;

void require(bool holds) {
    if (!holds) std::abort();
}

void check_rules(std::string_view text) {
    auto const rules = net::PeerRules::parse(text);
    if (!rules) return require(!rules.error().text().empty());
    net::PeerCertificate peer;
    peer.subject = {
        {net::NameField::common_name, "client"}, {net::NameField::domain, "a"}, {net::NameField::domain, "b"}};
    peer.issuer = {{net::NameField::organization, "o"}};
    peer.alternatives = {
        {net::AlternativeKind::dns, "x.y"}, {net::AlternativeKind::other, ""}, {net::AlternativeKind::ip, "::1"}};
    bool const overlooks_all = text.contains("Check.Valid=0");
    require(!rules->check(peer) || overlooks_all);
    peer.validity = net::ChainValidity::expired;
    require(!rules->check(peer) || overlooks_all || text.contains("Check.Unexpired=0"));
    peer.validity = net::ChainValidity::valid;
    (void)rules->check(peer);
}

void check_reply(std::string_view text) {
    auto const reply = sidecar::control::parse_control_reply(text);
    if (!reply) return require(!reply.error().text().empty());
    auto status = supervision_status(reply->parameters, {reply->parameters, reply->parameters});
    StartTimes().settle(status, 1);
    require(readiness(status).text.ends_with("ready\n"));
    require(render_metrics(&status, {}, "1", MetricsFormat::open_metrics).ends_with("# EOF\n"));
    if (auto const order = parse_probe_order(reply->parameters)) {
        require(order->timeout > Duration::zero());
        auto const target = target_of(*order);
        require(target ? target->port != 0 && !target->host.empty() : !target.error().text().empty());
    }
    std::string const json = json::Writer{}.value(reply->parameters).text();
    json::Limits limits;
    limits.document_bytes = json.size() + 1;
    json::ProblemList problems{1};
    auto const again = json::read_json(json, limits, problems);
    require(again.has_value());
    require(json::Writer{}.value(*again).text() == json);
}

/// The same status, or error, whole or byte by byte.
void check_answer(std::string_view text) {
    ProbeAnswer whole;
    auto const taken = whole.take(text);
    require(taken ? *taken <= text.size() : !taken.error().text().empty());
    require(!whole.status() || (taken && *whole.status() >= 200 && *whole.status() <= 999));
    ProbeAnswer dripping;
    std::string waiting;
    bool is_good = true;
    for (std::size_t i = 0; i < text.size() && is_good; ++i) {
        waiting += text[i];
        auto const some = dripping.take(waiting);
        is_good = some.has_value();
        if (some) waiting.erase(0, *some);
    }
    require(is_good == taken.has_value());
    require(dripping.status() == whole.status());
}

}  // namespace

extern "C" int agent_fuzz(std::uint8_t const* data, std::size_t size) {
    if (size == 0) return 0;
    std::string_view const text(reinterpret_cast<char const*>(data), size);
    if (text.starts_with('{')) {
        check_reply(text);
        (void)parse_hashes_request(text, 10);
        auto const what = parse_stage_request(text);
        require(what ? !what->empty() : !what.error().empty());
    } else {
        check_rules(text);
        check_answer(text);
    }
    return 0;
}

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) { return agent_fuzz(data, size); }
#endif
