#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "programs/imgadm/context.h"

namespace CLI {
class App;
}

namespace triton::program {

/// The command of the command line, ready to run.
using Run = std::function<Outcome(Context& context)>;

/// A command: its options are added to `app`; when it is the one that is given, parsing sets `run`.
struct CommandRow {
    std::string_view name;
    std::string_view help;
    void (*add)(CLI::App& app, Run& run);
};

std::span<CommandRow const> list_commands();
std::span<CommandRow const> import_commands();
std::span<CommandRow const> removal_commands();
std::span<CommandRow const> source_commands();
std::span<CommandRow const> content_commands();

}  // namespace triton::program
