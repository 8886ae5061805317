#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "host/info/client/client.h"
#include "host/machine/listing.h"
#include "lib/base/result.h"
#include "programs/frame/frame.h"

namespace triton::program {

/// The options on the command line, before and after the command's name.
struct Options : FrameOptions {
    std::string fields = {};
    bool is_full = false;
    bool as_json = false;
    bool with_ready = false;
    bool is_fresh = false;
    std::string since = {};
    std::vector<std::string> filters = {};
    std::vector<std::string> types = {};
    std::vector<std::string> changed = {};  ///< names of properties
    std::vector<std::string> until = {};
    double timeout = 0;  ///< seconds; 0: none
    std::string sort = "cpu";
    double delay = 2;  ///< seconds
    int count = 0;     ///< 0: for ever
};

using Command = CommandRow<Options>;

/// The commands of each area; commands() has them all.
std::span<Command const> look_commands();
std::span<Command const> event_commands();
std::span<Command const> top_commands();
std::span<Command const> commands();
Command const* find_command(std::string_view name);

extern Frame const vminfo_frame;

/// vminfod, for this command.
info::Client client_of(Options const& options);
/// The conditions that words say. `what`: "filter", for the message.
Result<std::vector<machine::Filter>> filters_of(std::span<std::string const> words, std::string_view what);

}  // namespace triton::program
