#include "launcher/wrap/wrap.h"
#include "lib/base/signal_names.h"

namespace triton::launcher {

namespace {

char const* end_of(char const* text) {
    while (*text)
        ++text;
    return text;
}

/// What follows `prefix` in `text`, or null.
char const* after(char const* text, char const* prefix) {
    while (*prefix) {
        if (*text++ != *prefix++) return nullptr;
    }
    return text;
}

bool is_same(char const* text, char const* end, char const* name) {
    while (text != end && *name && *text == *name) {
        ++text;
        ++name;
    }
    return text == end && !*name;
}

char const* base_name(char const* path) {
    char const* name = path;
    for (char const* at = path; *at; ++at) {
        if (*at == '/') name = at + 1;
    }
    return name;
}

Flavor flavor_of(char const* program) {
    char const* const name = base_name(program);
    char const* const end = end_of(name);
    if (is_same(name, end, "tini") || is_same(name, end, "tini-static") || is_same(name, end, "docker-init"))
        return Flavor::tini;
    if (is_same(name, end, "dumb-init")) return Flavor::dumb_init;
    if (is_same(name, end, "catatonit")) return Flavor::catatonit;
    return Flavor::triton_launch;
}

constexpr int row_count = sizeof wrap_option_rows / sizeof wrap_option_rows[0];

bool takes_value(WrapOption option) { return wrap_option_rows[static_cast<int>(option)].value_name[0] != 0; }

/// catatonit writes -L where tini writes -l.
int find_short(char name, Flavor flavor) {
    if (flavor == Flavor::catatonit && name == 'L') name = 'l';
    for (int row = 0; row < row_count; ++row) {
        if (wrap_option_rows[row].short_name == name) return row;
    }
    return -1;
}

int find_long(char const* name, char const* end) {
    for (int row = 0; row < row_count; ++row) {
        if (is_same(name, end, wrap_option_rows[row].long_name)) return row;
    }
    return -1;
}

/// Compares with names of environment variables: KILL_GROUP for kill-group.
int find_environment(char const* name, char const* end) {
    for (int row = 0; row < row_count; ++row) {
        char const* of_row = wrap_option_rows[row].long_name;
        char const* at = name;
        for (; at != end && *of_row; ++at, ++of_row) {
            char const upper = *of_row == '-' ? '_' : static_cast<char>(*of_row - 'a' + 'A');
            if (*at != upper) break;
        }
        if (at == end && !*of_row) return row;
    }
    return -1;
}

/// Applies one A:B, or several with blanks between them, as an environment variable has them.
WrapParse apply_rewrites(char const* text, WrapOptions& options) {
    while (*text) {
        char const* end = text;
        while (*end && *end != ' ')
            ++end;
        int from = 0;
        int to = 0;
        if (end != text && !parse_rewrite(text, end, from, to)) return WrapParse::bad_rewrite;
        options.rewrite[from] = static_cast<std::uint8_t>(to);
        text = *end ? end + 1 : end;
    }
    return WrapParse::wrap;
}

WrapParse apply(WrapOption option, char const* value, WrapOptions& options) {
    char const* const text = value ? value : "";  // null for options that take none
    char const* const end = end_of(text);
    switch (option) {
        case WrapOption::kill_group: options.group = true; return WrapParse::wrap;
        case WrapOption::single_child: options.group = options.session = false; return WrapParse::wrap;
        case WrapOption::subreaper: options.subreaper = true; return WrapParse::wrap;
        case WrapOption::warn_on_reap: options.warn_on_reap = true; return WrapParse::wrap;
        case WrapOption::verbose: ++options.verbosity; return WrapParse::wrap;
        case WrapOption::setsid: options.session = true; return WrapParse::wrap;
        case WrapOption::stop_timeout: options.stop_timeout_text = value; return WrapParse::wrap;
        case WrapOption::parent_death_signal:
            options.parent_death_signal = parse_signal(text, end);
            return options.parent_death_signal > 0 ? WrapParse::wrap : WrapParse::bad_signal;
        case WrapOption::remap_exit: {
            int const code = parse_small_number(text, end);
            if (code < 0 || code > 255) return WrapParse::bad_exit_code;
            options.remapped[code / 32] |= 1U << (code % 32);
            return WrapParse::wrap;
        }
        case WrapOption::rewrite: return apply_rewrites(text, options);
        case WrapOption::help:
        case WrapOption::version:
        case WrapOption::license: return WrapParse::information;
        case WrapOption::pause: options.pause = true; return WrapParse::wrap;
    }
    __builtin_unreachable();
}

/// Reads 1, true, yes, on; 0, false, no, off and the empty text. Returns -1 for anything else.
int parse_boolean(char const* text) {
    char const* const end = end_of(text);
    if (same_letters(text, end, "1") || same_letters(text, end, "TRUE") || same_letters(text, end, "YES") ||
        same_letters(text, end, "ON"))
        return 1;
    if (same_letters(text, end, "0") || same_letters(text, end, "FALSE") || same_letters(text, end, "NO") ||
        same_letters(text, end, "OFF") || text == end)
        return 0;
    return -1;
}

WrapParse apply_environment(char const* entry, WrapOptions& options) {
    if (char const* const name = after(entry, "TRITON_LAUNCH_")) {
        char const* equals = name;
        while (*equals && *equals != '=')
            ++equals;
        int const row = find_environment(name, equals);
        if (row < 0 || !*equals) return WrapParse::wrap;  // it belongs to another mode
        auto const option = static_cast<WrapOption>(row);
        if (!equals[1]) return WrapParse::wrap;  // set but empty means not set
        if (takes_value(option)) return apply(option, equals + 1, options);
        // Options that do not run a command are only for command lines.
        if (option >= WrapOption::help) return WrapParse::wrap;
        int const set = parse_boolean(equals + 1);
        if (set < 0) return WrapParse::bad_boolean;
        return set ? apply(option, nullptr, options) : WrapParse::wrap;
    }
    // tini asks only whether the variable is set; dumb-init compares it with one value.
    if (options.flavor == Flavor::dumb_init) {
        if (char const* const value = after(entry, "DUMB_INIT_SETSID="); value && is_same(value, end_of(value), "0"))
            options.group = options.session = false;
        if (char const* const value = after(entry, "DUMB_INIT_DEBUG="); value && is_same(value, end_of(value), "1"))
            options.verbosity = 2;
        return WrapParse::wrap;
    }
    if (after(entry, "TINI_SUBREAPER=")) options.subreaper = true;
    if (after(entry, "TINI_KILL_PROCESS_GROUP=")) options.group = true;
    if (char const* const value = after(entry, "TINI_VERBOSITY=")) {
        // tini counts from 1, "errors and warnings", which is our 0
        int const level = parse_small_number(value, end_of(value));
        if (level > 1) options.verbosity = level - 1;
    }
    return WrapParse::wrap;
}

/// One element of argv that begins with `-`. Advances `index` past its value.
WrapParse apply_argument(int argc, char** argv, int& index, WrapOptions& options) {
    char const* text = argv[index] + 1;
    if (*text == '-') {
        ++text;
        char const* equals = text;
        while (*equals && *equals != '=')
            ++equals;
        int const row = find_long(text, equals);
        if (row < 0) return WrapParse::unknown_option;
        auto const option = static_cast<WrapOption>(row);
        if (!takes_value(option)) return *equals ? WrapParse::unexpected_value : apply(option, nullptr, options);
        if (*equals) return apply(option, equals + 1, options);
        if (index + 1 >= argc) return WrapParse::missing_value;
        return apply(option, argv[++index], options);
    }
    for (; *text; ++text) {
        int const row = find_short(*text, options.flavor);
        if (row < 0) return WrapParse::unknown_option;
        auto const option = static_cast<WrapOption>(row);
        if (takes_value(option)) {
            if (text[1]) return apply(option, text + 1, options);
            if (index + 1 >= argc) return WrapParse::missing_value;
            return apply(option, argv[++index], options);
        }
        if (WrapParse const result = apply(option, nullptr, options); result != WrapParse::wrap) return result;
    }
    return WrapParse::wrap;
}

/// Whether an argument names the configuration, with whose programs the command is then to run.
bool names_configuration(char const* argument) {
    char const* rest = after(argument, "--input-dir");
    if (!rest) rest = after(argument, "--input-monitor-conf");
    return rest && (!*rest || *rest == '=');
}

/// Whether the command line is for the wrap mode: it has a `--` where an option may stand, or asks for a pause. Other
/// modes have neither, except for a command that runs with programs.
bool is_for_wrap(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        char const* const end = end_of(argv[i]);
        if (names_configuration(argv[i])) return false;
        if (is_same(argv[i], end, "--") || is_same(argv[i], end, "-P") || is_same(argv[i], end, "--pause")) return true;
    }
    return false;
}

}  // namespace

