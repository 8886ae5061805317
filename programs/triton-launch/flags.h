#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <unistd.h>

#include "lib/flags/flags.h"

namespace triton::program {

// The flags of triton-launch are tables of config/flags.h.
using flags::append_to;
using flags::Apply;
using flags::Choice;
using flags::Elsewhere;
using flags::find_flag;
using flags::Flag;
using flags::Flags;
using flags::help_row;
using flags::help_rows;
using flags::into;
using flags::into_any;
using flags::into_choice;
using flags::into_key_prefix;
using flags::into_mode;
using flags::into_path_or_none;
using flags::into_rewrite;
using flags::into_signal;
using flags::into_size_or_none;
using flags::into_switch;
using flags::longest_duration;
using flags::Words;

inline flags::Program this_program() { return {"triton-launch", "TRITON_LAUNCH_", ::environ}; }

inline Result<Words> parse_words(Flags const& flags, std::span<char const* const> arguments,
                                 Elsewhere elsewhere = nullptr) {
    return flags::parse_words(this_program(), flags, arguments, elsewhere);
}

inline std::optional<std::string> peek(std::string_view name, std::span<char const* const> arguments) {
    return flags::peek(this_program(), name, arguments);
}

}  // namespace triton::program
