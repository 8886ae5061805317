#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/json/reader.h"

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

/// The member of an object with this name; nullptr when there is none, or no object.
json::Node const* member(json::Node const& object, std::string_view name);

/// The same with a type; nullptr when it has another.
template <class T>
T const* value_of(json::Node const& object, std::string_view name) {
    json::Node const* const node = member(object, name);
    return node ? node->get<T>() : nullptr;
}

/// Empty when it is no string.
std::string text_member(json::Node const& object, std::string_view name);
/// Of a number with or without a fraction.
std::optional<double> real_member(json::Node const& object, std::string_view name);

}  // namespace triton::sidecar::control
