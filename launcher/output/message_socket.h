#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace triton::launcher {

// What is said over message sockets (unix(7), SOCK_SEQPACKET) to processes that write for the launcher.

/// Sends one message of two parts, and never waits. Returns whether it was sent; errno of sendmsg(2).
bool send_message(int socket, std::string_view first, std::string_view second);

/// Cuts a number, and `end` behind it if it is there, off the beginning of `text`; nullopt: there is none.
std::optional<std::uint64_t> take_number(std::string_view& text, char end);

}  // namespace triton::launcher
