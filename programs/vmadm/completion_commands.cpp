#include <array>
#include <string>
#include <vector>

#include "host/machine/properties.h"
#include "lib/base/signal_names.h"
#include "programs/completion/completion.h"
#include "programs/vmadm/commands.h"
#include "programs/vmadm/context.h"

namespace triton::program {

namespace {

/// Whether the words of a command are VMs.
bool takes_machines(CLI::App const& command) {
    Command const* const row = find_command(command.get_name());
    return row && row->arguments.find("VM") != std::string_view::npos;
}
constexpr Things vms{"VM", "vmadm -q list -p -o uuid,alias 2>/dev/null | tr : \"\\n\"", takes_machines};

std::vector<std::string> names_where(bool (*is_wanted)(machine::Property const& property), std::string_view ending) {
    std::vector<std::string> names;
    for (machine::Property const& property : machine::properties())
        if (is_wanted(property)) names.push_back(std::string(property.name) + std::string(ending));
    return names;
}

/// The words offered, made from the one table of properties and that of signals.
std::vector<Offer> offers() {
    auto const is_public = [](machine::Property const& property) { return property.is_public(); };
    auto const is_changed = [](machine::Property const& property) {
        return property.rules.set == machine::Set::any_time && property.rules.parts == machine::Parts::none &&
               property.name != "launch";
    };
    auto const columns = names_where(is_public, "");
    auto const filters = names_where(is_public, "=");
    auto updates = names_where(is_changed, "=");
    updates.emplace_back("ram=");  // the other name of max_physical_memory
    std::vector<std::string> signals;
    for (SignalName const& signal : signal_names)
        signals.push_back(std::string("SIG") + signal.name);
    std::vector<Offer> all{{"list", "-o", columns, true},
                           {"list", "-s", columns, true},
                           {"lookup", "-o", columns, true},
                           {"kill", "-s", signals},
                           {"update", "", updates},
                           {"clone", "", updates},
                           {"create", "", updates},
                           {"validate", "", {"create", "update"}},
                           {"completion", "", {"bash", "zsh", "fish"}},
                           {"sysrq", "", {"nmi", "screenshot"}}};
    for (char const* const command :
         {"list", "lookup", "start", "stop", "reboot", "kill", "delete", "stats", "upgrade-launcher"})
        all.push_back({command, "", filters});
    return all;
}

Outcome run_completion(Options const& options) {
    if (options.words.size() != 1) return usage("expected one shell: bash, zsh or fish");
    CLI::App grammar{"Life cycle of machines", "vmadm"};
    Options unused;
    Command const* none = nullptr;
    build(grammar, unused, none);
    auto const text = completion_for(grammar, options.words.front(), vms, offers());
    if (!text) return usage(text.error().text());
    return print(*text);
}

Outcome run_reference(Options const& options) {
    if (!options.words.empty())
        return usage("too many arguments for reference: " + json::quoted(options.words.front()));
    return print(options.as_manual ? machine::manual_page() : machine::reference_page());
}

void add_reference(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("--man", options.as_manual, "Prints the source of vmadm-properties(5) instead.");
}

}  // namespace

std::span<Command const> completion_commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"completion", "", "bash | zsh | fish", "prints the completion of a shell", add_words, run_completion, false,
         true},
        {"reference", "", "[--man]", "prints what a VM's properties are", add_reference, run_reference, false, true},
    });
    return rows;
}

}  // namespace triton::program
