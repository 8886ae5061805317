#pragma once

#include <string>
#include <string_view>

#include "host/role/message.h"

namespace triton::role {

/// What ended a job. The texts are a role's: for an operator's eyes, and nothing is decided by them.
struct Failed {
    static constexpr std::string_view name = "failed";
    ErrorKind kind = ErrorKind::internal;
    std::string attempted;
    std::string reason;
    std::vector<std::string> details;
};

std::span<Row<Failed> const> table(json::TableOf<Failed>);

Failed failed(Error const& error);
/// Control characters become blanks, and what is longer than a line of a log is cut.
Error error_of(Failed const& failed);

}  // namespace triton::role
