#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace triton::cri::stream {

inline constexpr std::size_t most_head_bytes = 16 * 1024;

/// The head of an HTTP/1.1 request that asks for an upgrade.
struct RequestHead {
    std::string method;
    std::string path;                                         ///< without a query
    std::vector<std::pair<std::string, std::string>> fields;  ///< names are lower-case

    /// The members of a comma-separated list, of all fields of that name.
    [[nodiscard]] std::vector<std::string> list(std::string_view name) const;
    /// Whether it is in such a list, in whatever case.
    [[nodiscard]] bool has_token(std::string_view name, std::string_view token) const;
    /// Empty: there is none.
    [[nodiscard]] std::string_view value(std::string_view name) const;
};

/// `text`: up to and with the blank line. Errors: `invalid`.
Result<RequestHead> parse_request_head(std::string_view text);

/// A whole answer that is no upgrade, after which the connection ends. `fields`: further ones, each with its line end.
std::string plain_answer(unsigned status, std::string_view reason, std::string_view text, std::string_view fields = {});

}  // namespace triton::cri::stream
