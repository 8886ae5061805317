#include "sidecar/agent/ui_request.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <optional>

#include "lib/json/lookup.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"

namespace triton::agent {

namespace {

constexpr int lines_of_answer = 300;
constexpr std::size_t longest_name = 512;

struct CommandRow {
    std::string_view name;
    std::string_view method;
    bool has_program;
    bool has_signal;
    std::string_view not_alone = {};  ///< of commands that are not given while other programs are concerned
    bool may_take_long = false;
};
constexpr std::string_view starts_first = "it requires programs that do not run, start them first: ";
constexpr std::array<CommandRow, 5> commands{
    {{"start", "Start", true, false, starts_first},
     {"stop", "Stop", true, false, "programs that run require it, stop them first: "},
     {"restart", "Restart", true, false, starts_first},
     {"signal", "Signal", true, true},
     {"reload", "Reload", false, false, {}, true}}};

using Failure = std::unexpected<std::string>;

std::string launcher_method(std::string_view name) { return "org.tritonlaunch.Launcher." + std::string(name); }

std::expected<json::Object, std::string> parse_members(std::string_view body,
                                                       std::initializer_list<std::string_view> known) {
    json::ProblemList problems{1};
    auto const document = json::read_json(body, json::Limits{}, problems);
    auto const* const members = document ? document->get<json::Object>() : nullptr;
    if (!members || !problems.empty()) return Failure("the body is not a JSON object");
    for (json::Member const& member : *members) {
        if (std::ranges::find(known, member.key) == known.end())
            return Failure("unknown member " + json::shown(member.key));
    }
    return *members;
}

/// Reads a number; a missing one is null and not an error.
std::expected<std::optional<std::int64_t>, std::string> number_in(json::Object const& members, std::string_view name,
                                                                  std::int64_t least, std::int64_t most) {
    json::Node const* const node = json::member(members, name);
    if (!node || node->get<json::Null>()) return std::nullopt;
    auto const* const number = node->get<std::int64_t>();
    if (!number || *number < least || *number > most)
        return Failure("\"" + std::string(name) + "\" is not a number from " + std::to_string(least) + " to " +
                       std::to_string(most));
    return *number;
}

std::expected<std::string, std::string> text_in(json::Object const& members, std::string_view name) {
    auto const* const text = json::value_of<std::string>(members, name);
    if (!text || text->size() > longest_name)
        return Failure("\"" + std::string(name) + "\" is not a text of at most " + std::to_string(longest_name) +
                       " bytes");
    return *text;
}

/// Writes program and process into the call. Returns them as words.
std::expected<std::string, std::string> write_selection(json::Object const& members, json::Writer& out) {
    auto const program = text_in(members, "program");
    if (!program) return Failure(program.error());
    auto const process = number_in(members, "process", 1, std::numeric_limits<std::uint32_t>::max());
    if (!process) return Failure(process.error());
    out.member("program", *program);
    std::string words = json::shown(*program);
    if (*process) {
        out.member("process", **process);
        words.append(" ").append(std::to_string(**process));
    }
    return words;
}

}  // namespace

std::expected<UiCall, std::string> parse_ui_command(std::string_view body) {
    auto const members = parse_members(body, {"command", "program", "process", "signal"});
    if (!members) return Failure(members.error());
    std::string const name = json::text_of(*members, "command");
    auto const row = std::ranges::find(commands, name, &CommandRow::name);
    if (row == commands.end()) return Failure("\"command\" is not one of start, stop, restart, signal, reload");
    UiCall call{launcher_method(row->method), {}, name, row->may_take_long, std::string(row->not_alone)};
    json::Writer out;
    out.open('{');
    if (row->has_program) {
        auto const words = write_selection(*members, out);
        if (!words) return Failure(words.error());
        call.text.append(" ").append(*words);
    } else if (json::member(*members, "program") || json::member(*members, "process")) {
        return Failure("\"" + name + "\" has no program");
    }
    if (!row->not_alone.empty()) out.member("alone", true);
    if (row->has_signal) {
        auto const signal = text_in(*members, "signal");
        if (!signal) return Failure(signal.error());
        out.member("signal", *signal);
        call.text.append(" ").append(json::shown(*signal));
    } else if (json::member(*members, "signal")) {
        return Failure("\"" + name + "\" has no signal");
    }
    call.parameters = std::move(out.close('}')).text();
    return call;
}

std::expected<UiCall, std::string> parse_ui_logs(std::string_view body) {
    auto const members = parse_members(body, {"program", "process", "after"});
    if (!members) return Failure(members.error());
    json::Writer out;
    out.open('{');
    auto const words = write_selection(*members, out);
    if (!words) return Failure(words.error());
    auto const after = number_in(*members, "after", 0, std::numeric_limits<std::int64_t>::max());
    if (!after) return Failure(after.error());
    if (*after) out.member("after", **after);
    out.member("lines", lines_of_answer);
    return UiCall{launcher_method("Logs"), std::move(out.close('}')).text(), "logs " + *words};
}

std::expected<std::uint64_t, std::string> parse_ui_after(std::string_view body) {
    auto const members = parse_members(body, {"after"});
    if (!members) return Failure(members.error());
    auto const after = number_in(*members, "after", 0, std::numeric_limits<std::int64_t>::max());
    if (!after) return Failure(after.error());
    return static_cast<std::uint64_t>(after->value_or(0));
}

}  // namespace triton::agent
