#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace triton {

/// Why something failed, ready to be shown to an operator.
struct Error {
    int code = 0;      ///< errno, or 0 when no system call is to blame
    std::string text;  ///< "cannot open config/box.json: No such file or directory"

    bool operator==(Error const&) const = default;
};

template <class T = void>
using Result = std::expected<T, Error>;

/// "cannot <what>: <strerror(err)>", with `err` kept as the code.
std::unexpected<Error> fail(int err, std::string_view what);

/// An error that no system call caused: the text as it is, code 0.
std::unexpected<Error> fail(std::string text);

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
