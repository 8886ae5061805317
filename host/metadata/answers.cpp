#include "host/metadata/answers.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "host/machine/properties.h"
#include "lib/json/lookup.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/utf8.h"

namespace triton::metadata {

namespace {

using machine::Machine;

constexpr std::string_view own_prefix = "sdc:";
constexpr std::string_view operator_script = "operator-script";
constexpr std::size_t longest_key = 256;
/// Of all that a machine has put: the operator's updates must still fit beside it.
constexpr std::size_t most_bytes = 1 << 20;
constexpr std::size_t most_keys = 1000;

bool is_in_namespace(Machine const& machine, std::string_view key) {
    std::size_t const colon = key.find(':');
    return colon != key.npos && std::ranges::find(machine.internal_metadata_namespaces, key.substr(0, colon)) !=
                                    machine.internal_metadata_namespaces.end();
}

bool is_internal(Machine const& machine, std::string_view key) {
    return key.ends_with("_pw") || is_in_namespace(machine, key);
}

std::string text_of(json::Node const& node) {
    if (auto const* const text = node.get<std::string>()) return *text;
    json::Writer out;
    out.value(node);
    return std::move(out).text();
}

std::optional<std::string> text_of_key(json::Object const& object, std::string_view key) {
    json::Node const* const node = json::member(object, key);
    return node ? std::optional(text_of(*node)) : std::nullopt;
}

json::Node const* element(json::Array const& list, std::string_view place) {
    std::size_t at = 0;
    auto const [end, error] = std::from_chars(place.data(), place.data() + place.size(), at);
    return error == std::errc{} && end == place.data() + place.size() && at < list.size() ? &list[at] : nullptr;
}

/// A key may have dots itself, as those of tags.
json::Node const* find(json::Node const& node, std::string_view path) {
    if (auto const* const object = node.get<json::Object>()) {
        if (json::Node const* const whole = json::member(*object, path)) return whole;
    }
    std::size_t const dot = path.find('.');
    std::string_view const first = path.substr(0, dot);
    auto const* const list = node.get<json::Array>();
    json::Node const* const found = list ? element(*list, first) : json::member(node, first);
    return dot == path.npos || !found ? found : find(*found, path.substr(dot + 1));
}

std::optional<std::string> property_text(Machine const& machine, std::string_view path) {
    json::ProblemList problems(1);
    auto const node = json::read_json(machine::open_text(machine), json::Limits{.document_bytes = 16 << 20}, problems);
    json::Node const* const found = node ? find(*node, path) : nullptr;
    return found ? std::optional(text_of(*found)) : std::nullopt;
}

std::size_t bytes_of(json::Object const& object) {
    std::size_t bytes = 0;
    for (json::Member const& member : object)
        bytes += member.key.size() + text_of(member.node).size();
    return bytes;
}

Result<> check_room(json::Object const& present, std::string_view key, std::string_view value) {
    json::Node const* const former = json::member(present, key);
    if (!former && present.size() >= most_keys)
        return fail(ErrorKind::exhausted, "a machine may have " + std::to_string(most_keys) + " keys");
    std::size_t const freed = former ? key.size() + text_of(*former).size() : 0;
    if (bytes_of(present) - freed + key.size() + value.size() > most_bytes)
        return fail(ErrorKind::exhausted,
                    "the metadata of a machine may have " + std::to_string(most_bytes) + " bytes");
    return {};
}

bool is_text(std::string_view bytes) {
    while (!bytes.empty()) {
        std::size_t const length = text::sequence_length(bytes);
        if (length == 0 || bytes.front() == '\0') return false;
        bytes.remove_prefix(length);
    }
    return true;
}

Result<> check_key(Machine const& machine, std::string_view key) {
    if (key.empty() || key.size() > longest_key)
        return fail("a key has 1 to " + std::to_string(longest_key) + " bytes");
    bool const has_control = std::ranges::any_of(key, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
    if (has_control || !is_text(key)) return fail("a key is text in UTF-8 without control characters");
    std::size_t const colon = std::min(key.find(':'), key.size());
    if (key.starts_with(own_prefix) || is_in_namespace(machine, key))
        return fail(ErrorKind::denied,
                    "the namespace " + json::shown(key.substr(0, colon)) + " cannot be changed from inside");
    if (key == operator_script) return fail(ErrorKind::denied, json::shown(key) + " is the operator's");
    return {};
}

}  // namespace

std::optional<std::string> value_for_machine(Machine const& machine, std::string_view key) {
    if (!key.starts_with(own_prefix))
        return text_of_key(is_internal(machine, key) ? machine.internal_metadata : machine.customer_metadata, key);
    std::string_view const property = key.substr(own_prefix.size());
    if (property == operator_script) return text_of_key(machine.internal_metadata, property);
    return property_text(machine, property);
}

std::vector<std::string> keys_for_machine(Machine const& machine) {
    std::vector<std::string> keys;
    for (json::Member const& member : machine.customer_metadata)
        if (!is_internal(machine, member.key)) keys.push_back(member.key);
    for (json::Member const& member : machine.internal_metadata)
        if (is_internal(machine, member.key)) keys.push_back(member.key);
    return keys;
}

Result<json::Object> change_from_machine(Machine const& machine, std::string_view key,
                                         std::optional<std::string_view> value) {
    TRY(check_key(machine, key));
    bool const is_internal_key = is_internal(machine, key);
    std::string const which = is_internal_key ? "internal_metadata" : "customer_metadata";
    json::Object payload;
    if (!value) {
        payload.push_back({"remove_" + which, json::Node{json::Array{json::Node{std::string(key)}}}});
        return payload;
    }
    if (!is_text(*value)) return fail("a value is text in UTF-8");
    TRY(check_room(is_internal_key ? machine.internal_metadata : machine.customer_metadata, key, *value));
    json::Object members;
    members.push_back({std::string(key), json::Node{std::string(*value)}});
    payload.push_back({"set_" + which, json::Node{std::move(members)}});
    return payload;
}

Result<std::optional<std::string>> MachineAnswers::get(std::string_view key) { return value_for_machine(TRY(read_()), key); }

Result<std::vector<std::string>> MachineAnswers::keys() { return keys_for_machine(TRY(read_())); }

Result<> MachineAnswers::put(std::string_view key, std::string_view value) {
    Machine const machine = TRY(read_());
    if (value_for_machine(machine, key) == value) return check_key(machine, key);
    return change_([&](Machine const& before) { return change_from_machine(before, key, value); });
}

Result<> MachineAnswers::remove(std::string_view key) {
    Machine const machine = TRY(read_());
    TRY(check_key(machine, key));
    if (!value_for_machine(machine, key)) return {};
    return change_([&](Machine const& before) { return change_from_machine(before, key, std::nullopt); });
}

}  // namespace triton::metadata
