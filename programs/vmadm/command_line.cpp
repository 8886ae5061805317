#include "programs/vmadm/command_line.h"

#include <algorithm>

#include "programs/completion/usage_formatter.h"

namespace triton::program {

std::unexpected<Failure> usage(std::string text) { return std::unexpected(Failure{fail(std::move(text)).error(), 2}); }

std::unexpected<Failure> failed(ErrorKind kind, std::string text) {
    return std::unexpected(Failure{fail(kind, std::move(text)).error()});
}

Command const* find_command(std::string_view name) {
    auto const row = std::ranges::find_if(commands(), [name](Command const& command) {
        return command.name == name || (!command.alias.empty() && command.alias == name);
    });
    return row == commands().end() ? nullptr : &*row;
}

std::string usage_text() {
    std::string text = "Usage: vmadm [OPTIONS] COMMAND ...\n\n";
    for (Command const& command : commands()) {
        std::string line = "  " + std::string(command.name) + " " + std::string(command.arguments);
        if (line.size() < 44) line.append(44 - line.size(), ' ');
        text += line + "  " + std::string(command.description) + "\n";
    }
    return text +
           "\nA VM is named by its uuid, by an unambiguous beginning of it, or by its alias; start, stop, reboot,\n"
           "kill, delete, stats and upgrade-launcher also take filters, as list does: vmadm stop alias=~^web\n\n"
           "  -E                 print errors as JSON, for programs\n"
           "  -q, --quiet        print no progress and no notes\n"
           "  --root DIR         a directory to use instead of / [$TRITON_ROOT]\n"
           "  -h, --help         print this text, or the options of a command\n"
           "  --version          print the version\n\n"
           "Exit codes: 0 success, 1 failure, 2 usage error.\n";
}

void build(CLI::App& app, Options& options, Command const*& chosen) {
    app.set_help_flag();
    app.add_option("--root", options.root, "A directory to use instead of /.")->envname("TRITON_ROOT");
    app.set_version_flag("--version", "vmadm " TRITON_VERSION, "The version.");
    app.add_flag("-E", options.has_json_errors, "Errors as JSON.");
    app.add_flag("-q,--quiet", options.is_quiet, "No progress, no notes.");
    for (Command const& command : commands()) {
        CLI::App& sub = *app.add_subcommand(std::string(command.name), std::string(command.description));
        sub.formatter(std::make_shared<UsageFormatter>("vmadm " + std::string(command.name), command.arguments));
        if (!command.alias.empty()) sub.alias(std::string(command.alias));
        // `list -h` forces the header
        sub.set_help_flag(command.name == "list" ? "--help" : "-h,--help", "The options of this command.");
        sub.positionals_at_end(false);
        sub.callback([&chosen, &command, &options, &sub] {
            chosen = &command;
            if (command.takes_command) options.words = sub.remaining();
        });
        sub.fallthrough(!command.takes_command);
        sub.prefix_command(command.takes_command);
        command.add_options(sub, options);
    }
    app.require_subcommand(1);
}

}  // namespace triton::program
