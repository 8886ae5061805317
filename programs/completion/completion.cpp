#include "programs/completion/completion.h"

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "lib/base/joined.h"
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
        OptionWords words{
            .names = {}, .help = option->get_description(), .has_value = option->get_items_expected_max() != 0};
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

/// The words offered for the value of an option, or nullptr. `option`: null for the words of the command.
Offer const* find_offer(std::span<Offer const> offers, std::string const& command, OptionWords const* option) {
    auto const is_it = [&](Offer const& offer) {
        if (!offer.command.empty() && offer.command != command) return false;
        if (!option) return offer.option.empty();
        return std::ranges::find(option->names, offer.option) != option->names.end();
    };
    auto const found = std::ranges::find_if(offers, is_it);
    return found == offers.end() ? nullptr : &*found;
}

/// The names of a command: "kill" and its other names.
std::vector<std::string> names_of(CLI::App const& command) {
    std::vector<std::string> names{command.get_name()};
    names.insert(names.end(), command.get_aliases().begin(), command.get_aliases().end());
    return names;
}

/// Lists of words for bash. A long list that is used in several places is written once.
class BashWords {
public:
    /// The text that assigns the words: "'a b'", or "$list1".
    std::string text(std::vector<std::string> const& words) {
        constexpr std::size_t longest = 100;
        std::string quoted = quoted_for_shell(joined(words));
        if (quoted.size() <= longest) return quoted;
        auto const found = std::ranges::find(lists_, quoted);
        auto const number = static_cast<std::size_t>(found - lists_.begin()) + 1;
        if (found == lists_.end()) lists_.push_back(std::move(quoted));
        return "$list" + std::to_string(number);
    }
    [[nodiscard]] std::string declarations() const {
        std::string lines;
        for (std::size_t i = 0; i < lists_.size(); ++i)
            lines += "    local list" + std::to_string(i + 1) + "=" + lists_[i] + "\n";
        return lines;
    }

private:
    std::vector<std::string> lists_;
};

/// Writes the values of a command's options, as cases of "COMMAND:OPTION". Without an offer the value is a file.
std::string bash_values(CLI::App const& command, std::vector<std::string> const& names, std::span<Offer const> offers,
                        BashWords& lists) {
    std::string cases;
    for (OptionWords const& option : options_of(command)) {
        if (!option.has_value) continue;
        std::vector<std::string> places;
        for (std::string const& name : names)
            for (std::string const& word : option.names)
                places.push_back(name + ":" + word);
        Offer const* const offer = find_offer(offers, command.get_name(), &option);
        cases += "        " + joined(places, "|") + ") things= keys= words=" + (offer ? lists.text(offer->texts) : "") +
                 (offer && offer->is_list ? " list=yes" : "") + " ;;\n";
    }
    return cases;
}

/// Writes the completion for bash. Readline splits words at "=", so what follows an "=" is left to the user. `compgen
/// -W` expands its words as the shell does, commands in them too, so it gets only words of ours: a name of a thing may
/// be any text.
std::string bash(CLI::App const& app, Things const& things, std::span<Offer const> offers) {
    std::string const& program = app.get_name();
    std::string names, cases, values, with_value;
    BashWords lists;
    for (CLI::App const* const command : commands_of(app)) {
        auto const own = names_of(*command);
        Offer const* const offer = find_offer(offers, command->get_name(), nullptr);
        names += (names.empty() ? "" : " ") + joined(own);
        cases += "        " + joined(own, "|") + ") words=" + quoted_for_shell(words_of(*command)) +
                 " things=" + (things.are_words_of(*command) ? "yes" : "") +
                 " keys=" + (offer ? lists.text(offer->texts) : "") + " ;;\n";
        values += bash_values(*command, own, offers, lists);
    }
    values += bash_values(app, {"*"}, offers, lists);
    for (OptionWords const& option : options_of(app))
        if (option.has_value) with_value += (with_value.empty() ? "" : "|") + joined(option.names, "|");
    return "# bash completion for " + program + "\n_" + program +
           "() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
           "    local command= words= things= keys= list= begun= name= names=() i\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        case ${COMP_WORDS[i]} in\n"
           "        " +
           with_value +
           ") i=$((i + 1)) ;;\n"
           "        -*) ;;\n"
           "        *) command=${COMP_WORDS[i]}; break ;;\n"
           "        esac\n"
           "    done\n"
           "    [[ $previous != = && $word != = ]] || return 0\n" +
           lists.declarations() + "    case $command in\n" + cases +
           "        '') words=" + quoted_for_shell(words_of(app) + " " + names) +
           " ;;\n"
           "    esac\n"
           "    case $command:$previous in\n" +
           values +
           "    esac\n"
           "    if [[ -n $list ]]; then\n"
           "        begun=${word%\"${word##*,}\"}\n"
           "        mapfile -t COMPREPLY < <(compgen -P \"$begun\" -W \"$words\" -- \"${word##*,}\")\n"
           "        return 0\n"
           "    fi\n"
           "    if [[ $word != -* && -n $things$keys ]]; then\n"
           "        words=$keys\n"
           "        [[ -z $things ]] || mapfile -t names < <(" +
           std::string(things.lister) +
           ")\n"
           "    fi\n"
           "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
           "    for name in \"${names[@]}\"; do\n"
           "        printf -v name %q \"$name\"\n"
           "        [[ $name != \"$word\"* || $name == \"''\" ]] || COMPREPLY+=(\"$name\")\n"
           "    done\n"
           "    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace\n"
           "    ((${#COMPREPLY[@]})) || compopt -o default\n"
           "}\n"
           "complete -F _" +
           program + " " + program + "\n";
}

