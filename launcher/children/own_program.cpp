#include "launcher/children/own_program.h"

#include <utility>

#include "config/substitution.h"

namespace triton::launcher {

Result<std::shared_ptr<process::StartPlan const>> own_program(char const* const* environment,
                                                              std::vector<std::string> const& words, std::string path) {
    std::vector<config::Argument> arguments;
    for (std::string const& word : words)
        arguments.push_back({.value = word});
    auto command = config::substitute(arguments, {}, config::Variables({}, nullptr), 1);
    if (!command) return fail("make a command: " + command.error().front().text());
    std::vector<std::string> entries;
    for (char const* const* entry = environment; *entry; ++entry)
        entries.emplace_back(*entry);
    if (path.empty()) path = "/proc/self/exe";
    return std::make_shared<process::StartPlan const>(std::move(path), std::move(entries), std::move(*command));
}

}  // namespace triton::launcher
