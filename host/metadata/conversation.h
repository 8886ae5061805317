#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "host/metadata/answers.h"

namespace triton::metadata {

/// One connection of a client inside the machine: bytes in, bytes out. It begins in version 1 of the protocol (`GET
/// KEY` and `KEYS` as bare lines), and `NEGOTIATE V2` tells the client that it may send frames.
class Conversation {
public:
    /// The longest line: a value of 1 MiB, which PUT encodes twice.
    static constexpr std::size_t longest_line = 2 << 20;

    explicit Conversation(Answers& answers) : answers_(answers) {}

    /// Returns the answers to all lines that are whole now. A damaged frame has none, as its id is not known: clients
    /// ask again after a while.
    std::string take(std::string_view bytes);
    /// Whether there is no sense in going on: a line without an end.
    [[nodiscard]] bool is_over() const { return is_over_; }

private:
    std::string answer(std::string_view line);
    std::string answer_frame(std::string_view text);

    Answers& answers_;
    std::string rest_;
    bool is_over_ = false;
};

}  // namespace triton::metadata
