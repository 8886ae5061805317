#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::http::grpc {

/// The numbers are those of the wire. Source: https://grpc.io/docs/guides/status-codes/
enum class Code : std::uint8_t {
    ok,
    cancelled,
    unknown,
    invalid_argument,
    deadline_exceeded,
    not_found,
    already_exists,
    permission_denied,
    resource_exhausted,
    failed_precondition,
    aborted,
    out_of_range,
    unimplemented,
    internal,
    unavailable,
    data_loss,
    unauthenticated,
};

/// "RESOURCE_EXHAUSTED", for example.
std::string_view name_of(Code code);

/// Reads the value of `grpc-status`. nullopt: it is not one of the codes.
std::optional<Code> parse_code(std::string_view text);

/// How a call ended.
struct Status {
    Code code = Code::ok;
    std::string message = {};  ///< UTF-8

    bool operator==(Status const&) const = default;
};

/// The status of an error, by the table of error kinds. Details follow the text, separated by semicolons.
Status status_of(Error const& error);

/// Returns the text with everything but printable ASCII, and each "%", percent-encoded: the value of `grpc-message`.
std::string encode_message(std::string_view message);
/// The reverse. Text that is not properly encoded stays as it is.
std::string decode_message(std::string_view encoded);

/// Returns the text with each byte that does not belong to valid UTF-8 replaced by "?".
std::string valid_utf8(std::string_view text);

}  // namespace triton::http::grpc
