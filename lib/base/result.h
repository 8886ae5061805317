#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace triton {

/// What a caller may have to tell apart. kind_table in error_kinds.h says what each means to a shell, and to clients of
/// HTTP, Varlink and gRPC.
enum class ErrorKind : std::uint8_t {
    invalid,      ///< the request makes no sense
    not_found,    ///< a named thing does not exist
    exists,       ///< a thing to be made exists already
    refused,      ///< it is understood, and not done in this state
    busy,         ///< somebody else uses it now; later it may work
    unavailable,  ///< a resource or a peer that it needs is not there now
    exhausted,    ///< no room is left: bytes or inodes of a file system, a quota, a range of numbers
    timeout,      ///< it took too long
    denied,       ///< the caller, or we, may not do that
    corrupt,      ///< data are not what they should be
    unsupported,  ///< this system or version cannot do that
    internal,     ///< everything else
};

/// The kind of a system call's error. Source: errno(3).
ErrorKind kind_of_errno(int err);

/// Why something failed, ready to be shown to an operator.
struct Error {
    ErrorKind kind = ErrorKind::internal;
    std::string attempted;             ///< what, and on what: "open config/box.json"; empty: the reason says it all
    std::string reason;                ///< "No such file or directory"
    std::vector<std::string> details;  ///< one sentence each, when there is more to say
    int code = 0;                      ///< errno, only to be shown: callers tell cases apart by the kind

    /// "cannot open config/box.json: No such file or directory"
    [[nodiscard]] std::string text() const;

    bool operator==(Error const&) const = default;
};

template <class T = void>
using Result = std::expected<T, Error>;

/// What a system call could not do: "cannot <what>: <strerror(err)>", of that errno's kind.
std::unexpected<Error> fail(int err, std::string_view what);

/// "cannot <what>: <reason>".
std::unexpected<Error> fail(ErrorKind kind, std::string_view what, std::string reason);

/// The text as it is.
std::unexpected<Error> fail(ErrorKind kind, std::string text);

/// The same of kind `invalid`, the most common one.
std::unexpected<Error> fail(std::string text);

/// Turns the failure to remove something that does not exist into success.
Result<> unless_missing(Result<> result);

/// The system's text for an errno, without a locale and without a static buffer.
std::string errno_text(int err);

/// The value of a Result, or an early return with its error.
#define TRY(expr)                                                     \
    __extension__({                                                   \
        auto tried = (expr);                                          \
        if (!tried) return std::unexpected(std::move(tried).error()); \
        *std::move(tried);                                            \
    })

}  // namespace triton
