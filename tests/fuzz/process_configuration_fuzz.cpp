// Whatever bytes a configuration has: no crash, an error list that is never empty, and what parses also renders for the
// first and the highest process within the sizes that its template promises.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "config/process_configuration.h"
#include "config/substitution.h"

namespace {

using namespace triton::config;

void require(bool holds) {
    if (!holds) std::abort();
}

constexpr std::uint32_t highest = 1000;
// small enough for a mutation to reach them
constexpr Limits limits{.document_bytes = 1 << 16,
                        .values = 2000,
                        .arguments = 200,
                        .problems = 20,
                        .argument_bytes = 200,
                        .command_bytes = 4000};

void check_problems(Problems const& problems) {
    require(!problems.empty() && problems.size() <= limits.problems + 1);
    for (Problem const& problem : problems)
        require(!problem.reason.empty() && !problem.text().contains('\0'));
}

void check_rendering(CommandTemplate const& command, std::uint32_t number) {
    std::vector<char> buffer(command.buffer_size());  // exactly: a byte more is seen by AddressSanitizer
    std::vector<char*> argv(command.argument_count() + 1);
    command.render(ProcessNumber{number}, buffer, argv);
    require(argv.back() == nullptr);
    auto const strings = command.arguments(ProcessNumber{number});
    require(strings.size() == command.argument_count());
    for (std::size_t i = 0; i < strings.size(); ++i) {
        require(strings[i] == argv[i] && strings[i].size() < limits.argument_bytes);
    }
}

}  // namespace

extern "C" int process_configuration_fuzz(std::uint8_t const* data, std::size_t size) {
    char const* const environment[] = {"A=1", "B=10.0.0.1, ::1,fd00::2", "EMPTY=", "LONG=abcdefghijklmnopqrstuvwxyz",
                                       nullptr};
    std::string const text(data, data + size);
    auto const parsed = parse(text, limits);
    require(parse(text, limits).has_value() == parsed.has_value());
    if (!parsed) {
        check_problems(parsed.error());
        return 0;
    }
    auto const& configuration = parsed->configuration;
    require(!configuration.version.empty() && !configuration.version.contains('/'));
    require(parsed->warnings.size() <= limits.problems + 1);
    Variables const variables({{"FILE", "from the file"}}, environment);
    (void)referenced_variables(configuration, variables);  // for its memory accesses
    auto const command = CommandTemplate::create(configuration, variables, highest, limits);
    if (!command) {
        check_problems(command.error());
        return 0;
    }
    check_rendering(*command, 1);
    check_rendering(*command, highest);
    return 0;
}

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    return process_configuration_fuzz(data, size);
}
#endif