WrapParsed parse_wrap(int argc, char** argv, char** envp, WrapOptions& options) {
    if (argc < 1) return {WrapParse::not_wrap, 0, false};
    options.flavor = flavor_of(argv[0]);
    bool const needs_separator = options.flavor == Flavor::triton_launch;
    if (needs_separator && !is_for_wrap(argc, argv)) return {WrapParse::not_wrap, 0, false};

    for (int signo = 1; signo <= rtmax; ++signo)
        options.rewrite[signo] = static_cast<std::uint8_t>(signo);
    options.group = options.session = options.flavor == Flavor::dumb_init;
    for (int i = 0; envp[i]; ++i) {
        if (envp[i][0] != 'T' && envp[i][0] != 'D') continue;
        WrapParse const result = apply_environment(envp[i], options);
        if (result != WrapParse::wrap) return {result, i, true};
    }
    int index = 1;
    for (; index < argc && argv[index][0] == '-' && argv[index][1]; ++index) {
        if (argv[index][1] == '-' && !argv[index][2]) {
            ++index;
            break;
        }
        int const at = index;
        WrapParse const result = apply_argument(argc, argv, index, options);
        if (result != WrapParse::wrap) return {result, at, false};
    }
    if (options.pause) return {index < argc ? WrapParse::needless_command : WrapParse::wrap, index, false};
    if (index >= argc) return {WrapParse::no_command, argc - 1, false};
    // `triton-launch check -- FILE`: the separator belongs to somebody else
    bool const separated = index > 1 && is_same(argv[index - 1], end_of(argv[index - 1]), "--");
    if (needs_separator && !separated) return {WrapParse::not_wrap, index, false};
    options.command = index;
    // In tini's usage line a `--` follows the program. Its getopt(3), and that of catatonit, takes that away wherever
    // it stands, we do so only there.
    bool const permutes = options.flavor == Flavor::tini || options.flavor == Flavor::catatonit;
    options.drops_separator =
        permutes && !separated && index + 1 < argc && is_same(argv[index + 1], end_of(argv[index + 1]), "--");
    return {WrapParse::wrap, index, false};
}

}  // namespace triton::launcher
