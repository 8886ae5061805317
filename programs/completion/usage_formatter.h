#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

namespace triton::program {

/// The help of a command whose words mean something only by their places: its line of usage names them ("vmadm rename
/// VM ALIAS"), where CLI11 would say "[words...]".
class UsageFormatter : public CLI::Formatter {
public:
    /// `arguments` may be empty.
    UsageFormatter(std::string command, std::string_view arguments) : line_(std::move(command)) {
        if (!arguments.empty()) line_.append(" ").append(arguments);
    }
    std::string make_usage(CLI::App const*, std::string) const override { return "Usage: " + line_ + "\n"; }
    std::string make_positionals(CLI::App const*) const override { return ""; }

private:
    std::string line_;
};

}  // namespace triton::program
