#include "host/network/tags.h"

#include <algorithm>
#include <optional>

#include "lib/base/read_file.h"
#include "lib/json/table.h"
#include "lib/json/values.h"

namespace triton::network {

namespace {

constexpr std::size_t most_tag_bytes = 1 << 20;
constexpr std::size_t longest_tag = 31;
constexpr std::size_t most_tag_problems = 10;

bool is_tag(std::string_view tag) {
    return !tag.empty() && tag.size() <= longest_tag && std::ranges::all_of(tag, [](char c) {
        return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' || c == '/';
    });
}

std::optional<std::string> read_link_name(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    if (is_link_name(*text)) return *text;
    reading.problems.add(at, json::quoted(*text) + " is not the name of a link");
    return std::nullopt;
}
constexpr json::Shape link_shape{.types = "string", .shortest = 1, .longest = 15};
using LinkName = json::Kind<read_link_name, link_shape>;

/// A tag as in the file: exactly one of the members is set.
struct TagKeys {
    std::string bridge = {};
    std::string macvlan = {};
};
std::span<json::Field<TagKeys> const> table(json::TableOf<TagKeys, json::Reading>) {
    static constexpr auto rows = std::to_array<json::Field<TagKeys>>({
        {.name = "bridge",
         .value = json::as<&TagKeys::bridge, LinkName>,
         .description = "A bridge of the host: each NIC becomes a port of it."},
        {.name = "macvlan",
         .value = json::as<&TagKeys::macvlan, LinkName>,
         .description = "A link of the host: each NIC becomes a second hardware address of it."},
    });
    return rows;
}

std::optional<std::vector<NicTag>> read_tags(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto const* const object = json::expect<json::Object>("an object", node, at, reading);
    if (!object) return std::nullopt;
    std::vector<NicTag> tags;
    for (json::Member const& member : *object) {
        json::Where const place{&at, member.key};
        if (!is_tag(member.key))
            reading.problems.add(place, "a nic_tag has letters, digits, \"_\" and \"/\" only, at most 31");
        auto keys = json::read_object<TagKeys>(member.node, place, reading);
        if (!keys) continue;
        if (keys->bridge.empty() == keys->macvlan.empty())
            reading.problems.add(place, "expected one of \"bridge\" and \"macvlan\"");
        bool const is_bridge = !keys->bridge.empty();
        tags.push_back({member.key, is_bridge ? Attachment::bridge : Attachment::macvlan,
                        is_bridge ? std::move(keys->bridge) : std::move(keys->macvlan)});
    }
    return tags;
}
constexpr json::Shape tags_shape{.types = "object"};
using TagMap = json::Kind<read_tags, tags_shape>;

struct NetworkKeys {
    std::vector<NicTag> nic_tags = {};
};
std::span<json::Field<NetworkKeys> const> table(json::TableOf<NetworkKeys, json::Reading>) {
    static constexpr auto rows = std::to_array<json::Field<NetworkKeys>>({
        {.name = "nic_tags",
         .value = json::as<&NetworkKeys::nic_tags, TagMap>,
         .description = "The networks of the host, by the names that NICs have for them."},
    });
    return rows;
}

}  // namespace

bool is_link_name(std::string_view name) {
    constexpr std::size_t longest = 15;
    return !name.empty() && name.size() <= longest && name != "." && name != ".." &&
           std::ranges::none_of(name, [](char c) {
               return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f || c == '/' || c == ':' || c == '"';
           });
}

Result<Tags> Tags::parse(std::string_view text, std::string const& path) {
    json::Reading reading(most_tag_problems);
    json::Where const top{};
    NetworkKeys keys;
    auto const node = json::read_json(text, json::Limits{.document_bytes = most_tag_bytes}, reading.problems);
    auto const* const object = node ? json::expect<json::Object>("an object", *node, top, reading) : nullptr;
    for (json::Member const& member : object ? *object : json::Object{}) {
        if (member.key != "network") continue;
        json::Where const place{&top, "network"};
        if (auto read = json::read_object<NetworkKeys>(member.node, place, reading)) keys = std::move(*read);
    }
    // otherwise a misspelt key would silently have no effect
    auto problems = std::move(reading.problems).take();
    for (json::Problem& warning : std::move(reading.warnings).take())
        problems.push_back(std::move(warning));
    if (problems.empty()) return Tags(std::move(keys.nic_tags));
    Error error = fail(path + ": " + problems.front().text()).error();
    for (std::size_t i = 1; i < problems.size(); ++i)
        error.details.push_back(problems[i].text());
    return std::unexpected(std::move(error));
}

Result<Tags> Tags::read(std::string const& path) {
    auto const text = read_file(path, most_tag_bytes);
    if (!text && text.error().kind == ErrorKind::not_found) return Tags();
    if (!text) return std::unexpected(text.error());
    return parse(*text, path);
}

NicTag const* Tags::find(std::string_view name) const {
    auto const found = std::ranges::find(tags_, name, &NicTag::name);
    return found == tags_.end() ? nullptr : &*found;
}

Result<NicTag> Tags::get(std::string_view name) const {
    if (NicTag const* const tag = find(name)) return *tag;
    std::string known;
    for (NicTag const& tag : tags_)
        known += (known.empty() ? "" : ", ") + tag.name;
    return fail(ErrorKind::not_found,
                "unknown nic_tag " + json::quoted(name) +
                    (known.empty() ? " (this host has none: define it in network.nic_tags of triton.json)"
                                   : " (known: " + known + ")"));
}

}  // namespace triton::network
