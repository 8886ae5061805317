#include "programs/volumeadm/command_line.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include <unistd.h>

#include "lib/base/root_prefix.h"
#include "lib/base/write_all.h"
#include "lib/json/text.h"
#include "programs/completion/completion.h"
#include "programs/completion/usage_formatter.h"

namespace triton::program {

namespace {

/// Whether the words of a command are volumes.
bool takes_volumes(CLI::App const& command) {
    Command const* const row = find_command(command.get_name());
    return row && row->arguments.find("VOLUME") != std::string_view::npos;
}
constexpr Things volumes{"VOLUME", "volumeadm list -H -o key 2>/dev/null", takes_volumes};

std::vector<Offer> offers() {
    return {{"create", "--layout", {"directory", "file"}},
            {"import", "--format", {"raw", "iso", "qcow", "qcow2", "vmdk", "vhd", "vhdx", "container"}},
            {"list",
             "--kind",
             {"volumes", "content", "blobs", "downloads", "verifications", "certificates", "users", "disks"}},
            {"import", "--signature", {"minisign", "openpgp", "openpgp-sums", "cms", "x509"}},
            {"maintenance", "", {"on", "off"}},
            {"completion", "", {"bash", "zsh", "fish"}}};
}

Outcome run_completion(Options const& options) {
    TRY(expect_words(options, "completion", 1, 1));
    CLI::App grammar{"The volumes of this host", "volumeadm"};
    Options unused;
    Command const* none = nullptr;
    build(grammar, unused, none);
    std::string const text = TRY(completion_for(grammar, options.words.front(), volumes, offers()));
    TRY(print(text));
    return {};
}

}  // namespace

std::span<Command const> commands() {
    static std::vector<Command> const all = [] {
        static constexpr auto own =
            std::to_array<Command>({{"completion", "bash | zsh | fish", "prints the completion of a shell",
                                     ". <(volumeadm completion bash)", add_words, run_completion}});
        std::vector<Command> rows(own.begin(), own.end());
        for (auto const area : {look_commands(), change_commands(), transfer_commands()})
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
    std::string text = "Usage: volumeadm [OPTIONS] COMMAND ...\n\n";
    for (Command const& command : commands()) {
        std::string line = "  " + std::string(command.name) + " " + std::string(command.arguments);
        if (line.size() < 34) line.append(34 - line.size(), ' ');
        text += line + "  " + std::string(command.description) + "\n";
    }
    text +=
        "\nA volume is named by UUID#GENERATION, by its UUID when it has one generation, by an unambiguous beginning "
        "of\n"
        "that, or by its name.\n\n"
        "  -E                 print errors as JSON, for programs\n"
        "  --root DIR         a directory to use instead of / [$TRITON_ROOT]\n"
        "  --socket PATH      volumemgr's socket [/run/triton/volumemgr.socket]\n"
        "  -h, --help         print this text, or the options of a command\n"
        "  -V, --version      print the version\n\n"
        "Examples:\n";
    for (char const* const example :
         {"volumeadm create data", "volumeadm create --layout file --size 4Gi disk", "volumeadm why disk"})
        text += "  " + std::string(example) + "\n";
    return text + "\nExit codes: 0 success, 1 failure, 2 usage error, 3 volumemgr does not answer, 4 timeout.\n";
}

void build(CLI::App& app, Options& options, Command const*& chosen) {
    app.set_help_flag();
    auto const take_root = [&options](std::string const& directory) { options.root = root_prefix(directory); };
    app.add_option_function<std::string>("--root", take_root, "A directory to use instead of /.")
        ->envname("TRITON_ROOT");
    app.add_option("--socket", options.socket, "The socket of volumemgr.");
    app.set_version_flag("-V,--version", "volumeadm " TRITON_VERSION, "The version.");
    app.add_flag("-E", options.has_json_errors, "Errors as JSON.");
    for (Command const& command : commands()) {
        CLI::App& sub = *app.add_subcommand(std::string(command.name), std::string(command.description));
        sub.formatter(std::make_shared<UsageFormatter>("volumeadm " + std::string(command.name), command.arguments));
        sub.set_help_flag("-h,--help", "The options of this command.");
        sub.footer("Example:\n  " + std::string(command.example));
        sub.callback([&chosen, &command] { chosen = &command; });
        sub.fallthrough();
        command.add_options(sub, options);
    }
    app.require_subcommand(1);
}

void add_words(CLI::App& app, Options& options) { app.add_option("words", options.words); }

Outcome expect_words(Options const& options, std::string_view command, std::size_t least, std::size_t most) {
    if (options.words.size() > most)
        return fail("too many arguments for " + std::string(command) + ": " + json::quoted(options.words[most]));
    if (options.words.size() < least) return fail("too few arguments for " + std::string(command));
    return {};
}

Result<bool> print(std::string_view text) {
    if (write_all(STDOUT_FILENO, text)) return true;
    if (errno == EPIPE) return false;
    return fail(ErrorKind::refused, "write the output", errno_text(errno));  // errno's own kind is about volumemgr
}

}  // namespace triton::program
