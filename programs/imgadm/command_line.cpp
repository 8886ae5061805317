#include "programs/imgadm/command_line.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

#include "host/image/manifest.h"
#include "lib/command/mistakes.h"
#include "lib/command/words.h"
#include "lib/json/text.h"
#include "programs/completion/completion.h"
#include "programs/imgadm/listing.h"

namespace triton::program {

namespace {

std::vector<CommandRow> all_commands() {
    std::vector<CommandRow> all;
    for (auto const rows :
         {list_commands(), import_commands(), removal_commands(), source_commands(), content_commands()})
        all.insert(all.end(), rows.begin(), rows.end());
    return all;
}

/// The command of a line, or nothing. Options of the whole program may come before it.
std::string_view command_word(std::vector<std::string> const& words) {
    static constexpr std::array<std::string_view, 4> valued{"--root", "--progress", "-P", "--pool"};
    std::size_t const place = command::place_of_command(words, valued);
    return place < words.size() ? std::string_view(words[place]) : std::string_view();
}

struct Example {
    std::string_view command;
    std::string_view text;
};
constexpr auto examples = std::to_array<Example>({
    {"", "imgadm import docker.io/library/alpine:3.20"},
    {"", "imgadm list"},
    {"", "imgadm help import"},
    {"ancestry", "imgadm ancestry UUID"},
    {"avail", "imgadm avail os=linux name=~debian"},
    {"completion", ". <(imgadm completion bash)"},
    {"create", "imgadm create MACHINE -m manifest.json -o /var/tmp -c zstd"},
    {"create", "imgadm create MACHINE name=web version=1.0"},
    {"create", "echo '{\"name\": \"web\", \"version\": \"1\"}' | imgadm create ./root -m -"},
    {"delete", "imgadm delete UUID"},
    {"gc", "imgadm gc --dry-run"},
    {"get", "imgadm get docker.io/library/alpine:3.20"},
    {"import", "imgadm import docker.io/library/alpine:3.20"},
    {"import", "imgadm import oci:./layout:1.0"},
    {"import", "imgadm import --name web --image-version 1 ./web.tar.gz"},
    {"import", "imgadm import -m web-1.imgmanifest -f web-1.tar"},
    {"import", "imgadm import -S https://images.example.com UUID"},
    {"install", "imgadm install -m web-1.imgmanifest -f web-1.tar"},
    {"list", "imgadm list -o uuid,name,version,clones -s -size"},
    {"list", "imgadm list -j name=~alpine"},
    {"pin", "imgadm pin UUID"},
    {"publish", "imgadm create MACHINE -m manifest.json -o DIRECTORY"},
    {"reference", "imgadm reference manifest"},
    {"scrub", "imgadm scrub"},
    {"show", "imgadm show UUID"},
    {"sources", "imgadm sources -v"},
    {"sources", "imgadm sources add https://images.smartos.org"},
    {"sources", "imgadm sources add -t registry --authfile auth.json https://registry.example.com"},
    {"unpin", "imgadm unpin UUID"},
    {"update", "imgadm update --dry-run"},
    {"vacuum", "imgadm vacuum -n"},
    {"why", "imgadm why sha256:HEX"},
});

std::string examples_of(std::string_view command) {
    std::string text;
    for (Example const& example : examples)
        if (example.command == command) text += (text.empty() ? "Examples:\n  " : "\n  ") + std::string(example.text);
    return text;
}

/// Refuses an unknown command, because CLI11 only says that a word was not expected.
std::expected<void, Failure> check_command(std::vector<std::string> const& words) {
    std::string_view const word = command_word(words);
    std::vector<std::string_view> names{"completion", "reference"};
    for (CommandRow const& row : all_commands())
        names.push_back(row.name);
    if (word.empty() || word == "help" || std::ranges::find(names, word) != names.end()) return {};
    return std::unexpected(usage_failure(command::no_such_command("imgadm", word, std::move(names)).text()));
}

/// Turns `help list` into `list --help`.
std::vector<std::string> without_help_command(std::vector<std::string> words) {
    std::string_view const command = command_word(words);
    if (command != "help") return words;
    words.erase(
        std::ranges::find_if(words, [command](std::string const& word) { return word.data() == command.data(); }));
    words.emplace_back("--help");
    return words;
}

/// Whether the words of a command are installed images.
bool takes_images(CLI::App const& command) {
    return std::ranges::any_of(command.get_options(), [](CLI::Option const* option) {
        return option->get_positional() && option->get_name() == "image";
    });
}
constexpr Things images{"image", "imgadm list -H -o uuid 2>/dev/null", takes_images};

std::vector<Offer> offers() {
    std::vector<std::string> const columns = column_names();
    std::vector<std::string> filters;
    for (std::string const& column : columns)
        filters.push_back(column + "=");
    std::vector<Offer> all{{"", "--progress", {"auto", "line", "json", "none"}},
                           {"create", "-c", {"none", "gzip", "bzip2", "xz", "zstd"}},
                           {"create", "--format", {"tar", "zfs"}},
                           {"sources", "-t", {"imgapi", "directory", "registry"}},
                           {"sources", "--signature", {"required", "if-present", "none"}},
                           {"sources", "", {"add", "list", "remove"}},
                           {"completion", "", {"bash", "zsh", "fish"}},
                           {"reference", "", {"manifest", "sources"}}};
    for (char const* const command : {"list", "avail", "ancestry"}) {
        all.push_back({command, "-o", columns, true});
        all.push_back({command, "-s", columns, true});
        if (std::string_view(command) != "ancestry") all.push_back({command, "", filters});
    }
    return all;
}

/// The texts of commands that only print one: the callback of each command fills its own.
struct Texts {
    std::string shell;
    std::string page;
};

}  // namespace

std::unique_ptr<CLI::App> command_line_grammar(GlobalOptions& options, Run& run) {
    auto app = std::make_unique<CLI::App>("Manage the images of this host", "imgadm");
    app->set_help_flag("-h,--help", "print this text");
    app->add_flag("-E,--json-errors", options.has_json_errors, "print an error as a JSON object in one line");
    app->add_option("--root", options.root,
                    "use the state and configuration below this directory; default: $TRITON_ROOT")
        ->type_name("DIRECTORY");
    app->add_option("-P,--pool", options.pool, "the pool of this host, which has one: any other is an error")
        ->type_name("POOL");
    app->add_option("--progress", options.progress, "auto, line, json or none")
        ->check(CLI::IsMember({"auto", "line", "json", "none"}))
        ->capture_default_str();
    app->add_flag("-v,--verbose", options.is_verbose, "tell each phase also where standard error is not a terminal");
    app->set_version_flag("-V,--version", "imgadm " TRITON_VERSION, "print the version");
    app->require_subcommand(1);
    app->footer(examples_of(""));
    for (CommandRow const& row : all_commands()) {
        CLI::App* const command = app->add_subcommand(std::string(row.name), std::string(row.help));
        command->fallthrough();
        command->footer(examples_of(row.name));
        row.add(*command, run);
    }
    auto texts = std::make_shared<Texts>();
    CLI::App* const completion = app->add_subcommand("completion", "print the completion of a shell");
    completion->add_option("shell", texts->shell, "bash, zsh or fish")->required();
    completion->callback([texts, &run, grammar = app.get()] {
        auto text = completion_for(*grammar, texts->shell, images, offers());
        if (!text) throw CLI::ValidationError(text.error().text());
        run = [text = *std::move(text)](Context&) -> Outcome {
            TRY_RUN(Context::print(text));
            return {};
        };
    });
    // listed here for completions and for the list of commands; see parse_command_line()
    CLI::App* const help = app->add_subcommand("help", "print the options of a command, or all commands");
    help->add_option("command", texts->page, "the command");
    CLI::App* const reference = app->add_subcommand("reference", "print the reference page of manifests or sources");
    reference->add_option("page", texts->page, "manifest or sources")
        ->check(CLI::IsMember({"manifest", "sources"}))
        ->required();
    reference->callback([texts, &run] {
        run = [texts](Context&) -> Outcome {
            TRY_RUN(Context::print(texts->page == "manifest" ? image::manifest_reference_page()
                                                             : image::configuration_reference_page()));
            return {};
        };
    });
    return app;
}

std::expected<CommandLine, Failure> parse_command_line(std::vector<std::string> const& given) {
    auto const words = without_help_command(given);
    CommandLine line;
    if (auto const known = check_command(words); !known) return std::unexpected(known.error());
    auto const app = command_line_grammar(line.options, line.run);
    try {
        std::vector<std::string> reversed(words.rbegin(), words.rend());  // CLI11 wants them in this order
        app->parse(std::move(reversed));
    } catch (CLI::CallForHelp const&) {
        line.text = app->help();
    } catch (CLI::CallForAllHelp const&) {
        line.text = app->help("", CLI::AppFormatMode::All);
    } catch (CLI::CallForVersion const&) {
        line.text = "imgadm " TRITON_VERSION "\n";
    } catch (CLI::RequiredError const& error) {
        bool const has_command = !command_word(words).empty();
        return std::unexpected(usage_failure(has_command ? error.what() : command::missing_command("imgadm").text()));
    } catch (CLI::ParseError const& error) {
        return std::unexpected(usage_failure(command::mistake(*app, error).text()));
    }
    return line;
}

}  // namespace triton::program
