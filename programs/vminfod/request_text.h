#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace triton::program {

/// Whether a Host field names this host as somebody at this host calls it: "localhost", "127.0.0.1" or "[::1]", with
/// any port, or, when it is not empty, `served`: the address that is listened on, "127.0.0.2". A page of another origin
/// that has its name resolved to 127.0.0.1 still sends its own name. An empty one, which no browser sends, is good.
bool is_own_host(std::string_view host, std::string_view served);
/// Whether an Origin field is empty or names such a host by http. "null" and everything else do not count.
bool is_own_origin(std::string_view origin, std::string_view served);

/// One "key=value" of a query, without escapes; the value of "full" is empty.
struct Parameter {
    std::string key;
    std::string value;
    bool operator==(Parameter const&) const = default;
};
/// At most 64. Errors: invalid, with the key where there is one.
Result<std::vector<Parameter>> parse_parameters(std::string_view query);
/// Errors: invalid, for a key that is not one of these: `unknown parameter "sinse"`.
Result<> check_keys(std::vector<Parameter> const& parameters, std::initializer_list<std::string_view> known);
/// Null: there is none. Of several, the last one.
std::string const* value_of(std::vector<Parameter> const& parameters, std::string_view key);
/// "true", "false", "1", "0" or nothing, which is true; none: false. Errors: invalid.
Result<bool> flag_of(std::vector<Parameter> const& parameters, std::string_view key);

/// The longest text of a client that is kept to be shown, in bytes.
constexpr std::size_t longest_shown = 200;

}  // namespace triton::program
