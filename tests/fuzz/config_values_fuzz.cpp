// Whatever text a value has: no crash; what is read can be written and is read back as the same; and what a schedule
// says is due is due.

#include <cstdint>
#include <cstdlib>
#include <expected>
#include <string>

#include "config/cpu_list.h"
#include "config/cron.h"
#include "config/probe_target.h"
#include "config/socket_address.h"
#include "lib/base/size.h"

namespace {

using namespace triton;
using namespace triton::config;

void require(bool holds) {
    if (!holds) std::abort();
}

void check_cron(std::string const& text) {
    auto const expression = parse_cron(text);
    if (!expression) return require(!expression.error().empty() && !expression.error().contains('\0'));
    for (std::int64_t const start : {INT64_C(0), INT64_C(1'800'000'059), INT64_C(4'107'542'400)}) {
        auto const next = next_after(*expression, start);
        require(next && *next > start && *next % 60 == 0);
        require(next_after(*expression, *next - 1) == next);
        require((expression->minutes >> (*next / 60 % 60) & 1U) != 0);
        require((expression->hours >> (*next / 3600 % 24) & 1U) != 0);
    }
}

void check_address(std::string const& text) {
    auto const address = parse_socket_address(text);
    if (!address) return require(!address.error().empty() && !address.error().contains('\0'));
    require(parse_socket_address(format_socket_address(*address)) == address);
    require(address->path.empty() == (address->kind == SocketKind::tcp || address->kind == SocketKind::udp));
}

/// What is read makes the same text again, but for what it may leave out.
void check_target(std::expected<ProbeTarget, std::string> const& target, std::string const& text) {
    if (!target) return require(!target.error().empty() && !target.error().contains('\0'));
    require(target->port != 0 && !target->host.empty() && text.contains(target->host));
    std::string const host(target->host);
    std::string const address = (host.contains(':') ? "[" + host + "]:" : host + ":") + std::to_string(target->port);
    auto const again = parse_probe_address(address);
    require(again && again->host == target->host && again->port == target->port);
    for (char const c : target->path)
        require(c > ' ' && c < '\x7f');
    require(target->path.empty() ||
            (target->path.starts_with('/') && (target->path == "/" || text.contains(target->path))));
}

}  // namespace

extern "C" int config_values_fuzz(std::uint8_t const* data, std::size_t size) {
    std::string const text(data, data + size);
    check_cron(text);
    check_address(text);
    check_target(parse_probe_address(text), text);
    check_target(parse_probe_url(text), text);
    if (auto const bytes = parse_size(text)) require(parse_size(std::to_string(*bytes)) == bytes);
    if (auto const cpus = parse_cpu_list(text)) require(!cpus->empty() && cpus->back() < 8192);
    return 0;
}

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    return config_values_fuzz(data, size);
}
#endif
