#pragma once

#include <cstdint>
#include <optional>

#include "lib/base/unique_fd.h"

namespace triton::program {

/// A terminal of a machine, which is not trusted with one of the host.
struct Terminal {
    UniqueFd ours;    ///< what is written there is typed into it, what is read there is shown by it
    UniqueFd theirs;  ///< the program's end
};

/// Makes a terminal in the file system /dev/pts of this process's root directory. The caller is in a machine, as its
/// root. Makes only system calls. Returns nothing when there is no such file system.
std::optional<Terminal> make_terminal();

/// Whether a file that came out of a machine is what make_terminal() makes: nothing else may be relayed.
bool is_terminal(int ours);

/// Gives it the size of our terminal.
void copy_size(int ours);

/// Why relay_terminal() has returned.
enum class Relayed : std::uint8_t {
    ended,   ///< the other end is closed
    left,    ///< the user has typed the escape character
    killed,  ///< a signal wants this program to end
};
struct RelayEnd {
    Relayed why = Relayed::ended;
    int signal = 0;  ///< that of `killed`
};

/// Ctrl-].
inline constexpr char escape_character = 0x1d;

/// Moves bytes between our terminal (standard input and output) and another one, each key at once, until one of these
/// happens; changes of our terminal's size go there, too. Afterwards our terminal is as it was: also after SIGHUP,
/// SIGINT, SIGQUIT and SIGTERM, which end the relay, and SIGTSTP is ignored. `escape`: what ends it; none: nothing
/// typed does.
RelayEnd relay_terminal(int other, std::optional<char> escape);

}  // namespace triton::program
