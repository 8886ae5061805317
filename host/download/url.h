#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::download {

/// A URL that we may request: http or https, without a user name and password, which must not get into logs.
struct Url {
    std::string text;  ///< whole, for the request
    std::string
        authority;  ///< "registry.example:443", always with a port and in lower case: what credentials belong to
    bool is_https = false;

    /// For messages: without query and fragment, which may hold a signature that gives access.
    [[nodiscard]] std::string shown() const;
};

/// Errors: `invalid`: "https://user@host/ holds a user name", "ftp://host/ is not a URL of http or https".
Result<Url> parse_url(std::string_view text);

/// Resolves a Location or a realm against `base`. Errors: as of parse_url(); `refused`: "leads from https to http".
Result<Url> follow(Url const& base, std::string_view location);

/// Turns "registry.example:5000" or "registry.example" of credentials into the authority of a URL with that scheme.
std::string authority_of(std::string_view host, bool is_https);

/// Appends a parameter to the query of a URL.
std::string with_parameter(std::string const& url, std::string_view name, std::string_view value);

}  // namespace triton::download
