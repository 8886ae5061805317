#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/unique_fd.h"
#include "lib/log/line_output.h"

namespace triton::log {

/// A bounded buffer in front of a descriptor that must never block us.
///
/// O_NONBLOCK cannot be set: it belongs to the open file, which we share with our children and our parent. So each
/// kind of file has its own way of not waiting. A terminal is opened once more: no other way keeps a write to it from
/// waiting, because poll(2) tells that there is room, and not how much the written characters need.
class LogOutput final : public LineOutput {
public:
    static constexpr std::size_t capacity = 256 * 1024;

    LogOutput() = default;
    /// `fd` is borrowed; fd() is another one when it is a terminal.
    explicit LogOutput(int fd);
    explicit LogOutput(UniqueFd fd);

    void append(std::string_view line) override;
    /// A reader that is gone ends this output.
    void flush() override;

    [[nodiscard]] bool has_room(std::size_t bytes) const override {
        return buffer_.size() - written_ + bytes <= capacity;
    }
    [[nodiscard]] std::size_t pending() const { return buffer_.size() - written_; }
    [[nodiscard]] std::string_view waiting() const { return std::string_view(buffer_).substr(written_); }
    [[nodiscard]] bool has_pending() const { return pending() > 0; }
    [[nodiscard]] bool is_blocked() const { return is_blocked_; }
    /// Why a file has not taken all: an errno; 0: it has.
    [[nodiscard]] int error() const { return error_; }
    /// From now on to another descriptor, which also gets waiting lines.
    void replace(UniqueFd fd);
    [[nodiscard]] int fd() const { return fd_; }

private:
    enum class Kind : std::uint8_t { none, file, socket, pipe, terminal, own_terminal };

    static Kind kind_of(int fd);
    void take(int fd);
    void open_terminal();
    [[nodiscard]] std::size_t begun_line() const;  // where the line that is being written begins
    long write_some(char const* data, std::size_t size) const;
    long write_unwatched(char const* data, std::size_t size) const;

    UniqueFd owned_;
    int fd_ = -1;
    Kind kind_ = Kind::none;
    bool is_blocked_ = false;
    std::string buffer_;
    std::size_t written_ = 0;  // of the buffer
    int error_ = 0;
};

}  // namespace triton::log