/// The action of zsh for the value of an option.
std::string zsh_value(Offer const* offer) {
    if (!offer) return ":value:_files";
    std::string const texts = joined(offer->texts);
    return offer->is_list ? ":value:_sequence compadd - " + texts : ":value:(" + texts + ")";
}

std::string zsh_options(CLI::App const& app, std::span<Offer const> offers, std::string_view indent) {
    std::string text;
    for (OptionWords const& option : options_of(app)) {
        for (std::string const& name : option.names) {
            std::string help;
            for (char const c : option.help)
                help += c == '[' || c == ']' || c == ':' ? std::string("\\") + c : std::string(1, c);
            Offer const* const offer = find_offer(offers, app.get_name(), &option);
            text += std::string(indent) +
                    quoted_for_shell(name + "[" + help + "]" + (option.has_value ? zsh_value(offer) : "")) + " \\\n";
        }
    }
    return text;
}

std::string zsh_words(CLI::App const& command, Things const& things, std::string const& things_function,
                      Offer const* offer) {
    bool const has_things = things.are_words_of(command);
    std::string const name = has_things ? std::string(things.name) : "word";
    if (has_things && offer)
        return quoted_for_shell("*:" + name + ":{ " + things_function + "; compadd -S \"\" -- " + joined(offer->texts) +
                                " }");
    if (has_things) return "'*:" + name + ":" + things_function + "'";
    if (offer) return quoted_for_shell("*:word:(" + joined(offer->texts) + ")");
    return "'*:file:_files'";
}

std::string zsh(CLI::App const& app, Things const& things, std::span<Offer const> offers) {
    std::string const& program = app.get_name();
    std::string const things_function = "_" + program + "_" + std::string(things.name);
    std::string names;
    std::string cases;
    for (CLI::App const* const command : commands_of(app)) {
        for (std::string const& name : names_of(*command))
            names += "        " + quoted_for_shell(name + ":" + command->get_description()) + "\n";
        cases += "        " + joined(names_of(*command), "|") + ") _arguments \\\n" +
                 zsh_options(*command, offers, "            ") + "            " +
                 zsh_words(*command, things, things_function, find_offer(offers, command->get_name(), nullptr)) +
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
           zsh_options(app, offers, "        ") +
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

std::string fish_options(CLI::App const& app, std::string const& program, std::string const& condition,
                         std::span<Offer const> offers) {
    std::string text;
    for (OptionWords const& option : options_of(app)) {
        text += "complete -c " + program + condition;
        for (std::string const& name : option.names)
            text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
        if (Offer const* const offer = find_offer(offers, app.get_name(), &option); offer && option.has_value)
            text += " -x -a " + quoted_for_shell(offer->is_list ? "(__fish_append , " + joined(offer->texts) + ")"
                                                                : joined(offer->texts));
        else if (option.has_value)
            text += " -r";
        text += " -d " + quoted_for_shell(option.help) + "\n";
    }
    return text;
}

std::string fish(CLI::App const& app, Things const& things, std::span<Offer const> offers) {
    std::string const& program = app.get_name();
    std::string text = "# fish completion for " + program + "\n" + fish_options(app, program, "", offers);
    for (CLI::App const* const command : commands_of(app)) {
        std::string const condition = " -n '__fish_seen_subcommand_from " + joined(names_of(*command)) + "'";
        for (std::string const& name : names_of(*command))
            text += "complete -c " + program + " -f -n __fish_use_subcommand -a " + name + " -d " +
                    quoted_for_shell(command->get_description()) + "\n";
        text += fish_options(*command, program, condition, offers);
        if (things.are_words_of(*command))
            text += "complete -c " + program + " -f" + condition + " -a '(" + std::string(things.lister) + ")'\n";
        if (Offer const* const offer = find_offer(offers, command->get_name(), nullptr))
            text +=
                "complete -c " + program + " -f" + condition + " -a " + quoted_for_shell(joined(offer->texts)) + "\n";
    }
    return text;
}

}  // namespace

Result<std::string> completion_for(CLI::App const& app, std::string_view shell, Things const& things,
                                   std::span<Offer const> offers) {
    if (shell == "bash") return bash(app, things, offers);
    if (shell == "zsh") return zsh(app, things, offers);
    if (shell == "fish") return fish(app, things, offers);
    return fail(json::quoted(shell) + " is not one of the shells bash, zsh, fish");
}

}  // namespace triton::program
