#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "lib/base/result.h"
#include "programs/frame/frame.h"

namespace triton::program {

/// The options on the command line, before and after the command's name.
struct Options : FrameOptions {
    std::string fields = {};
    bool as_json = false;
    bool without_header = false;
    bool is_of_content = false;
    std::string kind = {};
    std::string uuid = {};
    std::uint64_t generation = 0;
    std::string size = {};
    std::string layout = {};
    std::string content = {};
    std::string source = {};
    bool is_read_only = false;
    bool is_encrypted = false;
    bool is_verify_only = false;
    bool is_dry_run = false;
    bool does_not_wait = false;
    std::string sha256 = {};
    std::string format = {};
    std::string user_data = {};
    std::string network = {};
    std::string credentials = {};
    bool is_insecure = false;
    std::string signature = {};
    std::string keys = {};
    std::string certificates = {};
    std::string snapshot = {};
    std::string file = {};
    bool is_new = false;
    std::string until = {};
    double timeout = 0;  ///< seconds; 0: none
};

using Command = CommandRow<Options>;

/// The commands of each area; commands() has them all.
std::span<Command const> look_commands();
std::span<Command const> change_commands();
std::span<Command const> transfer_commands();
std::span<Command const> commands();
Command const* find_command(std::string_view name);

extern Frame const volumeadm_frame;

}  // namespace triton::program
