#pragma once

#include <string_view>

#include "base/result.h"
#include "config/json_reader.h"

namespace triton::sidecar {

/// One reply to a Varlink call.
struct ControlReply {
    config::Node parameters;  ///< an object
    bool continues = false;
};

/// Reads one, without its NUL. Errors: ENOSYS when there is no such method; else code 0 and the error's name with its
/// reason, or what is wrong with the reply.
Result<ControlReply> parse_control_reply(std::string_view frame);

/// The member of an object with this name; nullptr when there is none, or no object.
config::Node const* member(config::Node const& object, std::string_view name);

}  // namespace triton::sidecar
