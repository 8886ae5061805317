#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>

#include "lib/json/reader.h"

namespace triton::launcher {

/// The messages of Varlink, without their final NUL. Source: https://varlink.org, "Method Call".

struct VarlinkCall {
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

/// Errors: one line that says why this is no call. Members that the protocol does not know are skipped. `values`: how
/// many JSON values it may have.
std::expected<VarlinkCall, std::string> parse_varlink_call(std::string_view message, std::size_t values = 256);

struct VarlinkReply {
    std::string error;  ///< empty: none
    json::Object parameters;
    bool continues = false;
};

/// Errors: as above. `limit`: of its bytes.
std::expected<VarlinkReply, std::string> parse_varlink_reply(std::string_view message, std::size_t limit);

/// Both with their final NUL; `parameters` is a JSON object.
std::string varlink_call(std::string_view method, std::string_view parameters, bool wants_more);
void append_varlink_reply(std::string& out, std::string_view parameters, bool continues);
void append_varlink_error(std::string& out, std::string_view error, std::string_view parameters);

/// The member of that name; nullptr when it is absent or null.
json::Node const* find_member(json::Object const& object, std::string_view name);

}  // namespace triton::launcher
