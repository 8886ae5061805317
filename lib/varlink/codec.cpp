#include "lib/varlink/codec.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lib/json/lookup.h"

namespace triton::varlink {

namespace {

/// What a message may cost us, besides its bytes.
constexpr std::size_t call_depth = 8;
constexpr std::size_t reply_values = 1 << 20;

Result<json::Object> parse_object(std::string_view message, json::Limits const& limits, bool is_strict) {
    json::ProblemList problems{limits.problems};
    auto node = json::read_json(message, limits, problems);
    // Duplicate names and NUL characters do not prevent reading, but a call must be unambiguous.
    if (!node || (is_strict && !problems.empty())) {
        json::Problems const found = std::move(problems).take();
        return fail(found.empty() ? std::string("not JSON") : found.front().text());
    }
    auto* const object = std::get_if<json::Object>(&node->value);
    if (!object) return fail("expected an object, found " + std::string(node->kind()));
    return std::move(*object);
}

template <class T>
Result<> take(json::Object& object, std::string_view name, T& target) {
    auto const member = std::ranges::find(object, name, &json::Member::key);
    if (member == object.end() || member->node.get<json::Null>()) return {};
    auto* const value = std::get_if<T>(&member->node.value);
    if (!value) {
        return fail("\"" + std::string(name) + "\" cannot be of type " + std::string(member->node.kind()));
    }
    target = std::move(*value);
    return {};
}

}  // namespace

std::string service_name(std::string_view name) { return std::string(service_interface).append(".").append(name); }

std::string_view Call::interface() const {
    std::size_t const dot = method.rfind('.');
    return dot == std::string::npos ? std::string_view{} : std::string_view(method).substr(0, dot);
}

std::string_view Call::name() const {
    return std::string_view(method).substr(method.rfind('.') + 1);  // npos + 1 is 0
}

Result<Call> parse_call(std::string_view message, std::size_t values) {
    json::Limits limits;
    limits.depth = call_depth;
    limits.values = values;
    limits.problems = 1;
    json::Object object = TRY(parse_object(message, limits, true));
    Call call;
    for (auto const& taken : {take(object, "method", call.method), take(object, "parameters", call.parameters),
                              take(object, "oneway", call.is_oneway), take(object, "more", call.wants_more),
                              take(object, "upgrade", call.wants_upgrade)}) {
        if (!taken) return std::unexpected(taken.error());
    }
    if (call.method.empty()) return fail("no \"method\"");
    return call;
}

Result<Reply> parse_reply(std::string_view message, std::size_t limit) {
    json::Limits limits;
    limits.document_bytes = limit;
    limits.values = reply_values;
    auto object = parse_object(message, limits, false);
    if (!object) return fail(ErrorKind::corrupt, object.error().text());
    Reply reply;
    for (auto const& taken : {take(*object, "error", reply.error), take(*object, "parameters", reply.parameters),
                              take(*object, "continues", reply.continues)}) {
        if (!taken) return fail(ErrorKind::corrupt, taken.error().text());
    }
    return reply;
}

namespace {

std::string call_with(std::string_view method, std::string_view parameters, std::string_view flag) {
    std::string text = R"({"method":")";
    text.append(method).append(R"(","parameters":)").append(parameters).append(flag).append("}");
    text += '\0';
    return text;
}

}  // namespace

std::string call_text(std::string_view method, std::string_view parameters, bool wants_more) {
    return call_with(method, parameters, wants_more ? R"(,"more":true)" : "");
}

std::string upgrade_text(std::string_view method, std::string_view parameters) {
    return call_with(method, parameters, R"(,"upgrade":true)");
}

void append_reply(std::string& out, std::string_view parameters, bool continues) {
    out.append(R"({"parameters":)").append(parameters);
    out += continues ? R"(,"continues":true})" : "}";
    out += '\0';
}

void append_error(std::string& out, std::string_view error, std::string_view parameters) {
    out.append(R"({"error":")").append(error).append(R"(","parameters":)").append(parameters).append("}");
    out += '\0';
}

json::Node const* find_member(json::Object const& object, std::string_view name) {
    json::Node const* const found = member(object, name);
    return !found || found->get<json::Null>() ? nullptr : found;
}

}  // namespace triton::varlink
