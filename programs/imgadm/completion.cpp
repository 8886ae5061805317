#include "programs/imgadm/completion.h"

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "lib/json/text.h"

namespace triton::program {

namespace {

struct OptionWords {
    std::vector<std::string> names;  ///< "-o", "--output"
    std::string help;
    bool has_value = false;
};

std::vector<OptionWords> options_of(CLI::App const& app) {
    std::vector<OptionWords> all;
    for (CLI::Option const* const option : app.get_options()) {
        OptionWords words{.names = {}, .help = option->get_description(), .has_value = option->get_type_size() != 0};
        for (std::string const& name : option->get_snames())
            words.names.push_back("-" + name);
        for (std::string const& name : option->get_lnames())
            words.names.push_back("--" + name);
        if (!words.names.empty()) all.push_back(std::move(words));
    }
    return all;
}

std::vector<CLI::App const*> commands_of(CLI::App const& app) {
    return app.get_subcommands([](CLI::App const*) { return true; });
}

/// Commands whose words are images that are installed.
bool takes_images(CLI::App const& command) {
    for (CLI::Option const* const option : command.get_options()) {
        if (option->get_positional() && option->get_name() == "image") return true;
    }
    return false;
}

std::string quoted_for_shell(std::string_view text) {
    std::string out = "'";
    for (char const c : text)
        out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

constexpr std::string_view installed = "imgadm list -H -o uuid 2>/dev/null";

std::string words_of(CLI::App const& app) {
    std::string words;
    for (OptionWords const& option : options_of(app)) {
        for (std::string const& name : option.names)
            words += (words.empty() ? "" : " ") + name;
    }
    return words;
}

std::string bash(CLI::App const& app) {
    std::string names;
    std::string cases;
    for (CLI::App const* const command : commands_of(app)) {
        names += (names.empty() ? "" : " ") + command->get_name();
        cases += "        " + command->get_name() + ") words=" + quoted_for_shell(words_of(*command)) +
                 " images=" + (takes_images(*command) ? "yes" : "") + " ;;\n";
    }
    return "# bash completion for imgadm\n"
           "_imgadm() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} command= words= images= i\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }\n"
           "    done\n"
           "    case $command in\n" +
           cases + "        '') words=" + quoted_for_shell(words_of(app) + " " + names) +
           " ;;\n"
           "    esac\n"
           "    [[ -z $images || $word == -* ]] || words=$(" +
           std::string(installed) +
           ")\n"
           "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
           "    ((${#COMPREPLY[@]})) || compopt -o default\n"
           "}\n"
           "complete -F _imgadm imgadm\n";
}

std::string zsh_options(CLI::App const& app, std::string_view indent) {
    std::string text;
    for (OptionWords const& option : options_of(app)) {
        for (std::string const& name : option.names) {
            std::string help;
            for (char const c : option.help)
                help += c == '[' || c == ']' || c == ':' ? std::string("\\") + c : std::string(1, c);
            text += std::string(indent) +
                    quoted_for_shell(name + "[" + help + "]" + (option.has_value ? ":value:_files" : "")) + " \\\n";
        }
    }
    return text;
}

std::string zsh(CLI::App const& app) {
    std::string names;
    std::string cases;
    for (CLI::App const* const command : commands_of(app)) {
        names += "        " + quoted_for_shell(command->get_name() + ":" + command->get_description()) + "\n";
        cases += "        " + command->get_name() + ") _arguments \\\n" + zsh_options(*command, "            ") +
                 "            " + (takes_images(*command) ? "'*:image:_imgadm_images'" : "'*:file:_files'") + " ;;\n";
    }
    return "#compdef imgadm\n"
           "_imgadm_images() { compadd -- ${(f)\"$(" +
           std::string(installed) +
           ")\"} }\n"
           "_imgadm() {\n"
           "    local -a commands\n"
           "    commands=(\n" +
           names +
           "    )\n"
           "    local line state\n"
           "    _arguments -C \\\n" +
           zsh_options(app, "        ") +
           "        '1: :->command' '*:: :->words'\n"
           "    case $state in\n"
           "    command) _describe command commands ;;\n"
           "    words)\n"
           "        case $line[1] in\n" +
           cases +
           "        esac ;;\n"
           "    esac\n"
           "}\n"
           "_imgadm \"$@\"\n";
}

std::string fish_options(CLI::App const& app, std::string const& condition) {
    std::string text;
    for (OptionWords const& option : options_of(app)) {
        text += "complete -c imgadm" + condition;
        for (std::string const& name : option.names)
            text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
        text += std::string(option.has_value ? " -r" : "") + " -d " + quoted_for_shell(option.help) + "\n";
    }
    return text;
}

std::string fish(CLI::App const& app) {
    std::string text = "# fish completion for imgadm\n" + fish_options(app, "");
    for (CLI::App const* const command : commands_of(app)) {
        std::string const condition = " -n '__fish_seen_subcommand_from " + command->get_name() + "'";
        text += "complete -c imgadm -f -n __fish_use_subcommand -a " + command->get_name() + " -d " +
                quoted_for_shell(command->get_description()) + "\n" + fish_options(*command, condition);
        if (takes_images(*command))
            text += "complete -c imgadm -f" + condition + " -a '(" + std::string(installed) + ")'\n";
    }
    return text;
}

}  // namespace

Result<std::string> completion_for(CLI::App const& app, std::string_view shell) {
    if (shell == "bash") return bash(app);
    if (shell == "zsh") return zsh(app);
    if (shell == "fish") return fish(app);
    return fail(json::quoted(shell) + " is none of the shells bash, zsh, fish");
}

}  // namespace triton::program
