#include "sidecar/control/control_reply.h"

#include <array>
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
    static constexpr std::array<Row, 4> own_rows{{{"NotAlone", ErrorKind::refused},
                                                  {"NoSuchProgram", ErrorKind::not_found},
                                                  {"NoSuchProcess", ErrorKind::not_found},
                                                  {"Refused", ErrorKind::refused}}};
    for (Row const& row : own_rows) {
        if (name == "org.tritonlaunch.Launcher." + std::string(row.name)) kind = row.kind;
    }
    std::string text = name;
    for (std::string_view const key : {"parameter", "program", "reason"}) {
        std::string const value = text_of(parameters, key);
        if (!value.empty()) text.append(": ").append(value);
    }
    return fail(kind, std::move(text));
}

}  // namespace

Result<ControlReply> parse_control_reply(std::string_view frame) {
    varlink::Reply reply = TRY(varlink::parse_reply(frame, longest_control_reply));
    json::Node parameters{std::move(reply.parameters)};
    if (!reply.error.empty()) return refusal(reply.error, parameters);
    return ControlReply{std::move(parameters), reply.continues};
}

}  // namespace triton::sidecar::control
