#include "host/machine/launch_report.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/json/lookup.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"

namespace triton::machine {

namespace {

enum class Sight : std::uint8_t {
    open,
    secret,  ///< it may quote the configuration
};

/// A member of a report that is kept. Without `members` it is a plain value or a list of texts. Otherwise it is an
/// object, or a list of objects, of which these members are kept.
struct Kept {
    std::string_view name;
    Sight sight = Sight::open;
    std::span<Kept const> members = {};
};

constexpr auto exit_members = std::to_array<Kept>({{"code"}, {"signal"}, {"error", Sight::secret}, {"oom_killed"}});
constexpr auto process_members = std::to_array<Kept>({{"number"},
                                                      {"state"},
                                                      {"version"},
                                                      {"pid"},
                                                      {"starts"},
                                                      {"restarts"},
                                                      {"ready"},
                                                      {"last_exit", Sight::open, exit_members},
                                                      {"status", Sight::secret}});
constexpr auto program_members = std::to_array<Kept>({{"name"},
                                                      {"kind"},
                                                      {"version"},
                                                      {"internal"},
                                                      {"wanted"},
                                                      {"ready"},
                                                      {"processes", Sight::open, process_members}});
constexpr auto reporter_members = std::to_array<Kept>({{"state"}, {"detail", Sight::secret}});
constexpr auto launcher_members = std::to_array<Kept>({{"version"},
                                                       {"pid"},
                                                       {"phase"},
                                                       {"configuration"},
                                                       {"has_configuration"},
                                                       {"ready"},
                                                       {"rejection", Sight::secret},
                                                       {"configuration_changes"},
                                                       {"configuration_time"},
                                                       {"isolated"},
                                                       {"reporter", Sight::open, reporter_members},
                                                       {"programs"}});
/// We add "error" ourselves: see too_long().
constexpr auto report_members = std::to_array<Kept>(
    {{"launcher", Sight::open, launcher_members}, {"programs", Sight::open, program_members}, {"error"}});

/// Whether a value cannot hide an object with unknown members.
bool is_plain(json::Node const& node) {
    auto const* const list = node.get<json::Array>();
    if (!list) return !node.get<json::Object>();
    return std::ranges::all_of(*list, [](json::Node const& one) { return one.get<std::string>() != nullptr; });
}

json::Object kept_of(json::Object const& object, std::span<Kept const> members, bool with_secrets);

/// The recursion is as deep as the tables above.
json::Node kept_of(json::Node const& node, std::span<Kept const> members, bool with_secrets) {
    auto const* const list = node.get<json::Array>();
    if (!list) {
        auto const* const object = node.get<json::Object>();
        return {object ? kept_of(*object, members, with_secrets) : json::Object{}};
    }
    json::Array kept;
    for (json::Node const& element : *list) {
        if (auto const* const object = element.get<json::Object>())
            kept.push_back({kept_of(*object, members, with_secrets)});
    }
    return {std::move(kept)};
}

json::Object kept_of(json::Object const& object, std::span<Kept const> members, bool with_secrets) {
    json::Object kept;
    for (Kept const& member : members) {
        if (member.sight == Sight::secret && !with_secrets) continue;
        json::Node const* const node = json::member(object, member.name);
        if (!node) continue;
        if (!member.members.empty())
            kept.push_back({std::string(member.name), kept_of(*node, member.members, with_secrets)});
        else if (is_plain(*node))
            kept.push_back({std::string(member.name), *node});
    }
    return kept;
}

bool is_too_long(json::Object const& report) {
    json::Writer out;
    out.value(report);
    return out.size() > most_report_bytes;
}

json::Object too_long() {
    std::string text = "it reports more than " + std::to_string(most_report_bytes >> 10) + " KiB";
    return {{"error", {std::move(text)}}};
}

}  // namespace

json::Object lasting_report(json::Object const& reported) {
    json::Object report = kept_of(reported, report_members, true);
    return is_too_long(report) ? too_long() : report;
}

std::optional<json::Object> read_report(std::string_view reported) {
    json::ProblemList problems(1);
    auto node = json::read_json(reported, {}, problems);
    auto* const object = node ? std::get_if<json::Object>(&node->value) : nullptr;
    return object ? std::optional(lasting_report(*object)) : std::nullopt;
}

std::vector<std::string> first_rejection(json::Object const& lasting) {
    auto const* const launcher = json::value_of<json::Object>(lasting, "launcher");
    auto const* const changes = launcher ? json::value_of<std::int64_t>(*launcher, "configuration_changes") : nullptr;
    bool const has_none = changes && *changes == 0;
    return has_none ? shown_reasons(*launcher, "rejection") : std::vector<std::string>();
}

std::vector<std::string> shown_reasons(json::Object const& object, std::string_view name) {
    constexpr std::size_t most_reasons = 20;
    constexpr std::size_t most_bytes = 1000;
    std::vector<std::string> reasons;
    auto const* const list = json::value_of<json::Array>(object, name);
    for (json::Node const& reason : list ? *list : json::Array()) {
        auto const* const text = reason.get<std::string>();
        if (text && reasons.size() < most_reasons)
            reasons.push_back(json::printable(std::string_view(*text).substr(0, most_bytes)));
    }
    return reasons;
}

json::Object open_report(json::Object const& lasting) { return kept_of(lasting, report_members, false); }

}  // namespace triton::machine
