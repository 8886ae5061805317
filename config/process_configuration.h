#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/limits.h"
#include "config/problem.h"

namespace triton::config {

enum class ArgumentType : std::uint8_t { literal, concatenate, environment, process_number, ip_list };

enum class IpFamily : std::uint8_t { v4 = 4, v6 = 6 };

/// One argument of a command, or a part of one inside a Concatenate. Which members mean something depends on the type.
struct Argument {
    ArgumentType type = ArgumentType::literal;
    IpFamily ip_family = IpFamily::v4;  ///< IPList
    std::string value = {};             ///< Literal; an empty one is still an argument
    std::vector<Argument> values = {};  ///< Concatenate, joined in order
    std::string source = {};            ///< Environment, IPList: the name of a variable, not empty
    std::int64_t multiplier = 1;        ///< ProcessNumber: number * multiplier + offset; never 0
    std::int64_t offset = 0;

    bool operator==(Argument const&) const;
};

/// What to run: the document that `parse()` reads.
struct ProcessConfiguration {
    std::string version;                 ///< not empty, usable as one component of a path
    bool run_servers = true;             ///< false: nothing runs
    std::optional<std::uint32_t> count;  ///< how many processes, 0 to 65535; overrides the command line
    std::vector<Argument> arguments;     ///< without the program itself

    bool operator==(ProcessConfiguration const&) const = default;
};

struct Parsed {
    ProcessConfiguration configuration;
    Problems warnings;  ///< what an older launcher tolerates from a newer writer: unknown keys, keys without effect
};

/// What could be read of a document, for whoever wants to say all that is wrong with it.
struct Draft {
    ProcessConfiguration configuration;  ///< with problems: what could be read; every argument is in its place
    Problems problems;
    Problems warnings;
    bool is_object = false;  ///< false: there is nothing in `configuration`, the text is no JSON object
};

/// Reads a ProcessConfiguration from JSON text (RFC 8259, UTF-8 without BOM).
/// Keys are exact; null for an optional key means that it is absent. Nothing is substituted here.
/// Everything that is wrong is reported, not only the first; a syntax error ends the reading.
Draft read(std::string_view text, Limits const& limits = {});

/// The same for whoever takes only what is good. Errors: the problems, never none.
std::expected<Parsed, Problems> parse(std::string_view text, Limits const& limits = {});

}  // namespace triton::config
