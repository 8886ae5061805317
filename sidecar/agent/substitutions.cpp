#include "sidecar/agent/substitutions.h"

#include <algorithm>

#include "config/environment_file.h"
#include "config/substitution.h"
#include "lib/base/read_file.h"
#include "lib/json/writer.h"
#include "sidecar/stage.h"
#include "sidecar/substitute.h"

namespace triton::agent {

std::optional<std::string> main_binary_directory(SubstitutionOptions const& options) {
    auto const version = sidecar::read_version(options.version_file);
    if (version && *version == options.main_container_version) return options.binary_directory;
    if (!version && options.binary_output_directory.empty()) return std::nullopt;
    if (options.binary_output_directory == ".") return options.main_container_conf_directory;
    std::string const inside =
        options.binary_output_directory.empty() ? "bin/" + *version : options.binary_output_directory;
    return options.main_container_conf_directory + "/" + inside;
}

Result<Substitutions> read_substitutions(SubstitutionOptions const& options,
                                         std::optional<std::string> const& binary_directory,
                                         char const* const* environment) {
    Substitutions result;
    std::vector<config::EnvironmentVariable> from_file;
    if (!options.environment_file.empty()) {
        auto const text = TRY(read_file(options.environment_file, json::Limits{}.document_bytes));
        auto file = config::parse_environment_file(text);
        for (json::Problem const& problem : file.problems)
            result.problems.push_back(options.environment_file + ": " + problem.text());
        from_file = std::move(file.values);
    }
    config::Variables const variables(std::move(from_file), environment);
    std::optional<config::IpFamily> family;
    if (options.ip_family != 0) family = options.ip_family == 4 ? config::IpFamily::v4 : config::IpFamily::v6;
    auto const list = sidecar::monitor_variables(variables, options.variables, family, binary_directory);
    json::Writer out(json::Spacing::blanks);
    out.open('{');
    for (sidecar::MonitorVariable const& variable : list) {
        // As in the shipped program: without such an address nothing that follows would be right.
        if (variable.lacks_family) {
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
    result.json = out.close('}').text();
    return result;
}

}  // namespace triton::agent
