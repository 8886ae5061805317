"""Completion scripts, made from the grammar of the command line: no option is missing in one of them."""

import shlex

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "triton-launch-convert"
FILES = {"output", "report"}  # options whose values are files


def completion(parser, shell):
    """The script for a shell."""
    options = [action for action in parser._actions if action.option_strings]  # argparse has no other way to list them
    return {"bash": bash, "zsh": zsh, "fish": fish}[shell](options)


def takes_value(option):
    return option.nargs != 0


def bash(options):
    values, files, nothing = "", [], []
    for option in filter(takes_value, options):
        if option.choices:
            values += f"    {' | '.join(option.option_strings)}) words={shlex.quote(' '.join(option.choices))} ;;\n"
        else:
            (files if option.dest in FILES else nothing).extend(option.option_strings)
    return f"""\
# bash completion for {PROGRAM}: source <({PROGRAM} completion bash)

_triton_launch_convert() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} index=$((COMP_CWORD - 1)) flag='' words='' i
    COMPREPLY=()
    # Readline splits at =, so an option, = and its value come as three words.
    [[ $cur != = ]] || {{ cur=''; ((++index)); }}
    [[ ${{COMP_WORDS[index]}} != = ]] || ((index -= 1))
    ((index < 1)) || flag=${{COMP_WORDS[index]}}
    for ((i = 1; i < COMP_CWORD; ++i)); do
        [[ ${{COMP_WORDS[i]}} != -- ]] || flag=--
    done
    case $flag in
{values}    {' | '.join(files)} | --) ;;
    {' | '.join(nothing)}) return ;;
    completion)
        ((COMP_CWORD != 2)) || words='{' '.join(SHELLS)}'
        ;;
    *)
        if [[ $cur == -* ]]; then
            words='{' '.join(name for option in options for name in option.option_strings)}'
        elif ((COMP_CWORD == 1)) && [[ -n $cur && completion == "$cur"* ]]; then
            words=completion
        fi
        ;;
    esac
    if [[ -n $words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    fi
    if [[ -z $words || $words == completion ]]; then
        compopt -o filenames
        mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$cur")
    fi
}}

complete -F _triton_launch_convert {PROGRAM}
"""


def zsh(options):
    lines = ""
    for option in options:
        help_text = option.help.replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
        value = ""
        if option.choices:
            value = f":{option.metavar.lower()}:({' '.join(option.choices)})"
        elif takes_value(option):
            value = f":{option.metavar.lower()}:" + ("_files" if option.dest in FILES else "")
        names = option.option_strings
        excluded = "(" + " ".join(names) + ")"
        for name in names:
            name += "=" if value and name.startswith("--") else ""  # with = or as a word of its own
            lines += f"        {zsh_quoted(excluded + name + '[' + help_text + ']' + value)} \\\n"
    return f"""\
#compdef {PROGRAM}
# zsh completion for {PROGRAM}: source <({PROGRAM} completion zsh), or a file _{PROGRAM} in $fpath

_triton_launch_convert() {{
    if ((CURRENT == 3)) && [[ $words[2] == completion ]]; then
        compadd -- {' '.join(SHELLS)}
        return
    fi
    _arguments -S \\
{lines}        '*:input:_files'
}}

if [[ $funcstack[1] == _triton[-_]launch[-_]convert ]]; then
    _triton_launch_convert "$@"
else
    compdef _triton_launch_convert {PROGRAM}
fi
"""


def zsh_quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def fish(options):
    lines = ""
    for option in options:
        line = f"complete -c {PROGRAM}"
        for name in option.option_strings:
            line += f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
        if option.choices:
            line += f" -xa '{' '.join(option.choices)}'"
        elif takes_value(option):
            line += " -rF" if option.dest in FILES else " -x"
        lines += line + " -d " + fish_quoted(option.help) + "\n"
    first = "test (count (commandline -opc)) -eq 1"
    second = "test (count (commandline -opc)) -eq 2; and test (commandline -opc)[2] = completion"
    return f"""\
# fish completion for {PROGRAM}: {PROGRAM} completion fish | source

{lines}complete -c {PROGRAM} -n '{first}' -a completion -d 'Print a completion script'
complete -c {PROGRAM} -n '{second}' -fa '{' '.join(SHELLS)}'
"""


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
