#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace triton::agent {

/// One call of the launcher.
struct UiCall {
    std::string method;      ///< "org.tritonlaunch.Launcher.Restart"
    std::string parameters;  ///< JSON
    std::string text;        ///< for the log: "restart web 2"
    bool may_take_long = false;
    std::string not_alone = {};  ///< what a person is told before the names of the others: "stop them first: "
};

// Bodies of requests from the page. Errors: what is wrong, for the answer. What gets through is one of five methods
// with members of known types; whether the launcher knows the program is its own affair.

/// {"command": "restart", "program": "web", "process": 2}; start, stop, restart, signal (with "signal": "HUP"), reload
/// (alone). Without a process: all of them.
std::expected<UiCall, std::string> parse_ui_command(std::string_view body);
/// {"program": "web", "process": 2, "after": 17}: the lines that come behind a sequence, or the last ones.
std::expected<UiCall, std::string> parse_ui_logs(std::string_view body);
/// {"after": 17}: which events are known already.
std::expected<std::uint64_t, std::string> parse_ui_after(std::string_view body);

}  // namespace triton::agent
