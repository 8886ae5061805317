#include "sidecar/control/control_reply.h"

#include <array>
#include <cstdlib>
#include <utility>

#include "lib/varlink/codec.h"

namespace triton::sidecar::control {

namespace {

/// An error of the launcher, by its name and what it says.
std::unexpected<Error> refusal(std::string const& name, json::Node const& parameters) {
    struct Row {
        std::string_view name;
        ErrorKind kind;
    };
    static constexpr std::array<Row, 4> rows{{{"MethodNotFound", ErrorKind::unsupported},
                                              {"MethodNotImplemented", ErrorKind::unsupported},
                                              {"InterfaceNotFound", ErrorKind::unsupported},
                                              {"PermissionDenied", ErrorKind::denied}}};
    ErrorKind kind = ErrorKind::internal;  // its failure, not one of the request
    for (Row const& row : rows) {
        if (name == varlink::service_name(row.name)) kind = row.kind;
    }
    std::string text = name;
    for (std::string_view const key : {"parameter", "reason"}) {
        std::string const value = text_member(parameters, key);
        if (!value.empty()) text.append(": ").append(value);
    }
    return fail(kind, std::move(text));
}

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
    varlink::Reply reply = TRY(varlink::parse_reply(frame, longest_control_reply));
    json::Node parameters{std::move(reply.parameters)};
    if (!reply.error.empty()) return refusal(reply.error, parameters);
    return ControlReply{std::move(parameters), reply.continues};
}

}  // namespace triton::sidecar::control
