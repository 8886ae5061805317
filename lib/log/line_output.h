#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace triton::log {

/// Where whole lines go, without waiting. A line that does not fit is dropped and counted.
class LineOutput {
public:
    virtual ~LineOutput() = default;

    virtual void append(std::string_view line) = 0;
    /// Writes until nothing is left or the reader takes no more.
    virtual void flush() = 0;
    [[nodiscard]] virtual bool has_room(std::size_t bytes) const = 0;

    [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
    void forget_dropped() { dropped_ = 0; }

protected:
    LineOutput() = default;
    LineOutput(LineOutput&&) = default;
    LineOutput& operator=(LineOutput&&) = default;

    std::uint64_t dropped_ = 0;
};

}  // namespace triton::log
