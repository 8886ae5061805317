#include "sidecar/agent/substitutions.h"

#include <algorithm>

#include "config/environment_file.h"
#include "config/substitution.h"
#include "lib/base/read_file.h"
#include "lib/json/writer.h"
#include "sidecar/substitute.h"

namespace triton::agent {

namespace {

std::string trimmed(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    std::size_t const begin = text.find_first_not_of(blanks);
    if (begin == text.npos) return {};
    return std::string(text.substr(begin, text.find_last_not_of(blanks) + 1 - begin));
}

/// The directory of binaries. It is unknown without a version file, which matters only to those who substitute it.
std::optional<std::string> binary_directory(SubstitutionOptions const& options) {
    auto const version = read_file(options.version_file, 4096);
    if (!version) return std::nullopt;
    if (trimmed(*version) == options.main_container_version) return options.binary_directory;
    return options.main_container_conf_directory + "/bin/" + trimmed(*version);
}

}  // namespace

Result<std::string> substitutions_json(SubstitutionOptions const& options, char const* const* environment) {
    std::vector<config::EnvironmentVariable> from_file;
    if (!options.environment_file.empty()) {
        auto const text = TRY(read_file(options.environment_file, json::Limits{}.document_bytes));
        from_file = config::parse_environment_file(text).values;
    }
    config::Variables const variables(std::move(from_file), environment);
    std::optional<config::IpFamily> family;
    if (options.ip_family != 0) family = options.ip_family == 4 ? config::IpFamily::v4 : config::IpFamily::v6;
    auto const list = sidecar::monitor_variables(variables, options.variables, family, binary_directory(options));
    json::Writer out(json::Spacing::blanks);
    out.open('{');
    for (sidecar::MonitorVariable const& variable : list) {
        // As in the shipped program: without such an address nothing that follows would be right.
        bool const is_address = variable.name == "FDB_PUBLIC_IP" || variable.name == "FDB_POD_IP";
        if (family && is_address && !variable.value) {
            return fail("--public-ip-family " + std::to_string(options.ip_family) + ": " + variable.name + " " +
                        variable.problem);
        }
        bool const is_further = std::ranges::find(options.variables, variable.name) != options.variables.end();
        if (!variable.value && is_further) {
            out.name(variable.name).raw("null");
        } else {
            out.name(variable.name).value(variable.value.value_or(""));
        }
    }
    return out.close('}').text();
}

}  // namespace triton::agent
