#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/json/lookup.h"

namespace triton::sidecar::control {

/// One in bytes, at most. The longest carries the text of a configuration as a JSON string, which at worst doubles it.
inline constexpr std::size_t longest_control_reply = 4 << 20;

/// One reply to a Varlink call.
struct ControlReply {
    json::Node parameters;  ///< an object
    bool continues = false;
};

/// Reads one, without its NUL. Errors: unsupported when there is no such method, denied when it is not for us; else
/// refused; the error's name with the parameter or the reason, or what is wrong with the reply.
Result<ControlReply> parse_control_reply(std::string_view frame);

}  // namespace triton::sidecar::control
