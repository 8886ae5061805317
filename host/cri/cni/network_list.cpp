#include "host/cri/cni/network_list.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lib/json/lookup.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"

namespace triton::cri {

namespace {

constexpr std::array<std::string_view, 7> versions{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};
constexpr std::size_t most_plugins = 64;
constexpr std::size_t most_addresses = 64;
constexpr std::size_t most_error_bytes = 1024;

std::ptrdiff_t rank_of(std::string_view version) {
    auto const found = std::ranges::find(versions, version);
    return found == versions.end() ? -1 : found - versions.begin();
}

Result<std::string> version_of(json::Object const& object, std::string const& path) {
    std::string best = json::text_of(object, "cniVersion");
    for (json::Node const& node : json::list_of(object, "cniVersions"))
        if (auto const* const text = node.get<std::string>(); text && rank_of(*text) > rank_of(best)) best = *text;
    if (best.empty()) best = versions.front();  // as the specification says
    if (rank_of(best) < 0)
        return fail(ErrorKind::unsupported,
                    path + ": version " + json::quoted(best) + " of the configuration is not supported");
    return best;
}

/// The name of a plugin is the name of a file.
bool is_plugin_type(std::string const& type) {
    return !type.empty() && type.find('/') == std::string::npos && type != "." && type != "..";
}

bool is_left_out(std::string_view key) {
    return key == "capabilities" || key == "runtimeConfig" || key == "prevResult" || key == "name" ||
           key == "cniVersion" || key == "cni.dev/valid-attachments";
}

/// Only what the plugin has said that it takes.
void add_capabilities(json::Writer& out, json::Object const& plugin, std::string const& capabilities) {
    json::ProblemList problems(1);
    auto const offered = capabilities.empty() ? std::nullopt : json::read_json(capabilities, {}, problems);
    auto const* const object = offered ? offered->get<json::Object>() : nullptr;
    if (!object) return;
    json::Object const& wanted = json::object_of(plugin, "capabilities");
    json::Object given;
    for (json::Member const& member : *object)
        if (json::flag_of(wanted, member.key)) given.push_back(member);
    if (!given.empty()) out.key("runtimeConfig").value(given);
}

std::string without_prefix(std::string const& address) { return address.substr(0, address.find('/')); }

/// Before 0.3.0 there was one address of each family.
std::vector<std::string> old_addresses(json::Object const& result) {
    std::vector<std::string> found;
    for (std::string_view const family : {"ip4", "ip6"})
        if (std::string const address = json::text_of(json::object_of(result, family), "ip"); !address.empty())
            found.push_back(without_prefix(address));
    return found;
}

bool is_inside(json::Array const& interfaces, json::Object const& address, std::string const& name) {
    auto const index = json::number_of(address, "interface");
    if (!index || interfaces.empty()) return true;  // it says of none, so there is one
    if (*index < 0 || static_cast<std::size_t>(*index) >= interfaces.size()) return false;
    json::Node const& interface = interfaces[static_cast<std::size_t>(*index)];
    return json::text_of(interface, "name") == name && !json::text_of(interface, "sandbox").empty();
}

}  // namespace

bool NetworkList::has_check() const { return rank_of(version) >= rank_of("0.4.0"); }
bool NetworkList::has_status() const { return rank_of(version) >= rank_of("1.1.0"); }
bool NetworkList::has_previous_results() const { return rank_of(version) >= rank_of("0.4.0"); }

Result<NetworkList> parse_network_list(std::string_view text, std::string const& path) {
    json::ProblemList problems(1);
    auto const node = json::read_json(text, {}, problems);
    if (!node) return fail(path + ": " + std::move(problems).take().front().text());
    auto const* const object = node->get<json::Object>();
    if (!object) return fail(path + ": expected an object");
    NetworkList list{.name = json::text_of(*object, "name"), .version = {}, .plugins = {}};
    if (list.name.empty()) return fail(path + ": name is missing");
    list.version = TRY(version_of(*object, path));
    list.is_checked = !json::flag_of(*object, "disableCheck");
    list.is_collected = !json::flag_of(*object, "disableGC");
    if (json::member(*object, "plugins") == nullptr) {
        list.plugins.push_back(*object);
    } else {
        for (json::Node const& plugin : json::list_of(*object, "plugins"))
            if (auto const* const one = plugin.get<json::Object>()) list.plugins.push_back(*one);
    }
    if (list.plugins.empty()) return fail(path + ": it has no plugins");
    if (list.plugins.size() > most_plugins) return fail(path + ": it has too many plugins");
    for (json::Object const& plugin : list.plugins)
        if (!is_plugin_type(json::text_of(plugin, "type")))
            return fail(path + ": " + json::quoted(json::text_of(plugin, "type")) + " is not the type of a plugin");
    return list;
}

std::string plugin_input(NetworkList const& list, json::Object const& plugin, PluginRequest const& request) {
    json::Writer out;
    out.open('{').member("name", list.name).member("cniVersion", list.version);
    for (json::Member const& member : plugin)
        if (!is_left_out(member.key)) out.name(member.key).value(member.node);
    add_capabilities(out, plugin, request.capabilities);
    if (!request.attachments.empty()) out.key("cni.dev/valid-attachments").raw(request.attachments);
    if (!request.previous_result.empty()) out.key("prevResult").raw(request.previous_result);
    return std::move(out.close('}')).text();
}

Result<std::vector<std::string>> addresses_of(std::string_view result, std::string const& interface) {
    json::ProblemList problems(1);
    auto const node = json::read_json(result, {}, problems);
    auto const* const object = node ? node->get<json::Object>() : nullptr;
    if (!object) return fail(ErrorKind::corrupt, "a plugin's result is not an object of JSON");
    std::vector<std::string> found = old_addresses(*object);
    json::Array const& interfaces = json::list_of(*object, "interfaces");
    for (json::Node const& one : json::list_of(*object, "ips")) {
        auto const* const address = one.get<json::Object>();
        if (!address || found.size() >= most_addresses || !is_inside(interfaces, *address, interface)) continue;
        if (std::string text = without_prefix(json::text_of(*address, "address")); !text.empty())
            found.push_back(std::move(text));
    }
    std::ranges::stable_partition(found,
                                  [](std::string const& address) { return address.find(':') == std::string::npos; });
    return found;
}

Error plugin_error(std::string const& plugin, std::string_view output, std::string_view errors, int exit_code) {
    json::ProblemList problems(1);
    auto const node = json::read_json(output, {}, problems);
    std::string reason = node ? json::text_of(*node, "msg") : std::string();
    std::string const details = node ? json::text_of(*node, "details") : std::string();
    if (!details.empty()) reason += (reason.empty() ? "" : ": ") + details;
    if (reason.empty()) reason = errors.empty() ? "it ended with " + std::to_string(exit_code) : std::string(errors);
    constexpr std::int64_t try_again = 11;
    bool const is_busy = node && json::number_of(*node, "code") == try_again;
    return {.kind = is_busy ? ErrorKind::busy : ErrorKind::internal,
            .attempted = "run network plugin " + plugin,
            .reason = text::printable(reason, most_error_bytes),
            .details = {}};
}

}  // namespace triton::cri
