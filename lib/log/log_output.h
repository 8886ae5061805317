#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/unique_fd.h"

namespace triton::log {

/// A bounded buffer in front of a descriptor that must never block us.
///
/// O_NONBLOCK cannot be used: it belongs to the open file, which we share with our children and our parent. So each
/// kind of file has its own way of not waiting.
class LogOutput {
public:
    static constexpr std::size_t capacity = 256 * 1024;

    LogOutput() = default;
    /// `fd` is borrowed.
    explicit LogOutput(int fd);
    explicit LogOutput(UniqueFd fd);

    /// Whole lines only. A line that does not fit is dropped and counted.
    void append(std::string_view line);
    /// Writes until nothing is left or the reader takes no more. A reader that is gone ends this output.
    void flush();

    [[nodiscard]] bool has_room(std::size_t bytes) const { return buffer_.size() - written_ + bytes <= capacity; }
    [[nodiscard]] std::size_t pending() const { return buffer_.size() - written_; }
    [[nodiscard]] bool has_pending() const { return pending() > 0; }
    [[nodiscard]] bool is_blocked() const { return is_blocked_; }
    [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
    void forget_dropped() { dropped_ = 0; }
    /// From now on to another descriptor, which also gets waiting lines.
    void replace(UniqueFd fd);
    [[nodiscard]] int fd() const { return fd_; }

private:
    enum class Kind : std::uint8_t { none, file, socket, pipe, terminal };

    static Kind kind_of(int fd);
    [[nodiscard]] std::size_t begun_line() const;  // where the line that is being written begins
    long write_some(char const* data, std::size_t size) const;
    long write_unwatched(char const* data, std::size_t size) const;

    UniqueFd owned_;
    int fd_ = -1;
    Kind kind_ = Kind::none;
    bool is_blocked_ = false;
    std::string buffer_;
    std::size_t written_ = 0;  // of the buffer
    std::uint64_t dropped_ = 0;
};

}  // namespace triton::log
