#include "host/role/failed_message.h"

namespace triton::role {

namespace {

constexpr std::size_t most_details = 20;
constexpr std::size_t longest_text = 1000;

/// Makes a role's text printable: a role may have been taken over, and its text goes to a terminal.
std::string printable(std::string_view text) {
    std::string shown(text.substr(0, longest_text));
    for (char& c : shown)
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
    if (text.size() > longest_text) shown += "...";
    return shown;
}

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
