// Whatever bytes a template or a monitor conf has: no crash, every problem with its place, what is not marked stays as
// it is, and a text whose marks are escaped comes back as it was.

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/substitute.h"

namespace {

using namespace triton;
using namespace triton::sidecar;

void require(bool holds) {
    if (!holds) std::abort();
}

using Substituted = std::expected<std::string, json::Problems>;

void require_places(Substituted const& result) {
    if (result) return;
    require(!result.error().empty());
    for (json::Problem const& problem : result.error())
        require(problem.where.starts_with("line ") && !problem.reason.empty());
}

void try_template(std::string_view text) {
    constexpr char const* environment[] = {"NAME=value", "EMPTY=", "IPS=10.0.0.1,fd00::1", nullptr};
    config::Variables const variables({{"FILE", "${NAME}"}}, environment);
    Substituted const result = substitute_template(text, variables);
    require_places(result);
    if (!text.contains("${")) require(result && *result == text);

    std::string escaped;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text.substr(at).starts_with("${")) escaped += '$';
        escaped += text[at];
    }
    Substituted const again = substitute_template(escaped, variables);
    require(again && *again == text);
}

void try_monitor_conf(std::string_view text) {
    std::vector<MonitorVariable> variables{{"A", "1"}, {"AB", "$A"}, {"NONE", std::nullopt}};
    Substituted const result = substitute_monitor_conf(text, variables);
    require_places(result);
    require(result.has_value() == !text.contains("$NONE"));
    for (MonitorVariable& variable : variables)
        variable.value = "$" + variable.name;
    require(substitute_monitor_conf(text, variables) == std::string(text));
}

}  // namespace

extern "C" int template_fuzz(std::uint8_t const* data, std::size_t size) {
    std::string const text(data, data + size);
    try_template(text);
    try_monitor_conf(text);
    return 0;
}

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) { return template_fuzz(data, size); }
#endif
