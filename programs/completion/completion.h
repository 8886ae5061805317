#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace CLI {
class App;
}

namespace triton::program {

/// What the words of some commands are: images of imgadm, VMs of vmadm. They are asked for when the user wants one.
struct Things {
    std::string_view name;    ///< "image"
    std::string_view lister;  ///< a command of the shell that prints one a line; it has no quote in it
    bool (*are_words_of)(CLI::App const& command);
};

/// Texts that an option of a command may have as its value, or that the words of a command may be.
struct Offer {
    std::string command = {};  ///< empty: all
    std::string option = {};   ///< "-o"; empty: the words
    std::vector<std::string> texts = {};
    bool is_list = false;  ///< of an option: several, with commas between
};

/// The completion of "bash", "zsh" or "fish" for this grammar, made from it; the grammar's name is the program's.
/// Errors: `invalid` for another shell.
Result<std::string> completion_for(CLI::App const& app, std::string_view shell, Things const& things,
                                   std::span<Offer const> offers = {});

}  // namespace triton::program
