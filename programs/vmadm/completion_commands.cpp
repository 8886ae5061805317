#include <array>

#include "programs/completion/completion.h"
#include "programs/vmadm/commands.h"
#include "programs/vmadm/context.h"

namespace triton::program {

namespace {

/// Commands whose words are VMs.
bool takes_machines(CLI::App const& command) {
    Command const* const row = find_command(command.get_name());
    return row && row->arguments.find("VM") != std::string_view::npos;
}
constexpr Things vms{"VM", "vmadm -q list -p -o uuid,alias 2>/dev/null | tr : \"\\n\"", takes_machines};

Outcome run_completion(Options const& options) {
    if (options.words.size() != 1) return usage("expected one shell: bash, zsh or fish");
    CLI::App grammar{"Life cycle of machines", "vmadm"};
    Options unused;
    Command const* none = nullptr;
    build(grammar, unused, none);
    auto const text = completion_for(grammar, options.words.front(), vms);
    if (!text) return usage(text.error().text());
    return print(*text);
}

}  // namespace

std::span<Command const> completion_commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"completion", "", "bash | zsh | fish", "prints the completion of a shell", add_words, run_completion, false,
         true},
    });
    return rows;
}

}  // namespace triton::program
