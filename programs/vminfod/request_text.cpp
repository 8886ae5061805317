#include "programs/vminfod/request_text.h"

#include <algorithm>
#include <array>

#include "lib/base/http_field.h"
#include "lib/json/text.h"
#include "lib/net/http_syntax.h"

namespace triton::program {

namespace {

constexpr std::array<std::string_view, 3> own_names{"localhost", "127.0.0.1", "[::1]"};
constexpr std::size_t most_parameters = 64;

bool is_port(std::string_view text) { return text.empty() || (text.front() == ':' && net::is_number(text.substr(1))); }

/// Whether a host has this name, with any port or without one.
bool has_name(std::string_view host, std::string_view name) {
    return host.size() >= name.size() && are_same_letters(host.substr(0, name.size()), name) &&
           is_port(host.substr(name.size()));
}

}  // namespace

bool is_own_host(std::string_view host, std::string_view served) {
    if (!served.empty() && has_name(host, served)) return true;
    return std::ranges::any_of(own_names, [host](std::string_view name) { return has_name(host, name); });
}

bool is_own_origin(std::string_view origin, std::string_view served) {
    constexpr std::string_view scheme = "http://";
    if (origin.empty()) return true;
    return origin.starts_with(scheme) && origin.size() > scheme.size() &&
           is_own_host(origin.substr(scheme.size()), served);
}

Result<std::vector<Parameter>> parse_parameters(std::string_view query) {
    std::vector<Parameter> parameters;
    while (!query.empty()) {
        std::string_view const one = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(query.size(), one.size() + 1));
        if (one.empty()) continue;
        if (parameters.size() == most_parameters)
            return fail("the query has more than " + std::to_string(most_parameters) + " parameters");
        std::size_t const equals = std::min(one.find('='), one.size());
        auto key = net::unescaped(one.substr(0, equals));
        auto value = net::unescaped(one.substr(std::min(equals + 1, one.size())));
        if (!key || key->empty()) return fail("the query has a parameter without a readable name");
        if (!value) return fail("parameter " + json::quoted(*key) + " has a bad escape");
        parameters.push_back({std::move(*key), std::move(*value)});
    }
    return parameters;
}

Result<> check_keys(std::vector<Parameter> const& parameters, std::initializer_list<std::string_view> known) {
    for (Parameter const& parameter : parameters) {
        if (std::ranges::find(known, parameter.key) == known.end())
            return fail("unknown parameter " + json::quoted(parameter.key));
    }
    return {};
}

std::string const* value_of(std::vector<Parameter> const& parameters, std::string_view key) {
    std::string const* value = nullptr;
    for (Parameter const& parameter : parameters) {
        if (parameter.key == key) value = &parameter.value;
    }
    return value;
}

Result<bool> flag_of(std::vector<Parameter> const& parameters, std::string_view key) {
    std::string const* const value = value_of(parameters, key);
    if (!value || *value == "false" || *value == "0") return false;
    if (value->empty() || *value == "true" || *value == "1") return true;
    return fail("parameter " + json::quoted(key) + " is true or false");
}

}  // namespace triton::program
