#include "programs/vmadm/command_line.h"

#include <algorithm>
#include <array>

#include <unistd.h>

#include "host/machine/listing.h"
#include "lib/base/root_prefix.h"
#include "lib/base/write_all.h"
#include "programs/completion/usage_formatter.h"

namespace triton::program {

namespace {

/// An example of a command, which is most of its help. In a pipe of two programs the other one may be left out.
struct Example {
    std::string_view command;
    std::string_view text;
};
constexpr auto examples = std::to_array<Example>({
    {"clone", "vmadm clone web0 alias=web1 ram=512"},
    {"clone", "vmadm clone web0 --snapshot before alias=old"},
    {"completion", ". <(vmadm completion bash)"},
    {"console", "vmadm console web0"},
    {"cp", "vmadm cp web0:/etc/hosts hosts"},
    {"cp", "vmadm cp site web0:/srv/site"},
    {"create", "vmadm create -f web0.json"},
    {"create", "vmadm create debian alias=web0 ram=1G cpu_cap=200"},
    {"create",
     "echo '{\"brand\": \"lx\", \"image_uuid\": \"UUID\", \"alias\": \"web0\", \"ram\": 512}' | vmadm create"},
    {"create-snapshot", "vmadm create-snapshot web0 before"},
    {"delete", "vmadm delete web0 web1"},
    {"delete-snapshot", "vmadm delete-snapshot web0 before"},
    {"events", "vmadm events web0"},
    {"events", "vmadm events -j"},
    {"exec", "vmadm exec web0 /bin/ps -ef"},
    {"get", "vmadm get web0"},
    {"history", "vmadm history web0"},
    {"install", "vmadm install web0"},
    {"kill", "vmadm kill -s SIGHUP web0"},
    {"kill", "vmadm kill -9 web0"},
    {"list", "vmadm list"},
    {"list", "vmadm list -o uuid,alias,state,nics.0.ip -s -ram,alias"},
    {"list", "vmadm list -p -o uuid state=running alias=~^web tags.role=db"},
    {"list-snapshots", "vmadm list-snapshots web0"},
    {"logs", "vmadm logs -f web0"},
    {"lookup", "vmadm lookup -1 alias=web0"},
    {"lookup", "vmadm lookup -j -o uuid,nics state=running"},
    {"reboot", "vmadm reboot web0"},
    {"receive", "ssh otherhost vmadm send web0 | vmadm receive"},
    {"recover", "vmadm recover"},
    {"rename", "vmadm rename web0 web1"},
    {"reference", "vmadm reference"},
    {"reprovision", "echo '{\"image_uuid\": \"UUID\"}' | vmadm reprovision web0"},
    {"rollback-snapshot", "vmadm rollback-snapshot web0 before"},
    {"send", "vmadm send web0 >web0.stream"},
    {"start", "vmadm start web0"},
    {"stats", "vmadm stats"},
    {"stop", "vmadm stop -t 10 web0"},
    {"stop", "vmadm stop -F alias=~^web"},
    {"update", "vmadm update web0 ram=1024 cpu_cap=200"},
    {"update", "vmadm update -n web0 alias=web1"},
    {"update", "echo '{\"set_tags\": {\"role\": \"db\"}, \"remove_nics\": [\"MAC\"]}' | vmadm update web0"},
    {"upgrade-launcher", "vmadm upgrade-launcher state=running"},
    {"validate", "vmadm validate create -f web0.json"},
    {"validate", "vmadm validate update lx -f change.json"},
});

std::string examples_of(std::string_view command) {
    std::string text;
    for (Example const& example : examples)
        if (example.command == command) text += (text.empty() ? "Examples:\n  " : "\n  ") + std::string(example.text);
    return text;
}

}  // namespace

void tell_error(Error const& error, bool as_json) {
    (void)write_all(STDERR_FILENO, machine::error_text(error, as_json));  // nobody to tell
}

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
           "  -v, --verbose      print each step, also where standard error is not a terminal\n"
           "  -d, --debug        the same with the time, and each request to vminfod\n"
           "  --root DIR         a directory to use instead of / [$TRITON_ROOT]\n"
           "  -h, --help         print this text, or the options of a command\n"
           "  -V, --version      print the version\n\n"
           "Examples:\n"
           "  vmadm create debian alias=web0 ram=1G       makes a VM of an installed image and starts it\n"
           "  vmadm create -f web0.json                   the same from a JSON payload\n"
           "  vmadm list -o uuid,alias,state,nics.0.ip    prints a table\n"
           "  vmadm get web0                              prints all properties of a VM\n"
           "  vmadm update web0 ram=1024 cpu_cap=200      changes a VM while it runs\n"
           "  vmadm stop alias=~^web                      stops all VMs whose alias begins with web\n"
           "  vmadm help COMMAND                          prints the options of a command\n\n"
           "Exit codes: 0 success, 1 failure, 2 usage error.\n";
}

void build(CLI::App& app, Options& options, Command const*& chosen) {
    app.set_help_flag();
    auto const take_root = [&options](std::string const& directory) { options.root = root_prefix(directory); };
    app.add_option_function<std::string>("--root", take_root, "A directory to use instead of /.")
        ->envname("TRITON_ROOT");
    app.set_version_flag("-V,--version", "vmadm " TRITON_VERSION, "The version.");
    app.add_flag("-E", options.has_json_errors, "Errors as JSON.");
    app.add_flag("-q,--quiet", options.is_quiet, "No progress, no notes.");
    app.add_flag("-v,--verbose", options.is_verbose, "Prints each step, also where standard error is not a terminal.");
    app.add_flag("-d,--debug", options.is_debug, "The same with the time, and each request to vminfod.");
    for (Command const& command : commands()) {
        CLI::App& sub = *app.add_subcommand(std::string(command.name), std::string(command.description));
        sub.formatter(std::make_shared<UsageFormatter>("vmadm " + std::string(command.name), command.arguments));
        sub.footer(examples_of(command.name));
        if (!command.alias.empty()) sub.alias(std::string(command.alias));
        // in `list`, -h forces the header
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
