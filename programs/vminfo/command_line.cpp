#include "programs/vminfo/command_line.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include <unistd.h>

#include "host/info/client/find_machine.h"
#include "host/machine/properties.h"
#include "lib/base/root_prefix.h"
#include "lib/base/write_all.h"
#include "lib/json/text.h"
#include "programs/completion/completion.h"
#include "programs/completion/usage_formatter.h"

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
    CLI::App grammar{"What runs here, and what has just changed", "vminfo"};
    Options unused;
    Command const* none = nullptr;
    build(grammar, unused, none);
    std::string const text = TRY(completion_for(grammar, options.words.front(), vms, offers()));
    TRY(print(text));
    return {};
}

}  // namespace

std::span<Command const> commands() {
    static std::vector<Command> const all = [] {
        static constexpr auto own = std::to_array<Command>(
            {{"completion", "bash | zsh | fish", "prints the completion of a shell", add_words, run_completion}});
        std::vector<Command> rows(own.begin(), own.end());
        for (auto const area : {look_commands(), event_commands(), top_commands()})
            rows.insert(rows.end(), area.begin(), area.end());
        std::ranges::sort(rows, {}, &Command::name);
        return rows;
    }();
    return all;
}

Command const* find_command(std::string_view name) {
    auto const row = std::ranges::find(commands(), name, &Command::name);
    return row == commands().end() ? nullptr : &*row;
}

std::string usage_text() {
    std::string text = "Usage: vminfo [OPTIONS] COMMAND ...\n\n";
    for (Command const& command : commands()) {
        std::string line = "  " + std::string(command.name) + " " + std::string(command.arguments);
        if (line.size() < 30) line.append(30 - line.size(), ' ');
        text += line + "  " + std::string(command.description) + "\n";
    }
    return text +
           "\nA VM is named by its uuid, by an unambiguous beginning of it, or by its alias. F=V is a condition as in\n"
           "`vmadm list`: state=running, alias=~^web, nics.*.ip=10.0.0.7\n\n"
           "  -E                 print errors as JSON, for programs\n"
           "  --root DIR         a directory to use instead of / [$TRITON_ROOT]\n"
           "  --socket PATH      vminfod's socket [/run/triton/vminfod.socket]\n"
           "  -h, --help         print this text, or the options of a command\n"
           "  -V, --version      print the version\n\n"
           "Examples:\n"
           "  vminfo events --until state=running --timeout 60 web0    waits until web0 runs\n"
           "  vminfo events --filter alias=~^web --field state -f      prints each change of state of these VMs\n"
           "  vminfo events -j --since 1000042                         prints what has happened since that event, and\n"
           "                                                           continues\n"
           "  vminfo top -s memory                                     shows what uses the memory\n"
           "  vminfo vms -o uuid,state tags.role=db                    prints some properties of some VMs\n"
           "  vminfo status -j -f                                      prints everything that vminfod knows of "
           "itself\n\n"
           "Exit codes: 0 success, 1 failure, 2 usage error, 3 vminfod does not run, 4 timeout.\n";
}

void build(CLI::App& app, Options& options, Command const*& chosen) {
    app.set_help_flag();
    auto const take_root = [&options](std::string const& directory) { options.root = root_prefix(directory); };
    app.add_option_function<std::string>("--root", take_root, "A directory to use instead of /.")
        ->envname("TRITON_ROOT");
    app.add_option("--socket", options.socket, "The socket of vminfod.");
    app.set_version_flag("-V,--version", "vminfo " TRITON_VERSION, "The version.");
    app.add_flag("-E", options.has_json_errors, "Errors as JSON.");
    for (Command const& command : commands()) {
        CLI::App& sub = *app.add_subcommand(std::string(command.name), std::string(command.description));
        sub.formatter(std::make_shared<UsageFormatter>("vminfo " + std::string(command.name), command.arguments));
        sub.set_help_flag("-h,--help", "The options of this command.");
        sub.callback([&chosen, &command] { chosen = &command; });
        sub.fallthrough();
        command.add_options(sub, options);
    }
    app.require_subcommand(1);
}

void add_words(CLI::App& app, Options& options) { app.add_option("words", options.words); }

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

Outcome expect_words(Options const& options, std::string_view command, std::size_t least, std::size_t most) {
    if (options.words.size() > most)
        return fail("too many arguments for " + std::string(command) + ": " + json::quoted(options.words[most]));
    if (options.words.size() < least) return fail("too few arguments for " + std::string(command));
    return {};
}

Result<bool> print(std::string_view text) {
    if (write_all(STDOUT_FILENO, text)) return true;
    if (errno == EPIPE) return false;
    return fail(ErrorKind::refused, "write the output", errno_text(errno));  // errno's own kind is about vminfod
}

}  // namespace triton::program
