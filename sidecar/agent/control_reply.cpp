#include "sidecar/agent/control_reply.h"

#include <cerrno>
#include <cstdlib>

namespace triton::sidecar {

namespace {

constexpr std::string_view service = "org.varlink.service.";

}  // namespace

config::Node const* member(config::Node const& object, std::string_view name) {
    auto const* const members = object.get<config::JsonObject>();
    if (!members) return nullptr;
    for (config::Member const& one : *members) {
        if (one.key == name) return &one.node;
    }
    return nullptr;
}

std::string text_member(config::Node const& object, std::string_view name) {
    auto const* const text = value_of<std::string>(object, name);
    return text ? *text : std::string();
}

std::optional<double> real_member(config::Node const& object, std::string_view name) {
    if (auto const* const whole = value_of<std::int64_t>(object, name)) return static_cast<double>(*whole);
    if (auto const* const odd = value_of<config::JsonOddNumber>(object, name))
        return std::strtod(odd->text.c_str(), nullptr);
    return std::nullopt;
}

Result<ControlReply> parse_control_reply(std::string_view frame) {
    config::ProblemList problems{1};
    auto document = config::read_json(frame, config::Limits{.document_bytes = longest_control_reply}, problems);
    if (!document || !document->get<config::JsonObject>()) return fail("the launcher's reply is no JSON object");
    if (std::string const name = text_member(*document, "error"); !name.empty()) {
        bool const is_missing = name == std::string(service) + "MethodNotFound" ||
                                name == std::string(service) + "MethodNotImplemented" ||
                                name == std::string(service) + "InterfaceNotFound";
        auto const* const parameters = member(*document, "parameters");
        std::string const reason = parameters ? text_member(*parameters, "reason") : std::string();
        return std::unexpected(Error{is_missing ? ENOSYS : 0, reason.empty() ? name : name + ": " + reason});
    }
    ControlReply reply;
    auto const* const continues = value_of<bool>(*document, "continues");
    reply.continues = continues && *continues;
    auto const* const parameters = member(*document, "parameters");
    reply.parameters = parameters ? *parameters : config::Node{config::JsonObject{}};
    return reply;
}

}  // namespace triton::sidecar
