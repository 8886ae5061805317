// Whatever bytes a program writes on its terminal: no crash, what has been switched can be put back and made again, and
// it does not matter in which pieces they come.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "launcher/terminal/screen_modes.h"

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

}  // namespace

extern "C" int screen_modes_fuzz(std::uint8_t const* data, std::size_t size) {
    using triton::launcher::ScreenModes;
    std::string_view const bytes{reinterpret_cast<char const*>(data), size};
    ScreenModes modes, in_pieces, again;
    modes.sent(bytes);
    std::size_t piece = 1;
    for (std::string_view left = bytes; !left.empty(); piece = piece % 7 + 1) {
        in_pieces.sent(left.substr(0, piece));
        left.remove_prefix(std::min(piece, left.size()));
    }
    require(in_pieces.undo() == modes.undo() && in_pieces.redo() == modes.redo());
    require(modes.undo().size() < 512 && modes.redo().size() < 512);
    again.sent(modes.redo());
    require(again.redo() == modes.redo() && again.screen() == modes.screen());
    modes.sent(modes.undo());
    require(modes.undo().empty() && modes.redo().empty());
    return 0;
}

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    return screen_modes_fuzz(data, size);
}
#endif
