#include "sidecar/control/control_reply.h"

#include <cerrno>
#include <cstdlib>

namespace triton::sidecar::control {

namespace {

constexpr std::string_view service = "org.varlink.service.";

}  // namespace

json::Node const* member(json::Node const& object, std::string_view name) {
    auto const* const members = object.get<json::Object>();
    if (!members) return nullptr;
    for (json::Member const& one : *members) {
        if (one.key == name) return &one.node;
    }
    return nullptr;
}

std::string text_member(json::Node const& object, std::string_view name) {
    auto const* const text = value_of<std::string>(object, name);
    return text ? *text : std::string();
}

std::optional<double> real_member(json::Node const& object, std::string_view name) {
    if (auto const* const whole = value_of<std::int64_t>(object, name)) return static_cast<double>(*whole);
    if (auto const* const odd = value_of<json::OddNumber>(object, name)) return std::strtod(odd->text.c_str(), nullptr);
    return std::nullopt;
}

Result<ControlReply> parse_control_reply(std::string_view frame) {
    json::ProblemList problems{1};
    auto document = json::read_json(frame, json::Limits{.document_bytes = longest_control_reply}, problems);
    if (!document || !document->get<json::Object>()) return fail("the launcher's reply is no JSON object");
    if (std::string const name = text_member(*document, "error"); !name.empty()) {
        bool const is_missing = name == std::string(service) + "MethodNotFound" ||
                                name == std::string(service) + "MethodNotImplemented" ||
                                name == std::string(service) + "InterfaceNotFound";
        bool const is_denied = name == std::string(service) + "PermissionDenied";
        auto const* const parameters = member(*document, "parameters");
        std::string text = name;
        for (std::string_view const key : {"parameter", "reason"}) {
            std::string const value = parameters ? text_member(*parameters, key) : std::string();
            if (!value.empty()) text.append(": ").append(value);
        }
        return fail(is_missing  ? ErrorKind::unsupported
                    : is_denied ? ErrorKind::denied
                                : ErrorKind::refused,
                    std::move(text));
    }
    ControlReply reply;
    auto const* const continues = value_of<bool>(*document, "continues");
    reply.continues = continues && *continues;
    auto const* const parameters = member(*document, "parameters");
    reply.parameters = parameters ? *parameters : json::Node{json::Object{}};
    return reply;
}

}  // namespace triton::sidecar::control
