#include "config/process_configuration.h"

#include <algorithm>
#include <array>
#include <new>

#include "config/program_parser.h"
#include "config/reading.h"
#include "lib/base/nearest.h"
#include "lib/json/writer.h"

namespace triton::config {

namespace {

void parse_version(json::Node const& node, json::Where const& at, ProcessConfiguration& configuration,
                   Reading& reading) {
    std::string const* const version = expect_string(node, at, reading);
    if (!version) return;
    if (std::string fault = version_fault(*version); !fault.empty()) reading.problems.add(at, std::move(fault));
    configuration.version = *version;
}

void refuse_beside_programs(json::Where const& at, Reading& reading) {
    if (reading.has_programs) reading.problems.add(at, "cannot be used together with programs");
}

void parse_count(json::Node const& node, json::Where const& at, ProcessConfiguration& configuration, Reading& reading) {
    refuse_beside_programs(at, reading);
    configuration.count = Count::read(node, at, reading);
}

void parse_arguments(json::Node const& node, json::Where const& at, ProcessConfiguration& configuration,
                     Reading& reading) {
    refuse_beside_programs(at, reading);
    if (auto arguments = read_arguments(node, at, reading)) configuration.arguments = std::move(*arguments);
}

constexpr json::NeededWhen<Reading> without_programs{
    [](Reading const& reading) { return !reading.has_programs && !reading.may_mean_programs; },
    "required without `programs`"};
constexpr json::Shape program{.types = "object", .definition = "Program"};
constexpr json::Shape program_map_shape{
    .types = "object", .elements = &program, .names = "^(?!triton-)[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"};

constexpr json::Shape include_shape{.types = "array", .elements = &json::some_text};

/// Refuses `include`: where including is possible, the key does not get this far.
void parse_include(json::Node const& node, json::Where const& at, ProcessConfiguration&, Reading& reading) {
    auto const paths = json::List<json::Text>::read(node, at, reading);
    if (!paths || paths->empty()) return;
    if (paths->size() > most_layers)
        return reading.problems.add(at, "more than " + std::to_string(most_layers) + " files");
    reading.problems.add(at, "only the configuration file itself can include others, and only if it has at most " +
                                 std::to_string(most_including_bytes) + " bytes");
}

/// Whether an object has a key that is not null.
bool has_key(json::Object const& json, std::string_view key) {
    auto const member = std::ranges::find(json, key, &json::Member::key);
    return member != json.end() && !member->node.get<json::Null>();
}

}  // namespace

std::span<Field<ProcessConfiguration> const> table(TableOf<ProcessConfiguration>) {
    static constexpr auto rows = std::to_array<Field<ProcessConfiguration>>({
        {.name = "version",
         .needed_when = without_programs,
         .value = {&version_shape, parse_version},
         .description = "The version of the program to run. It decides which binary is used."},
        {.name = "runServers",
         .value = as<&ProcessConfiguration::run_servers, json::Boolean>,
         .description = "False: run no process, and stop running ones. The default is true."},
        {.name = "count",
         .value = {&Count::shape, parse_count},
         .description = "How many processes to run. It overrides the number given on the command line."},
        {.name = "arguments",
         .value = {&argument_list_shape, parse_arguments},
         .description = "The arguments of the program, without its own name."},
        {.name = "programs",
         .value = {&program_map_shape, parse_programs},
         .description =
             "Named programs, instead of the one that `version`, `count` and `arguments` describe. A name begins with "
             "a letter or a digit, with up to 63 more of them or of `.`, `_` and `-`. Names that begin with `triton-` "
             "are reserved for the launcher. Up to 1024 programs, and 65535 processes in all."},
        {.name = "include",
         .value = {&include_shape, parse_include},
         .description =
             "Further files, whose content is merged into this document in the given order (RFC 7396: objects key by "
             "key, null removes a key, everything else is replaced). A path is relative to the directory of this "
             "document; its last part may be a pattern (`conf.d/*.json`), whose matches are taken in the order of "
             "their names. Only the document itself can include others, and is then a file of at most 64 KiB."},
    });
    return rows;
}

namespace {

Draft out_of_memory() {
    Draft draft;
    draft.problems = {{"", "out of memory"}};
    return draft;
}

void read_root(json::Node const& root, Draft& draft, Reading& reading) {
    json::Where const document;
    auto const* const json = expect<json::Object>("an object", root, document, reading);
    if (!json) return;
    reading.has_programs = has_key(*json, "programs");
    reading.has_version = has_key(*json, "version");
    reading.may_mean_programs = std::ranges::any_of(*json, [](json::Member const& member) {
        static constexpr std::array<std::string_view, 1> meant{"programs"};
        return member.key != meant[0] && nearest(member.key, meant);
    });
    draft.configuration.has_programs = reading.has_programs;
    parse_fields(*json, document, draft.configuration, reading);
    draft.is_object = true;
}

}  // namespace

Draft read(std::string_view text, Limits const& limits) try {
    Reading reading{limits};
    Draft draft;
    auto const root = json::read_json(text, limits.document, reading.problems);
    reading.may_repeat_keys = !reading.problems.empty();
    if (root) read_root(*root, draft, reading);
    draft.problems = std::move(reading.problems).take();
    draft.warnings = std::move(reading.warnings).take();
    return draft;
} catch (std::bad_alloc const&) {
    return out_of_memory();
}

namespace {

/// How many JSON values a node has in all.
std::size_t values_of(json::Node const& node) {
    std::size_t count = 1;
    if (auto const* const members = node.get<json::Object>()) {
        for (json::Member const& member : *members)
            count += values_of(member.node);
    } else if (auto const* const elements = node.get<json::Array>()) {
        for (json::Node const& element : *elements)
            count += values_of(element);
    }
    return count;
}

}  // namespace

Draft read(std::span<Layer const> layers, Limits const& limits) try {
    if (layers.size() == 1 && !layers.front().is_including) return read(layers.front().text, limits);
    Draft draft;
    draft.layers.emplace(layers, limits, draft.problems);
    auto const root = draft.layers->merged();
    if (!root) return draft;
    Reading reading{limits};
    reading.may_repeat_keys = !draft.problems.empty();
    read_root(*root, draft, reading);
    auto const add = [&](json::Problems& all, json::ProblemList&& found) {
        for (json::Problem& problem : std::move(found).take()) {
            std::string place = problem.where;
            if (!problem.key.empty()) json::append_step(place, std::string_view(problem.key));
            if (!place.empty()) problem.file = draft.layers->file_of(place);
            all.push_back(std::move(problem));
        }
    };
    add(draft.problems, std::move(reading.problems));
    add(draft.warnings, std::move(reading.warnings));
    draft.merged = json::Writer().value(*root).text();
    // After an upgrade the next version reads it as one document.
    bool const is_too_large =
        draft.merged.size() > limits.document.document_bytes || values_of(*root) > limits.document.values;
    if (is_too_large) draft.problems.push_back({"", "its files together are larger than one document may be"});
    return draft;
} catch (std::bad_alloc const&) {
    return out_of_memory();
}

std::expected<Parsed, json::Problems> parse(std::string_view text, Limits const& limits) {
    Draft draft = read(text, limits);
    if (!draft.problems.empty()) return std::unexpected(std::move(draft.problems));
    return Parsed{std::move(draft.configuration), std::move(draft.warnings)};
}

}  // namespace triton::config
