#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/output/line_format.h"

namespace triton::launcher {

/// What one process wrote at one time to one stream: whole lines with their newlines, or (`is_partial`) a piece of a
/// line that continues in the next chunk of the same process and stream.
struct LogChunk {
    std::uint64_t sequence = 0;     ///< of the program's chunks, from 1
    std::int64_t microseconds = 0;  ///< since the epoch, when it was read
    std::uint32_t process = 0;
    OutputStream stream = OutputStream::out;
    bool is_partial = false;
    bool is_left_over = false;  ///< from a run that has ended; not kept
    std::string_view text = {};
};

/// Where a line of a chunk is in the output of its program: it grows from line to line, even across upgrades. A chunk
/// is shorter than what its low bits count.
inline constexpr unsigned line_bits = 14;
[[nodiscard]] inline std::uint64_t line_sequence(LogChunk const& chunk, std::string_view line) {
    return chunk.sequence << line_bits | static_cast<std::uint64_t>(line.data() + line.size() - chunk.text.data());
}

/// The last output of one program, in bounded memory that is taken when the first line comes. Oldest chunks give way.
class LogRing {
public:
    static constexpr std::size_t default_capacity = 64 * 1024;  // chunks are an eighth of it at most: see line_bits
    /// `capacity`: at least 1024; 0: nothing is kept.
    explicit LogRing(std::size_t capacity = default_capacity);

    /// Adds text; long text becomes several chunks. Calls `each` for every one of them.
    void append(LogChunk chunk, std::function<void(LogChunk const&)> const& each = {});

    /// The chunks from `sequence` on, oldest first, while `each` returns true. Returns the sequence to continue with.
    std::uint64_t read(std::uint64_t sequence, std::function<bool(LogChunk const&)> const& each) const;
    /// The number of the oldest chunk that is kept, or of the next one when none is.
    [[nodiscard]] std::uint64_t first_sequence() const { return first_sequence_; }
    [[nodiscard]] std::uint64_t next_sequence() const { return next_sequence_; }

    /// Everything in it as one text, and back: for an upgrade. Text of another form is not accepted.
    [[nodiscard]] std::string save() const;
    void load(std::string_view saved);

private:
    void append_one(LogChunk const& chunk);
    void make_room(std::size_t bytes);
    [[nodiscard]] std::size_t size_at(std::size_t at) const;

    std::size_t capacity_;
    std::unique_ptr<char[]> bytes_;
    std::size_t begin_ = 0;  // of the oldest chunk
    std::size_t end_ = 0;    // behind the newest
    std::size_t wrap_ = 0;   // where the chunks before the wrap end, while the newest are before the oldest
    bool is_wrapped_ = false;
    std::uint64_t first_sequence_ = 1;
    std::uint64_t next_sequence_ = 1;
};

}  // namespace triton::launcher
