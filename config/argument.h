#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
    std::int64_t multiplier = 1;        ///< process::ProcessNumber: number * multiplier + offset; never 0
    std::int64_t offset = 0;
    std::uint32_t width = 0;  ///< process::ProcessNumber: at least this many characters, by zeros; up to 20

    bool operator==(Argument const&) const;
};

}  // namespace triton::config
