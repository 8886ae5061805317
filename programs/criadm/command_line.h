#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "programs/frame/frame.h"

namespace triton::program {

/// The options on the command line, before and after the command's name.
struct Options : FrameOptions {
    std::string fields = {};
    bool as_json = false;
    bool without_header = false;
    bool is_of_containers = false;
    bool follows = false;
    bool with_times = false;
    std::int64_t tail = -1;  ///< -1: all
    bool is_raw = false;
    double timeout = 0;  ///< seconds; 0: none
    double grace = 10;   ///< seconds
};

using Command = CommandRow<Options>;

/// The commands of each area; commands() has them all.
std::span<Command const> look_commands();
std::span<Command const> logs_commands();
std::span<Command const> change_commands();
std::span<Command const> commands();

extern Frame const criadm_frame;

}  // namespace triton::program
