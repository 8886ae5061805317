#include "launcher/plan/check.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/environment_file.h"
#include "launcher/plan/configuration_source.h"
#include "launcher/plan/document.h"
#include "launcher/plan/remarks.h"
#include "lib/base/read_file.h"
#include "lib/json/writer.h"

namespace triton::launcher {

namespace {

/// Appends a word as a shell would read it back: plain where that is enough, else in single quotes.
void append_quoted(std::string& out, std::string_view word) {
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%^";
    if (!word.empty() && word.find_first_not_of(plain) == word.npos) {
        out += word;
        return;
    }
    out += '\'';
    for (char const c : word) {
        if (c == '\'') {
            out += "'\\''";
        } else {
            out += c;
        }
    }
    out += '\'';
}

std::string_view name_in(std::string_view entry) { return entry.substr(0, entry.find('=')); }

/// Appends variables as a shell takes them before a command: it looks for the name before it looks at quotes. Of other
/// names env(1) makes variables, which gets words.
void append_assignments(std::string& out, std::vector<std::string> const& entries) {
    auto const is_good = [](std::string const& entry) { return config::is_variable_name(name_in(entry)); };
    bool const by_shell = std::ranges::all_of(entries, is_good);
    if (!by_shell) out += "env ";
    for (std::string_view const entry : entries) {
        std::string_view const plain = by_shell ? entry.substr(0, name_in(entry).size() + 1) : std::string_view();
        out += plain;
        if (plain.size() < entry.size()) append_quoted(out, entry.substr(plain.size()));
        out += ' ';
    }
}

std::vector<std::string> command_line(ProgramPlan const& program, std::uint32_t number) {
    std::vector<std::string> words = program.start->command().arguments(ProcessNumber{number});
    words.insert(words.begin(), program.start->program());
    return words;
}

using Entries = std::vector<std::string_view>;  // NAME=value, sorted

Entries entries_of(char const* const* environment) {
    Entries entries;
    for (; *environment; ++environment)
        entries.emplace_back(*environment);
    std::ranges::sort(entries);
    return entries;
}

/// The environment entries of a process that the launcher, which has `ours`, does not have itself.
std::vector<std::string> additions(ProgramPlan const& program, std::uint32_t number, Entries const& ours) {
    std::vector<std::string> added;
    for (std::string_view const entry : program.start->environment(ProcessNumber{number}).entries())
        if (!std::ranges::binary_search(ours, entry)) added.emplace_back(entry);
    for (process::CommandTemplate const& entries : program.start->numbered().environment) {
        for (std::string& entry : entries.arguments(ProcessNumber{number}))
            added.push_back(std::move(entry));
    }
    return added;
}

struct ShownProbe {
    std::string_view kind;
    std::string target;
    std::string_view name = {};  // of one of several checks
};

struct ShownProbes {
    std::optional<ShownProbe> readiness;
    std::vector<ShownProbe> health;
};

/// The probes that the agent makes for one process; no command line shows them.
ShownProbes network_probes(ProgramPlan const& program, std::uint32_t number) {
    auto const shown = [&](Helper which) -> std::optional<ShownProbe> {
        auto const& network = program.helper(which).network;
        if (!network) return std::nullopt;
        return ShownProbe{name_of(network->kind), network->target.arguments(ProcessNumber{number}).front()};
    };
    ShownProbes probes{.readiness = shown(Helper::readiness), .health = {}};
    auto const& checks = program.settings->health;
    for (std::size_t check = 0; check < checks.size(); ++check) {
        auto probe = shown(helper_of_check(check));
        if (!probe) continue;
        probe->name = checks[check].name;
        probes.health.push_back(std::move(*probe));
    }
    return probes;
}

struct ShownFile {
    std::string_view stream;
    std::string path;
};

/// The files of one process whose names are Arguments.
std::vector<ShownFile> argument_files(ProgramPlan const& program, std::uint32_t number) {
    std::vector<ShownFile> files;
    auto const add = [&](std::string_view stream, auto const& settings) {
        if (!settings.file_argument) return;
        auto const names = config::numbered_path(*settings.file_argument);
        files.push_back({stream, std::move(names.arguments(ProcessNumber{number}).front())});
    };
    add("stdin", program.settings->stdin_);
    add("stdout", program.settings->output);
    for (config::Output const& error : program.settings->output.error)
        add("stderr", error);
    return files;
}

CheckResult failed(CheckOptions const& options, std::vector<std::string> const& errors) {
    CheckResult result;
    result.exit_code = 1;
    if (options.as_json) {
        json::Writer out;
        result.output = out.open('{').member("valid", false).key("errors").list(errors).close('}').text() + "\n";
    } else {
        for (std::string const& error : errors) {
            bool const names_file = error.starts_with("cannot open " + options.configuration_path + ":") ||
                                    error.starts_with("cannot read " + options.configuration_path + ":");
            result.errors.append(names_file ? "triton-launch check" : options.configuration_path);
            result.errors.append(": ").append(error).append("\n");
        }
    }
    return result;
}

/// The processes of one program that would run; where runServers is false, those that would run if it were true.
struct Selection {
    ProgramPlan const& program;
    std::uint32_t first;
    std::uint32_t last;
};

std::string as_text(Accepted const& accepted, std::vector<Selection> const& selections, Entries const& ours) {
    std::string out;
    if (!accepted.configuration.run_servers) out += "# runServers is false: nothing runs. Otherwise:\n";
    for (std::string const& remark : accepted.remarks)
        out.append("# ").append(remark).append("\n");
    for (Selection const& selection : selections) {
        std::string const& name = selection.program.settings->name;
        if (!name.empty()) out.append("# ").append(name).append("\n");
        for (std::uint32_t number = selection.first; number <= selection.last; ++number) {
            append_assignments(out, additions(selection.program, number, ours));
            for (std::string const& word : command_line(selection.program, number)) {
                append_quoted(out, word);
                out += ' ';
            }
            out.back() = '\n';
            ShownProbes const probes = network_probes(selection.program, number);
            if (probes.readiness) out.append("#   readiness: ").append(probes.readiness->target).append("\n");
            for (ShownProbe const& probe : probes.health) {
                out.append("#   health");
                if (!probe.name.empty()) out.append(" ").append(probe.name);
                out.append(": ").append(probe.target).append("\n");
            }
            for (ShownFile const& file : argument_files(selection.program, number))
                out.append("#   ").append(file.stream).append(": ").append(file.path).append("\n");
        }
    }
    return out;
}

void write_probe(json::Writer& out, ShownProbe const& probe) {
    out.open('{');
    if (!probe.name.empty()) out.member("name", probe.name);
    out.member("type", probe.kind).member("target", std::string_view(probe.target)).close('}');
}

/// Writes one check without a name as an object and others as a list, as a configuration has them.
void write_checks(json::Writer& out, std::vector<ShownProbe> const& checks) {
    if (checks.empty()) return;
    out.key("health");
    if (checks.front().name.empty()) return write_probe(out, checks.front());
    out.open('[');
    for (ShownProbe const& check : checks)
        write_probe(out, check);
    out.close(']');
}

void write_planned_process(json::Writer& out, ProgramPlan const& program, std::uint32_t number, Entries const& ours) {
    out.open('{');
    if (!program.settings->name.empty()) out.member("program", program.settings->name);
    out.member("process", number).key("command").list(command_line(program, number));
    out.key("environment").list(additions(program, number, ours));
    ShownProbes const probes = network_probes(program, number);
    if (probes.readiness) write_probe(out.key("readiness"), *probes.readiness);
    write_checks(out, probes.health);
    for (ShownFile const& file : argument_files(program, number))
        out.key(file.stream).value(std::string_view(file.path));
    out.close('}');
}

std::string as_json(Accepted const& accepted, std::vector<Selection> const& selections, Entries const& ours) {
    json::Writer out;
    out.open('{').member("valid", true).member("version", accepted.configuration.version);
    out.member("runServers", accepted.configuration.run_servers).key("variables").open('{');
    for (config::Reference const& variable : accepted.variables)
        out.name(variable.name).value(variable.value.value_or(""));
    out.close('}');
    if (!accepted.remarks.empty()) out.key("remarks").list(accepted.remarks);
    out.key("processes").open('[');
    for (Selection const& selection : selections) {
        for (std::uint32_t number = selection.first; number <= selection.last; ++number)
            write_planned_process(out, selection.program, number, ours);
    }
    return out.close(']').close('}').text() + "\n";
}

/// How many processes a program is configured to have, whether or not it is to run them.
std::uint32_t count_of(Accepted const& accepted, ProgramPlan const& program, SourceOptions const& options) {
    if (accepted.configuration.has_programs) return program.settings->count.value_or(1);
    return accepted.configuration.count.value_or(options.server_count);
}

/// Its directory, which others would be relative to, is unknown.
Result<std::vector<config::Layer>> piped_document() {
    auto document = one_layer(read_standard_input(json::Limits{}.document_bytes));
    if (document && !config::includes_of(document->front().text).empty())
        return fail("include: only a file can include others: give its path instead of -");
    return document;
}

}  // namespace

CheckResult check(CheckOptions const& options, char const* const* environment) {
    bool const is_piped = options.configuration_path == "-";
    auto document = is_piped ? piped_document() : read_document(options.configuration_path).layers;
    auto loaded =
        load_configuration(read_source(std::move(document), options.source), options.source, environment,
                           options.is_strict ? BinaryCheck::required : BinaryCheck::skipped, LoadKind::whole, nullptr);
    if (!loaded) {
        std::vector<std::string> all = loaded.error().errors;
        all.insert(all.end(), loaded.error().warnings.begin(), loaded.error().warnings.end());
        return failed(options, all);
    }
    if (!loaded->warnings.empty()) return failed(options, loaded->warnings);
    if (options.is_merged) return {.output = loaded->text + "\n", .errors = {}};
    for (auto const& remarks : {remarks_on_words(*loaded), remarks_on_stops(*loaded),
                                remarks_on_rights(*loaded, SignalRights::own()), options.remarks})
        loaded->remarks.insert(loaded->remarks.end(), remarks.begin(), remarks.end());

    std::uint32_t highest = 0;
    std::vector<Selection> selections;
    for (auto const& program : loaded->programs) {
        std::uint32_t const count = count_of(*loaded, *program, options.source);
        highest = std::max(highest, count);
        std::uint32_t const first = options.process_number.value_or(1);
        std::uint32_t const last = std::min(count, options.process_number.value_or(count));
        selections.push_back({*program, first, last});
    }
    if (options.process_number && *options.process_number > highest) {
        return failed(options, {"--process-number: there is no process " + std::to_string(*options.process_number) +
                                ", only " + std::to_string(highest)});
    }
    CheckResult result;
    Entries const ours = entries_of(environment);
    result.output = options.as_json ? as_json(*loaded, selections, ours) : as_text(*loaded, selections, ours);
    return result;
}

}  // namespace triton::launcher
