#pragma once

#include <algorithm>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>

#include "lib/json/reader.h"
#include "lib/json/writer.h"
#include "lib/varlink/codec.h"
#include "lib/varlink/server.h"

namespace triton::varlink {

/// A parameter of a method: its name in the interface description, and what reads it; false: not a valid value.
template <class Parameters>
struct Parameter {
    std::string_view name;
    bool is_required;
    bool (*read)(json::Node const& node, Parameters& parameters);
};

/// A set of roles, one bit each.
using Roles = std::uint8_t;
constexpr Roles only(Role role) { return static_cast<Roles>(1U << static_cast<unsigned>(role)); }
constexpr bool has(Roles roles, Role role) { return (roles & only(role)) != 0; }

/// A method of an interface: who may call it, its parameters, and its handler.
template <class Handlers, class Parameters>
struct Method {
    std::string_view name;
    std::span<Parameter<Parameters> const> parameters;
    Roles roles;
    void (Handlers::*handle)(Session& session, Parameters const& parameters);
    bool needs_more = false;
    bool needs_upgrade = false;  ///< of the connection to another protocol: Server::release()
};

/// Reads what a call says. Errors: the name of the parameter that is missing, unknown or not a valid value.
template <class Parameters>
std::expected<Parameters, std::string> read_parameters(std::span<Parameter<Parameters> const> rows,
                                                       json::Object const& object) {
    for (json::Member const& member : object) {
        if (std::ranges::find(rows, member.key, &Parameter<Parameters>::name) == rows.end())
            return std::unexpected(member.key);
    }
    Parameters parameters;
    for (Parameter<Parameters> const& row : rows) {
        json::Node const* const node = find_member(object, row.name);
        bool const is_good = node ? row.read(*node, parameters) : !row.is_required;
        if (!is_good) return std::unexpected(std::string(row.name));
    }
    return parameters;
}

/// Finds the method that a call names, checks caller and parameters, and passes it to its handler; or answers with
/// the protocol's error.
template <class Handlers, class Parameters>
void dispatch(Server& server, Handlers& handlers, std::span<Method<Handlers, Parameters> const> methods,
              Session& session, Call const& call) {
    using Row = Method<Handlers, Parameters>;
    auto const fail = [&](std::string_view error, std::string_view key, std::string_view text) {
        json::Writer out;
        out.open('{');
        if (!key.empty()) out.key(key).value(text);
        server.fail_call(session, service_name(error), out.close('}').text());
    };
    auto const row = std::ranges::find(methods, call.name(), &Row::name);
    if (row == methods.end()) return fail("MethodNotFound", "method", call.method);
    if (!has(row->roles, session.role())) return fail("PermissionDenied", "", "");
    if (call.wants_upgrade && !row->needs_upgrade) return fail("MethodNotImplemented", "method", call.method);
    if (row->needs_upgrade && !call.wants_upgrade)
        return server.fail_call(session, {ErrorKind::refused, {}, "the call has to ask for an upgrade", {}});
    auto const parameters = read_parameters(row->parameters, call.parameters);
    if (!parameters) return fail("InvalidParameter", "parameter", parameters.error());
    if (row->needs_more && !session.wants_more) return fail("ExpectedMore", "", "");
    (handlers.*(row->handle))(session, *parameters);
}

}  // namespace triton::varlink
