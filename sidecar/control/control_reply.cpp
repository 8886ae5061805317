#include "sidecar/control/control_reply.h"

#include <array>
#include <utility>

#include "lib/varlink/codec.h"

namespace triton::sidecar::control {

namespace {

/// An error of the launcher, made of its name and its parameters.
std::unexpected<Error> refusal(std::string const& name, json::Node const& parameters) {
    struct Row {
        std::string_view name;
        ErrorKind kind;
    };
    static constexpr std::array<Row, 4> rows{{{"MethodNotFound", ErrorKind::unsupported},
                                              {"MethodNotImplemented", ErrorKind::unsupported},
                                              {"InterfaceNotFound", ErrorKind::unsupported},
                                              {"PermissionDenied", ErrorKind::denied}}};
    ErrorKind kind = ErrorKind::internal;  // a failure of the launcher, not of the request
    for (Row const& row : rows) {
        if (name == varlink::service_name(row.name)) kind = row.kind;
    }
    struct OwnRow : Row {
        std::string_view text;
    };
    static constexpr std::array<OwnRow, 4> own_rows{{{{"NotAlone", ErrorKind::refused}, "others depend on it"},
                                                     {{"NoSuchProgram", ErrorKind::not_found}, "no such program"},
                                                     {{"NoSuchProcess", ErrorKind::not_found}, "no such process"},
                                                     {{"Refused", ErrorKind::refused}, "refused"}}};
    std::string text = name;
    for (OwnRow const& row : own_rows) {
        if (name != "org.tritonlaunch.Launcher." + std::string(row.name)) continue;
        kind = row.kind;
        text = row.text;
    }
    for (std::string_view const key : {"parameter", "program", "reason"}) {
        std::string const value = text_of(parameters, key);
        if (!value.empty()) text.append(": ").append(value);
    }
    auto failure = fail(kind, std::move(text));
    auto const* const members = parameters.get<json::Object>();
    for (json::Node const& other : members ? list_of(*members, "programs") : json::Array()) {
        if (auto const* const program = other.get<std::string>()) failure.error().details.push_back(*program);
    }
    return failure;
}

}  // namespace

Result<ControlReply> parse_control_reply(std::string_view frame) {
    varlink::Reply reply = TRY(varlink::parse_reply(frame, longest_control_reply));
    json::Node parameters{std::move(reply.parameters)};
    if (!reply.error.empty()) return refusal(reply.error, parameters);
    return ControlReply{std::move(parameters), reply.continues};
}

}  // namespace triton::sidecar::control
