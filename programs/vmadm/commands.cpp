#include "programs/vmadm/commands.h"

#include <algorithm>

namespace triton::program {

std::span<Command const> commands() {
    static std::vector<Command> const all = [] {
        std::vector<Command> rows;
        for (auto const area : {life_commands(), look_commands(), change_commands(), copy_commands(), inside_commands(),
                                completion_commands()})
            rows.insert(rows.end(), area.begin(), area.end());
        std::ranges::sort(rows, {}, &Command::name);
        return rows;
    }();
    return all;
}

}  // namespace triton::program
