#include "sidecar/kubernetes/api_objects.h"

#include <algorithm>
#include <array>

#include "lib/base/rfc3339.h"
#include "lib/json/reader.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "sidecar/kubernetes/go_values.h"

namespace triton::kubernetes {

namespace {

using json::Array;
using json::Node;
using json::Object;

constexpr std::size_t longest_message = 1024;  // an RBAC message names object and account, 700 bytes at most
constexpr std::size_t longest_name = 253;      // of an object: a DNS subdomain

/// etcd accepts objects of 1.5 MB, which may be larger in JSON. Managed fields are nested by path, two levels for each
/// step.
json::Limits limits() {
    json::Limits limits;
    limits.document_bytes = 3 << 20;
    limits.depth = 256;
    limits.problems = 1;
    return limits;
}

/// The last member of that name, as Go reads it; nullptr: there is none, or this is not an object.
Node const* member(Node const* object, std::string_view name) {
    auto const* const members = object ? object->get<json::Object>() : nullptr;
    if (!members) return nullptr;
    auto const found = std::ranges::find(members->rbegin(), members->rend(), name, &json::Member::key);
    return found == members->rend() ? nullptr : &found->node;
}

std::string text(Node const* object, std::string_view name) {
    Node const* const node = member(object, name);
    auto const* const value = node ? node->get<std::string>() : nullptr;
    return value ? *value : std::string();
}

/// The texts of a map whose names begin with the prefix; the prefix is removed.
Pairs texts(Node const* object, std::string_view prefix) {
    Pairs pairs;
    auto const* const members = object ? object->get<json::Object>() : nullptr;
    if (!members) return pairs;
    for (json::Member const& one : *members) {
        auto const* const value = one.node.get<std::string>();
        if (value && one.key.starts_with(prefix)) pairs.emplace_back(one.key.substr(prefix.size()), *value);
    }
    return pairs;
}

std::optional<bool> condition_of(Node const* status, std::string_view type) {
    Node const* const conditions = member(status, "conditions");
    auto const* const all = conditions ? conditions->get<json::Array>() : nullptr;
    if (!all || type.empty()) return std::nullopt;
    for (Node const& one : *all) {
        if (text(&one, "type") == type) return text(&one, "status") == "True";
    }
    return std::nullopt;
}

ObjectView view(Node const* object, Wanted const& wanted) {
    Node const* const metadata = member(object, "metadata");
    ObjectView view;
    view.name = text(metadata, "name");
    view.uid = text(metadata, "uid");
    view.resource_version = text(metadata, "resourceVersion");
    view.annotations = texts(member(metadata, "annotations"), wanted.annotation_prefix);
    view.labels = texts(member(metadata, "labels"), "");
    view.node_name = text(member(object, "spec"), "nodeName");
    view.condition = condition_of(member(object, "status"), wanted.condition);
    return view;
}

ApiStatus status_of(Node const* node, int status) {
    ApiStatus found{status, text(node, "reason"), text::printable(text(node, "message"), longest_message)};
    Node const* const code = member(node, "code");
    if (auto const* const value = code ? code->get<std::int64_t>() : nullptr; value && *value >= 100 && *value < 600)
        found.code = static_cast<int>(*value);
    return found;
}

Result<Node> read(std::string_view text) {
    json::ProblemList problems{1};
    auto node = json::read_json(text, limits(), problems);
    if (!node) {
        auto const why = std::move(problems).take();
        return fail("cannot be understood: " + (why.empty() ? "no JSON" : why.front().text()));
    }
    if (!node->get<json::Object>()) return fail("cannot be understood: not a JSON object");
    return *std::move(node);
}

constexpr std::array<std::pair<std::string_view, WatchEventType>, 5> event_types{
    {{"ADDED", WatchEventType::added},
     {"MODIFIED", WatchEventType::modified},
     {"DELETED", WatchEventType::deleted},
     {"BOOKMARK", WatchEventType::bookmark},
     {"ERROR", WatchEventType::error}}};

/// Writes the members of a map of texts; each name gets the prefix.
void write(json::Writer& out, Pairs const& pairs, std::string_view prefix = {}) {
    for (auto const& [name, value] : pairs)
        out.name(std::string(prefix) + name).value(value);
}

}  // namespace

std::string const* ObjectView::annotation(std::string_view wanted) const {
    for (auto const& [key, value] : annotations) {
        if (key == wanted) return &value;
    }
    return nullptr;
}

Result<ObjectView> parse_object(std::string_view body, Wanted const& wanted) {
    Node const node = TRY(read(body));
    ObjectView found = view(&node, wanted);
    if (found.name.empty() || found.resource_version.empty())
        return fail("cannot be understood: not an object of the API");
    return found;
}

Result<WatchEvent> parse_watch_event(std::string_view line, Wanted const& wanted) {
    Node const node = TRY(read(line));
    std::string const type = text(&node, "type");
    auto const found = std::ranges::find(event_types, type, [](auto const& row) { return row.first; });
    if (found == event_types.end()) return fail("cannot be understood: an event of type " + json::quoted(type));
    Node const* const object = member(&node, "object");
    WatchEvent event{found->second, {}, {}};
    if (event.type == WatchEventType::error) {
        event.status = status_of(object, 500);
        return event;
    }
    event.object = view(object, wanted);
    bool const is_named = event.type == WatchEventType::bookmark || !event.object.name.empty();
    if (!is_named || event.object.resource_version.empty())
        return fail("cannot be understood: not an object of the API");
    return event;
}

ApiStatus parse_status(std::string_view body, int status) {
    auto const node = read(body);
    ApiStatus found = node ? status_of(&*node, status) : ApiStatus{status, {}, text::printable(body, longest_message)};
    found.code = status;
    return found;
}

std::string json_object(Pairs const& pairs) {
    json::Writer out;
    write(out.open('{'), pairs);
    return out.close('}').text();
}

std::string annotations_patch(std::string_view prefix, Pairs const& annotations) {
    json::Writer out;
    write(out.open('{').key("metadata").open('{').key("annotations").open('{'), annotations, prefix);
    return out.close('}').close('}').close('}').text();
}

std::string condition_patch(std::string_view type, bool is_true, std::int64_t unix_seconds) {
    json::Writer out;
    out.open('{').key("status").open('{').key("conditions").open('[').open('{');
    out.member("type", type);
    out.member("status", is_true ? "True" : "False");
    out.member("reason", is_true ? "ProgramsReady" : "ProgramsNotReady");
    out.member("message", is_true ? "every program is ready" : "not every program is ready");
    out.member("lastTransitionTime", rfc3339(unix_seconds));
    return out.close('}').close(']').close('}').close('}').text();
}

std::string event_name(EventSource const& source, EventRecord const& record) {
    std::string name = source.pod_name.substr(0, longest_name - 1 - record.name.size());
    while (name.ends_with('.') || name.ends_with('-'))
        name.pop_back();
    return name + "." + record.name;
}

std::string event_body(EventSource const& source, EventRecord const& record) {
    json::Writer out;
    out.open('{').member("apiVersion", "v1").member("kind", "Event");
    out.key("metadata").open('{');
    out.member("name", event_name(source, record)).member("namespace", source.pod_namespace).close('}');
    out.key("involvedObject").open('{').member("apiVersion", "v1").member("kind", "Pod");
    out.member("namespace", source.pod_namespace).member("name", source.pod_name);
    if (!source.pod_uid.empty()) out.member("uid", source.pod_uid);
    out.close('}').key("source").open('{').member("component", "triton-launch");
    if (!source.node_name.empty()) out.member("host", source.node_name);
    out.close('}').member("reportingComponent", "triton-launch");
    out.member("reportingInstance", source.pod_name);
    out.member("type", record.is_warning ? "Warning" : "Normal");
    out.member("reason", record.reason).member("message", record.message);
    out.member("firstTimestamp", rfc3339(record.first_seconds));
    out.member("lastTimestamp", rfc3339(record.last_seconds));
    return out.member("count", record.count).close('}').text();
}

std::string event_patch(EventRecord const& record) {
    json::Writer out;
    out.open('{').member("message", record.message).member("lastTimestamp", rfc3339(record.last_seconds));
    return out.member("count", record.count).close('}').text();
}

std::string percent_encoded(std::string_view text) {
    constexpr std::string_view hex = "0123456789ABCDEF";
    std::string out;
    for (char const c : text) {
        bool const is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (is_letter || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~') {
            out += c;
        } else {
            auto const byte = static_cast<unsigned char>(c);
            out.append({'%', hex[byte >> 4], hex[byte & 15]});
        }
    }
    return out;
}

}  // namespace triton::kubernetes
