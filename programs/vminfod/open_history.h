#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace triton::program {

/// The next lines of the history as every user of the host may see them: when, which machine, which command, and
/// whether that has failed. What was changed, and what an error says, may quote secrets. At most `most` lines are taken
/// from the front of `lines`; one that cannot be read is left out.
std::string open_lines(std::string_view& lines, std::size_t most);

}  // namespace triton::program
