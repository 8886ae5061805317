#include "sidecar/agent/control_reply.h"

#include <cerrno>
#include <string>

namespace triton::sidecar {

namespace {

constexpr std::string_view service = "org.varlink.service.";

std::string text_of(config::Node const* node) {
    auto const* const text = node ? node->get<std::string>() : nullptr;
    return text ? *text : std::string();
}

}  // namespace

config::Node const* member(config::Node const& object, std::string_view name) {
    auto const* const members = object.get<config::JsonObject>();
    if (!members) return nullptr;
    for (config::Member const& one : *members) {
        if (one.key == name) return &one.node;
    }
    return nullptr;
}

Result<ControlReply> parse_control_reply(std::string_view frame) {
    config::ProblemList problems{1};
    auto document = config::read_json(frame, config::Limits{}, problems);
    if (!document || !document->get<config::JsonObject>()) return fail("the launcher's reply is no JSON object");
    if (std::string const name = text_of(member(*document, "error")); !name.empty()) {
        bool const is_missing = name == std::string(service) + "MethodNotFound" ||
                                name == std::string(service) + "MethodNotImplemented" ||
                                name == std::string(service) + "InterfaceNotFound";
        auto const* const parameters = member(*document, "parameters");
        std::string const reason = parameters ? text_of(member(*parameters, "reason")) : std::string();
        return std::unexpected(Error{is_missing ? ENOSYS : 0, reason.empty() ? name : name + ": " + reason});
    }
    ControlReply reply;
    auto const* const continues = member(*document, "continues");
    reply.continues = continues && continues->get<bool>() && *continues->get<bool>();
    auto const* const parameters = member(*document, "parameters");
    reply.parameters = parameters ? *parameters : config::Node{config::JsonObject{}};
    return reply;
}

}  // namespace triton::sidecar
