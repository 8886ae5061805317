// Whatever bytes a configuration has: no crash, an error list that is never empty, and what parses also renders for the
// first and the highest process within the sizes that its template promises; for programs also what their structs
// promise.

#include <cstdint>
#include <cstdlib>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/probe_target.h"
#include "config/process_configuration.h"
#include "config/substitution.h"

namespace {

using namespace triton;
using namespace triton::config;

void require(bool holds) {
    if (!holds) std::abort();
}

constexpr std::uint32_t highest = 1000;
// small enough for a mutation to reach them
constexpr Limits limits{.document = {.document_bytes = 1 << 16, .values = 2000, .problems = 20},
                        .arguments = 200,
                        .programs = 20,
                        .sockets = 20,
                        .argument_bytes = 200,
                        .command_bytes = 4000};

void check_problems(json::Problems const& problems) {
    require(!problems.empty() && problems.size() <= limits.document.problems + 1);
    for (json::Problem const& problem : problems)
        require(!problem.reason.empty() && !problem.text().contains('\0'));
}

void check_rendering(process::CommandTemplate const& command, std::uint32_t number) {
    std::vector<char> buffer(command.buffer_size());  // exactly: a byte more is seen by AddressSanitizer
    std::vector<char*> argv(command.argument_count() + 1);
    command.render(process::ProcessNumber{number}, buffer, argv);
    require(argv.back() == nullptr);
    auto const strings = command.arguments(process::ProcessNumber{number});
    require(strings.size() == command.argument_count());
    for (std::size_t i = 0; i < strings.size(); ++i) {
        require(strings[i] == argv[i] && strings[i].size() < limits.argument_bytes);
    }
}

void check_template(std::expected<process::CommandTemplate, json::Problems> const& command) {
    if (!command) return check_problems(command.error());
    check_rendering(*command, 1);
    check_rendering(*command, highest);
}

void check_target(Rare<Argument> const& target, json::Where const& at, Variables const& variables) {
    require(target.has_value());
    auto const command = config::substitute(*target, at, variables, highest, limits);
    check_template(command);
    require(!command || command->argument_count() == 1);
}

void check_probe(auto const& probe, bool is_command, bool is_connection, bool is_request, Variables const& variables) {
    json::Where const at;
    require(!is_command || !probe.command.empty());
    if (is_connection) check_target(probe.address, at, variables);
    if (is_request) check_target(probe.url, at, variables);
    if (probe.address && probe.address->type == ArgumentType::literal)
        require(parse_probe_address(probe.address->value).has_value());
    if (probe.url && probe.url->type == ArgumentType::literal) require(parse_probe_url(probe.url->value).has_value());
}

void check_program(Program const& program, bool has_version, Variables const& variables) {
    require(!program.name.empty() && program.name.size() <= 64);
    require(!program.command.empty() || program.version || has_version);
    require(!program.one_shot || (!program.schedule && program.restart != RestartWhen::always));
    if (program.readiness) {
        Readiness const& readiness = *program.readiness;
        bool const is_connected = readiness.type == ReadinessType::tcp || readiness.type == ReadinessType::grpc;
        check_probe(readiness, readiness.type == ReadinessType::exec, is_connected,
                    readiness.type == ReadinessType::http, variables);
    }
    require(program.health.size() <= most_health_checks);
    for (Health const& health : program.health) {
        require(program.health.size() == 1 || !health.name.empty());
        bool const is_connected = health.type == HealthType::tcp || health.type == HealthType::grpc;
        check_probe(health, health.type == HealthType::exec, is_connected, health.type == HealthType::http, variables);
        for (StatusRange const& range : health.status)
            require(range.first >= 100 && range.first <= range.last && range.last < 600);
    }
    if (program.files) require(!program.files->paths.empty());
    require(!program.watchdog || (program.readiness && program.readiness->type == ReadinessType::notify));
    for (process::ResourceLimit const& limit : program.limits)
        require(limit.soft <= limit.hard);
    for (ListenSocket const& socket : program.sockets)
        require(parse_socket_address(format_socket_address(socket.address)) == socket.address);
    json::Where const document;
    json::Where const at{&document, std::string_view(program.name)};
    ArgumentList const lists[] = {{program.command, at}, {program.arguments, at}};
    check_template(config::substitute(lists, variables, highest, limits));
    check_template(config::substitute(program.environment, at, variables, highest, limits));
}

/// Several files, with a record separator between them: what they say together is one document that says the same.
void check_layers(std::string_view text) {
    std::vector<Layer> layers;
    while (layers.size() < 5) {
        std::size_t const end = text.find('\x1e');
        layers.push_back({.file = layers.empty() ? "" : "file", .text = std::string(text.substr(0, end))});
        if (end == text.npos) break;
        text.remove_prefix(end + 1);
    }
    if (layers.size() < 2) return;
    layers.front().is_including = true;
    Draft const draft = read(layers, limits);
    for (json::Problem const& problem : draft.problems)
        require(!problem.reason.empty() && !problem.text().contains('\0'));
    if (!draft.problems.empty()) return;
    Draft const again = read(draft.merged, limits);
    require(again.problems.empty() && again.configuration == draft.configuration);
}

}  // namespace

extern "C" int process_configuration_fuzz(std::uint8_t const* data, std::size_t size) {
    char const* const environment[] = {"A=1", "B=10.0.0.1, ::1,fd00::2", "EMPTY=", "LONG=abcdefghijklmnopqrstuvwxyz",
                                       nullptr};
    std::string const text(data, data + size);
    check_layers(text);
    auto const parsed = parse(text, limits);
    require(parse(text, limits).has_value() == parsed.has_value());
    if (!parsed) {
        check_problems(parsed.error());
        return 0;
    }
    auto const& configuration = parsed->configuration;
    require(configuration.has_programs || !configuration.version.empty());
    require(configuration.has_programs || configuration.programs.empty());
    require(!configuration.version.contains('/') && configuration.programs.size() <= limits.programs);
    require(parsed->warnings.size() <= limits.document.problems + 1);
    Variables const variables({{"FILE", "from the file"}}, environment);
    (void)referenced_variables(configuration, variables);  // for its memory accesses
    check_template(config::substitute(configuration, variables, highest, limits));
    for (Program const& program : configuration.programs)
        check_program(program, !configuration.version.empty(), variables);
    return 0;
}

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    return process_configuration_fuzz(data, size);
}
#endif
