#include "host/cri/images/hosts_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <utility>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "host/image/sources.h"
#include "lib/base/duration.h"
#include "lib/json/text.h"

namespace triton::cri {

namespace {

constexpr std::size_t most_hosts = 32;
constexpr std::size_t most_values = 32;  // in a list
constexpr std::size_t longest_value = 4096;
constexpr char docker_registry[] = "registry-1.docker.io";

/// What is wrong, with its place. The parts of the reader add to one of these.
class FilePlace {
public:
    explicit FilePlace(std::string const& path) : path_(path) {}

    [[nodiscard]] std::unexpected<Error> wrong(toml::node const& node, std::string what) const {
        return wrong(node.source(), std::move(what));
    }
    [[nodiscard]] std::unexpected<Error> wrong(toml::source_region const& region, std::string what) const {
        return fail(ErrorKind::invalid, path_ + ":" + std::to_string(region.begin.line) + ": " + std::move(what));
    }
    /// Of a file that is named relative to hosts.toml.
    [[nodiscard]] std::string absolute(std::string_view file) const {
        return (std::filesystem::path(path_).parent_path() / file).string();
    }

private:
    std::string const& path_;
};

bool is_one_line(std::string_view text) {
    return text.size() <= longest_value &&
           std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
}

/// The marks that the name of a header may have. Source: RFC 9110, section 5.6.2.
constexpr std::string_view header_marks = "!#$%&'*+-.^_`|~";

bool is_header_name(std::string_view text) {
    auto const is_good = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               header_marks.find(c) != std::string_view::npos;
    };
    return !text.empty() && text.size() <= 128 && std::ranges::all_of(text, is_good);
}

Result<std::string> text_of(toml::node const& node, std::string const& key, FilePlace const& place) {
    auto const* const text = node.as_string();
    if (!text) return place.wrong(node, key + ": expected a string");
    if (!is_one_line(text->get()))
        return place.wrong(node, key + ": has a control character, or more than 4,096 bytes");
    return text->get();
}

Result<bool> flag_of(toml::node const& node, std::string const& key, FilePlace const& place) {
    if (auto const* const flag = node.as_boolean()) return flag->get();
    return place.wrong(node, key + ": expected true or false");
}

/// A string, or an array of them.
Result<std::vector<std::string>> texts_of(toml::node const& node, std::string const& key, FilePlace const& place) {
    auto const* const list = node.as_array();
    if (!list) return std::vector<std::string>{TRY(text_of(node, key, place))};
    if (list->size() > most_values) return place.wrong(node, key + ": has more than 32 elements");
    std::vector<std::string> texts;
    for (toml::node const& element : *list)
        texts.push_back(TRY(text_of(element, key, place)));
    return texts;
}

using Setter = Result<> (*)(HostEntry& entry, toml::node const& node, FilePlace const& place);

Result<> set_capabilities(HostEntry& entry, toml::node const& node, FilePlace const& place) {
    entry.has_content = entry.resolves = false;
    for (std::string const& name : TRY(texts_of(node, "capabilities", place))) {
        if (name == "pull")
            entry.has_content = true;
        else if (name == "resolve")
            entry.resolves = true;
        else if (name != "push" && name != "referrers")  // nothing is pushed, and nobody asks for referrers
            return place.wrong(node, "unknown capability " + json::quoted(name));
    }
    return {};
}

Result<> set_authorities(HostEntry& entry, toml::node const& node, FilePlace const& place) {
    for (std::string const& file : TRY(texts_of(node, "ca", place)))
        entry.authorities.push_back(place.absolute(file));
    return {};
}

/// "file", ["file"], or [["certificate", "key"]].
Result<> set_client(HostEntry& entry, toml::node const& node, FilePlace const& place) {
    toml::node const* pair = &node;
    if (auto const* const list = node.as_array()) {
        if (list->empty()) return {};
        if (list->size() > 1)
            return place.wrong(node,
                               "client: more than one certificate for a server is not supported; a pair is "
                               "[[\"certificate\", \"key\"]]");
        pair = list->get(0);
    }
    auto const files = TRY(texts_of(*pair, "client", place));
    if (files.empty() || files.size() > 2) return place.wrong(node, "client: expected a certificate and its key");
    entry.certificate = place.absolute(files[0]);
    if (files.size() == 2 && !files[1].empty()) entry.key = place.absolute(files[1]);
    return {};
}

Result<> set_skip_verify(HostEntry& entry, toml::node const& node, FilePlace const& place) {
    entry.is_unverified = TRY(flag_of(node, "skip_verify", place));
    return {};
}

Result<> set_headers(HostEntry& entry, toml::node const& node, FilePlace const& place) {
    auto const* const headers = node.as_table();
    if (!headers) return place.wrong(node, "header: expected a table");
    if (headers->size() > most_values) return place.wrong(node, "header: has more than 32 names");
    for (auto const& [key, value] : *headers) {
        std::string const name(key.str());
        if (!is_header_name(name)) return place.wrong(value, json::quoted(name) + " is not the name of a header");
        for (std::string const& text : TRY(texts_of(value, "header." + name, place)))
            entry.headers.push_back(name + ": " + text);
    }
    if (entry.headers.size() > most_values) return place.wrong(node, "header: has more than 32 values");
    return {};
}

Result<> set_dial_timeout(HostEntry& entry, toml::node const& node, FilePlace const& place) {
    std::string const text = TRY(text_of(node, "dial_timeout", place));
    auto const duration = parse_duration(text);
    if (!duration || duration->count() <= 0)
        return place.wrong(node, "dial_timeout: " + json::quoted(text) + " is not a duration above zero");
    entry.connect = std::chrono::ceil<milliseconds>(*duration);
    return {};
}

/// It was read before, because it says what the address means.
Result<> skip(HostEntry& /*entry*/, toml::node const& /*node*/, FilePlace const& /*place*/) { return {}; }

struct KeyRow {
    std::string_view name;
    Setter set;
};
constexpr std::array<KeyRow, 7> key_rows{{
    {"capabilities", set_capabilities},
    {"ca", set_authorities},
    {"client", set_client},
    {"skip_verify", set_skip_verify},
    {"header", set_headers},
    {"override_path", skip},
    {"dial_timeout", set_dial_timeout},
}};

/// The base of requests to a server. containerd adds "/v2" to what has it not, unless that is forbidden.
Result<std::string> base_of(std::string url, toml::table const& keys, toml::source_region const& region,
                            FilePlace const& place) {
    bool const has_whole_path =
        keys.contains("override_path") && TRY(flag_of(*keys.get("override_path"), "override_path", place));
    if (!url.starts_with("http")) url = "https://" + url;
    auto const checked = image::make_source(image::SourceType::registry, url, true);
    if (!checked) return place.wrong(region, checked.error().text());
    std::string base = checked->url;
    // That name is not the one of its server.
    constexpr std::string_view docker = "https://docker.io";
    if (base == docker || base.starts_with(std::string(docker) + "/"))
        base = std::string("https://").append(docker_registry).append(base.substr(docker.size()));
    return has_whole_path || base.ends_with("/v2") ? base : base + "/v2";
}

/// The keys of a server, which are also those of the file itself, where `others` are beside them.
Result<HostEntry> read_entry(toml::table const& keys, std::span<std::string_view const> others,
                             FilePlace const& place) {
    HostEntry entry;
    for (auto const& [key, value] : keys) {
        auto const row = std::ranges::find(key_rows, key.str(), &KeyRow::name);
        if (row != key_rows.end()) {
            TRY(row->set(entry, value, place));
        } else if (std::ranges::find(others, key.str()) == others.end()) {
            return place.wrong(key.source(), "unknown key " + json::quoted(key.str()));
        }
    }
    return entry;
}

Result<std::vector<HostEntry>> read_hosts(toml::node const* node, FilePlace const& place) {
    std::vector<HostEntry> entries;
    if (!node) return entries;
    auto const* const hosts = node->as_table();
    if (!hosts) return place.wrong(*node, "host: expected a table");
    if (hosts->size() > most_hosts) return place.wrong(*node, "host: has more than 32 servers");
    std::vector<std::pair<toml::key, toml::node const*>> sorted;
    for (auto const& [key, value] : *hosts)
        sorted.emplace_back(key, &value);
    // The library sorts them by name; the order of the file counts.
    auto const position = [](auto const& one) {
        return std::pair(one.first.source().begin.line, one.first.source().begin.column);
    };
    std::ranges::sort(sorted, {}, position);
    for (auto const& [key, value] : sorted) {
        auto const* const keys = value->as_table();
        if (!keys) return place.wrong(*value, "host." + json::quoted(key.str()) + ": expected a table");
        HostEntry entry = TRY(read_entry(*keys, {}, place));
        entry.base = TRY(base_of(std::string(key.str()), *keys, key.source(), place));
        entries.push_back(std::move(entry));
    }
    return entries;
}

}  // namespace

Result<std::vector<HostEntry>> parse_hosts_file(std::string_view text, std::string const& path) {
    FilePlace const place(path);
    toml::parse_result const parsed = toml::parse(text, path);
    if (!parsed) return place.wrong(parsed.error().source(), std::string(parsed.error().description()));
    toml::table const& file = parsed.table();
    std::vector<HostEntry> entries = TRY(read_hosts(file.get("host"), place));
    constexpr std::array<std::string_view, 2> others{"server", "host"};
    HostEntry last = TRY(read_entry(file, others, place));
    if (toml::node const* const server = file.get("server")) {
        std::string const url = TRY(text_of(*server, "server", place));
        if (!url.empty()) last.base = TRY(base_of(url, file, server->source(), place));
    }
    entries.push_back(std::move(last));
    return entries;
}

}  // namespace triton::cri
