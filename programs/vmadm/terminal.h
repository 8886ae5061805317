#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <unistd.h>

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

/// A property of standard input, output and error.
using StandardFiles = std::array<bool, 3>;

/// Which of them are terminals.
StandardFiles own_terminals();

/// Our side of a relay, from which of our standard files are terminals; one is at least.
struct OwnTerminal {
    explicit OwnTerminal(StandardFiles const& terminals)
        : is_typed_at(terminals[STDIN_FILENO]),
          shown(terminals[STDOUT_FILENO]   ? STDOUT_FILENO
                : terminals[STDERR_FILENO] ? STDERR_FILENO
                                           : STDIN_FILENO),
          is_alone(terminals[STDOUT_FILENO] && terminals[STDERR_FILENO]) {}
    bool is_typed_at;  ///< standard input is the terminal
    int shown;         ///< where what comes back is shown: of standard input alone that is the echo
    bool is_alone;     ///< nothing that goes elsewhere may come back to it, as through `| cat`
};

/// Gives the other one the size of our terminal.
void copy_size(OwnTerminal const& own, int other);

/// Why relay_terminal() has returned.
enum class Relayed : std::uint8_t {
    ended,   ///< the program has ended, or the other end is closed
    left,    ///< the user has typed the escape character
    killed,  ///< a signal wants this program to end
};
struct RelayEnd {
    Relayed why = Relayed::ended;
    int signal = 0;  ///< that of `killed`
};

/// Ctrl-].
inline constexpr char escape_character = 0x1d;

/// Moves bytes between our terminal and another one, each key at once, until one of these
/// happens; changes of our terminal's size go there, too. Afterwards our terminal is as it was: also after SIGHUP,
/// SIGINT, SIGQUIT and SIGTERM, which end the relay, and SIGTSTP is ignored. `escape`: what ends it; none: nothing
/// typed does. `running`: the program, as a pidfd; what it has left in the background may keep the terminal open.
RelayEnd relay_terminal(OwnTerminal const& own, int other, int running, std::optional<char> escape);

}  // namespace triton::program
