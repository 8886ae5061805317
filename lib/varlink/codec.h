#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace triton::varlink {

/// The messages of Varlink, without their final NUL. Source: https://varlink.org, "Method Call".

/// The interface that each service has beside its own.
inline constexpr std::string_view service_interface = "org.varlink.service";

/// The full name of an error or method of the service interface.
std::string service_name(std::string_view name);

struct Call {
    std::string method;  ///< "org.varlink.service.GetInfo"
    json::Object parameters;
    bool is_oneway = false;  ///< no reply, not even an error
    bool wants_more = false;
    bool wants_upgrade = false;

    /// "org.varlink.service", empty when there is no dot.
    [[nodiscard]] std::string_view interface() const;
    /// "GetInfo"
    [[nodiscard]] std::string_view name() const;
};

/// Reads a call. `values`: how many JSON values it may have. Members that the protocol does not know are skipped.
/// Errors: invalid; one line that says why this is not a call.
Result<Call> parse_call(std::string_view message, std::size_t values = 256);

struct Reply {
    std::string error;  ///< empty: none
    json::Object parameters;
    bool continues = false;
};

/// Reads a reply of at most `limit` bytes. Errors: corrupt; one line that says why this is not a reply.
Result<Reply> parse_reply(std::string_view message, std::size_t limit);

/// Both with their final NUL; `parameters` is a JSON object.
std::string call_text(std::string_view method, std::string_view parameters, bool wants_more);
std::string upgrade_text(std::string_view method, std::string_view parameters);
void append_reply(std::string& out, std::string_view parameters, bool continues);
void append_error(std::string& out, std::string_view error, std::string_view parameters);

/// The member of that name; nullptr when it is absent or null.
json::Node const* find_member(json::Object const& object, std::string_view name);

}  // namespace triton::varlink
