#include "programs/vminfo/command_line.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "host/info/client/find_machine.h"
#include "host/machine/properties.h"

namespace triton::program {

namespace {

/// Whether the words of a command are VMs.
bool takes_machines(CLI::App const& command) {
    Command const* const row = find_command(command.get_name());
    return row && row->arguments.find("VM") != std::string_view::npos;
}
/// vminfo is asked, since vmadm lists machines only for root. Quotes and dollars are avoided, because shells differ in
/// them.
constexpr Things vms{"VM", "vminfo vms -o uuid,alias 2>/dev/null | grep : | cut -d\\\" -f4", takes_machines};

std::vector<Offer> offers() {
    std::vector<std::string> columns;
    std::vector<std::string> conditions;
    for (machine::Property const& property : machine::properties()) {
        if (!property.is_public()) continue;
        columns.emplace_back(property.name);
        conditions.push_back(std::string(property.name) + "=");
    }
    return {{"vms", "-o", columns, true},
            {"vms", "", conditions},
            {"events", "--field", columns},
            {"events", "--filter", conditions},
            {"events", "--until", conditions},
            {"events", "--type", {"create", "modify", "delete"}},
            {"completion", "", {"bash", "zsh", "fish"}}};
}

Outcome run_completion(Options const& options) {
    TRY(expect_words(options, "completion", 1, 1));
    Options scratch;
    auto const bound = bind_rows(commands(), scratch);
    TRY(print(TRY(completion_of(vminfo_frame, scratch, bound, options.words.front(), vms, offers()))));
    return {};
}

}  // namespace

std::span<Command const> commands() {
    static constexpr auto own = std::to_array<Command>(
        {{"completion", "bash | zsh | fish", "prints the completion of a shell", "", add_words, run_completion}});
    static std::vector<Command> const all =
        sorted_rows<Options>({own, look_commands(), event_commands(), top_commands()});
    return all;
}

Command const* find_command(std::string_view name) {
    auto const row = std::ranges::find(commands(), name, &Command::name);
    return row == commands().end() ? nullptr : &*row;
}

Frame const vminfo_frame{
    .name = "vminfo",
    .version = TRITON_VERSION,
    .description = "What runs here, and what has just changed",
    .daemon = "vminfod",
    .socket = "/run/triton/vminfod.socket",
    .error_prefix = "",
    .column = 30,
    .about =
        "\nA VM is named by its uuid, by an unambiguous beginning of it, or by its alias. F=V is a condition as in\n"
        "`vmadm list`: state=running, alias=~^web, nics.*.ip=10.0.0.7\n\n",
    .rest =
        "\nExamples:\n"
        "  vminfo events --until state=running --timeout 60 web0    waits until web0 runs\n"
        "  vminfo events --filter alias=~^web --field state -f      prints each change of state of these VMs\n"
        "  vminfo events -j --since 1000042                         prints what has happened since that event, and\n"
        "                                                           continues\n"
        "  vminfo top -s memory                                     shows what uses the memory\n"
        "  vminfo vms -o uuid,state tags.role=db                    prints some properties of some VMs\n"
        "  vminfo status -j -f                                      prints everything that vminfod knows of "
        "itself\n\n"
        "Exit codes: 0 success, 1 failure, 2 usage error, 3 vminfod does not run, 4 timeout.\n"};

info::Client client_of(Options const& options) {
    std::string socket = options.socket;
    if (socket.empty()) socket = options.root + std::string(info::socket_path);
    return info::Client(std::move(socket), info::client_name("vminfo", TRITON_VERSION, std::getenv("VMINFOD_NAME")));
}

Result<std::vector<machine::Filter>> filters_of(std::span<std::string const> words, std::string_view what) {
    std::vector<machine::Filter> filters;
    for (std::string const& word : words)
        filters.push_back(TRY(machine::Filter::parse(word, what)));
    return filters;
}

}  // namespace triton::program
