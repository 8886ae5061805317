#pragma once

#include <string>
#include <string_view>

#include "host/role/message.h"

namespace triton::role {

/// The failure that has ended a job. Its texts come from a role: they are for operators, and nothing depends on them.
struct Failed {
    static constexpr std::string_view name = "failed";
    ErrorKind kind = ErrorKind::internal;
    std::string attempted;
    std::string reason;
    std::vector<std::string> details;
};

std::span<Row<Failed> const> table(json::TableOf<Failed>);

Failed failed(Error const& error);
/// Turns control characters into blanks, and cuts what is longer than a line of a log.
Error error_of(Failed const& failed);

}  // namespace triton::role
