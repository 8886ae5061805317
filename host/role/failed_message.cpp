#include "host/role/failed_message.h"

#include "lib/text/printable.h"

namespace triton::role {

namespace {

constexpr std::size_t most_details = 20;
constexpr std::size_t longest_text = 1000;

/// A role can be in an attacker's hands, and its text is shown on terminals.
std::string printable(std::string_view text) { return text::printable(text, longest_text); }

}  // namespace

std::span<Row<Failed> const> table(json::TableOf<Failed>) {
    static constexpr std::array<Row<Failed>, 4> rows{{
        required<&Failed::kind, ErrorKindName>("kind"),
        required<&Failed::attempted, String>("attempted"),
        required<&Failed::reason, String>("reason"),
        required<&Failed::details, ListOf<String, most_details>>("details"),
    }};
    return rows;
}

Failed failed(Error const& error) {
    Failed message{error.kind, printable(error.attempted), printable(error.reason), {}};
    for (std::string const& detail : error.details)
        if (message.details.size() < most_details) message.details.push_back(printable(detail));
    return message;
}

Error error_of(Failed const& failed) {
    Error error{failed.kind, printable(failed.attempted), printable(failed.reason), {}};
    for (std::string const& detail : failed.details)
        error.details.push_back(printable(detail));
    return error;
}

}  // namespace triton::role
