#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/terminal/pseudo_terminal.h"

namespace triton::launcher {

/// What goes over a connection of `ctl attach` once it is one, in both directions: frames of one byte that says what it
/// is, three bytes of length (the highest first), and so much content. The interface description says it, too.
enum class AttachFrame : char {
    data = 'd',     ///< both ways: bytes of the terminal, as they are
    window = 'w',   ///< to the launcher: rows and columns, two bytes each, the highest first
    lost = 'l',     ///< to the client: so many bytes had no room, as decimal digits
    ended = 'e',    ///< to the client: the process has ended; its wait status (wait(2)) as decimal digits
    started = 's',  ///< to the client: a process of the number has started again
    upgrade = 'u',  ///< to the client: the launcher becomes another version: call again
    over = 'o'      ///< to the client: why nothing more comes, as a text
};

inline constexpr std::size_t attach_header = 4;
inline constexpr std::size_t longest_attach_frame = 16 * 1024;  ///< of content

/// Appends one frame of at most longest_attach_frame, or as many as the bytes need.
void append_attach_frame(std::string& out, AttachFrame what, std::string_view content = {});
std::string window_content(WindowSize size);
/// nullopt: it is not one, or it is empty.
std::optional<WindowSize> read_window(std::string_view content);

struct AttachMessage {
    AttachFrame what = AttachFrame::data;
    std::string_view content;
    std::size_t size = 0;  ///< of all of it: to be cut off the front
};

enum class AttachReading : std::uint8_t { whole, partial, wrong };

/// The first frame of `bytes`, which are borrowed for it. `partial`: more of it is to come. `wrong`: it is longer than
/// it may be.
AttachReading read_attach_frame(std::string_view bytes, AttachMessage& message);

}  // namespace triton::launcher
