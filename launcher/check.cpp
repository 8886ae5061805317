#include "launcher/check.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/read_file.h"
#include "config/json_text.h"
#include "launcher/configuration_source.h"

namespace triton::launcher {

namespace {

/// As a shell would take it back: plain where that is plain, else in single quotes.
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

void append_strings(std::string& out, std::vector<std::string> const& texts) {
    out += '[';
    for (std::string const& text : texts) {
        if (&text != &texts.front()) out += ',';
        config::append_json_string(out, text);
    }
    out += ']';
}

std::vector<std::string> command_line(Accepted const& accepted, std::uint32_t number) {
    std::vector<std::string> words = accepted.plan->command().arguments(ProcessNumber{number});
    words.insert(words.begin(), accepted.plan->program());
    return words;
}

/// The entries that the processes get and the launcher does not have itself.
std::vector<std::string> additions(Accepted const& accepted, char const* const* environment) {
    std::vector<std::string> added;
    for (std::string const& entry : accepted.plan->environment()) {
        bool is_ours = false;
        for (char const* const* at = environment; *at && !is_ours; ++at)
            is_ours = entry == *at;
        if (!is_ours) added.push_back(entry);
    }
    return added;
}

CheckResult failed(CheckOptions const& options, std::vector<std::string> const& errors) {
    CheckResult result;
    result.exit_code = 1;
    if (options.as_json) {
        result.output = R"({"valid":false,"errors":)";
        append_strings(result.output, errors);
        result.output += "}\n";
    } else {
        for (std::string const& error : errors)
            result.errors.append(options.configuration_path).append(": ").append(error).append("\n");
    }
    return result;
}

struct Range {
    std::uint32_t first;
    std::uint32_t last;
};

std::string as_text(Accepted const& accepted, Range range, std::vector<std::string> const& added) {
    std::string out;
    if (!accepted.configuration.run_servers) out += "# runServers is false: nothing runs. Otherwise:\n";
    for (std::uint32_t number = range.first; number <= range.last; ++number) {
        for (std::string const& entry : added) {
            append_quoted(out, entry);
            out += ' ';
        }
        for (std::string const& word : command_line(accepted, number)) {
            append_quoted(out, word);
            out += ' ';
        }
        out.back() = '\n';
    }
    return out;
}

std::string as_json(Accepted const& accepted, Range range, std::vector<std::string> const& added) {
    std::string out = R"({"valid":true,"version":)";
    config::append_json_string(out, accepted.configuration.version);
    out.append(R"(,"runServers":)").append(accepted.configuration.run_servers ? "true" : "false");
    out += R"(,"variables":{)";
    for (config::Reference const& variable : accepted.variables) {
        if (&variable != &accepted.variables.front()) out += ',';
        config::append_json_string(out, variable.name);
        out += ':';
        config::append_json_string(out, variable.value.value_or(""));
    }
    out += R"(},"processes":[)";
    for (std::uint32_t number = range.first; number <= range.last; ++number) {
        if (number != range.first) out += ',';
        out.append(R"({"process":)").append(std::to_string(number)).append(R"(,"command":)");
        append_strings(out, command_line(accepted, number));
        out += R"(,"environment":)";
        append_strings(out, added);
        out += '}';
    }
    return out += "]}\n";
}

}  // namespace

CheckResult check(CheckOptions const& options, char const* const* environment) {
    std::size_t const limit = config::Limits{}.document_bytes;
    bool const is_piped = options.configuration_path == "-";
    auto const text = is_piped ? read_standard_input(limit) : read_file(options.configuration_path, limit);
    auto const loaded = load_configuration(text, options.source, environment,
                                           options.is_strict ? BinaryCheck::required : BinaryCheck::skipped);
    if (!loaded) {
        std::vector<std::string> all = loaded.error().errors;
        all.insert(all.end(), loaded.error().warnings.begin(), loaded.error().warnings.end());
        return failed(options, all);
    }
    if (!loaded->warnings.empty()) return failed(options, loaded->warnings);

    // What would run; with runServers false, what would run without it.
    std::uint32_t const count = loaded->configuration.count.value_or(options.source.server_count);
    Range range{1, count};
    if (options.process_number) {
        if (*options.process_number > count) {
            return failed(options, {"--process-number: there is no process " + std::to_string(*options.process_number) +
                                    ", only " + std::to_string(count)});
        }
        range = {*options.process_number, *options.process_number};
    }
    std::vector<std::string> const added = additions(*loaded, environment);
    CheckResult result;
    result.output = options.as_json ? as_json(*loaded, range, added) : as_text(*loaded, range, added);
    return result;
}

}  // namespace triton::launcher
