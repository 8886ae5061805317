#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/store.h"
#include "lib/json/reader.h"
#include "programs/vmadm/command_line.h"

namespace triton::program {

/// The parts of machines that a command shows.
struct Wanted {
    std::vector<std::string> keys = {};  ///< properties, or parts of these
    bool is_whole = false;               ///< all that `get` shows
};

/// Machines that fulfil the conditions of a command line, by uuid: with what is wanted of them, or more.
struct Chosen {
    std::vector<json::Node> machines;
    std::vector<json::Node> broken;  ///< {"uuid", "zonename", "state": "unreadable", "error"}
};

/// What is shown of a machine that cannot be read.
json::Node broken_node(machine::BrokenFile const& file);

/// Of vminfod, or loaded directly: what is wanted is the same. Standard error has a line for each machine that cannot
/// be read, whether or not it fulfils conditions. `what`: "filter" or "lookup", for the message.
std::expected<Chosen, Failure> choose(Options const& options, std::string_view what, Wanted const& wanted);

}  // namespace triton::program
