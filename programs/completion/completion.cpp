#include "programs/completion/completion.h"

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

std::string quoted_for_shell(std::string_view text) {
    std::string out = "'";
    for (char const c : text)
        out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

std::string words_of(CLI::App const& app) {
    std::string words;
    for (OptionWords const& option : options_of(app)) {
        for (std::string const& name : option.names)
            words += (words.empty() ? "" : " ") + name;
    }
    return words;
}

std::string bash(CLI::App const& app, Things const& things) {
    std::string const& program = app.get_name();
    std::string names;
    std::string cases;
    for (CLI::App const* const command : commands_of(app)) {
        names += (names.empty() ? "" : " ") + command->get_name();
        cases += "        " + command->get_name() + ") words=" + quoted_for_shell(words_of(*command)) +
                 " things=" + (things.are_words_of(*command) ? "yes" : "") + " ;;\n";
    }
    return "# bash completion for " + program + "\n_" + program +
           "() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} command= words= things= i\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }\n"
           "    done\n"
           "    case $command in\n" +
           cases + "        '') words=" + quoted_for_shell(words_of(app) + " " + names) +
           " ;;\n"
           "    esac\n"
           "    [[ -z $things || $word == -* ]] || words=$(" +
           std::string(things.lister) +
           ")\n"
           "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
           "    ((${#COMPREPLY[@]})) || compopt -o default\n"
           "}\n"
           "complete -F _" +
           program + " " + program + "\n";
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

std::string zsh(CLI::App const& app, Things const& things) {
    std::string const& program = app.get_name();
    std::string const things_function = "_" + program + "_" + std::string(things.name);
    std::string names;
    std::string cases;
    for (CLI::App const* const command : commands_of(app)) {
        names += "        " + quoted_for_shell(command->get_name() + ":" + command->get_description()) + "\n";
        cases += "        " + command->get_name() + ") _arguments \\\n" + zsh_options(*command, "            ") +
                 "            " +
                 (things.are_words_of(*command) ? "'*:" + std::string(things.name) + ":" + things_function + "'"
                                                : std::string("'*:file:_files'")) +
                 " ;;\n";
    }
    return "#compdef " + program + "\n" + things_function + "() { compadd -- ${(f)\"$(" + std::string(things.lister) +
           ")\"} }\n_" + program +
           "() {\n"
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
           "_" +
           program + " \"$@\"\n";
}

std::string fish_options(CLI::App const& app, std::string const& program, std::string const& condition) {
    std::string text;
    for (OptionWords const& option : options_of(app)) {
        text += "complete -c " + program + condition;
        for (std::string const& name : option.names)
            text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
        text += std::string(option.has_value ? " -r" : "") + " -d " + quoted_for_shell(option.help) + "\n";
    }
    return text;
}

std::string fish(CLI::App const& app, Things const& things) {
    std::string const& program = app.get_name();
    std::string text = "# fish completion for " + program + "\n" + fish_options(app, program, "");
    for (CLI::App const* const command : commands_of(app)) {
        std::string const condition = " -n '__fish_seen_subcommand_from " + command->get_name() + "'";
        text += "complete -c " + program + " -f -n __fish_use_subcommand -a " + command->get_name() + " -d " +
                quoted_for_shell(command->get_description()) + "\n" + fish_options(*command, program, condition);
        if (things.are_words_of(*command))
            text += "complete -c " + program + " -f" + condition + " -a '(" + std::string(things.lister) + ")'\n";
    }
    return text;
}

}  // namespace

Result<std::string> completion_for(CLI::App const& app, std::string_view shell, Things const& things) {
    if (shell == "bash") return bash(app, things);
    if (shell == "zsh") return zsh(app, things);
    if (shell == "fish") return fish(app, things);
    return fail(json::quoted(shell) + " is not one of the shells bash, zsh, fish");
}

}  // namespace triton::program
