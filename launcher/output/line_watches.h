#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "config/probe_target.h"
#include "launcher/output/log_ring.h"
#include "launcher/output/output_capture.h"

namespace triton::launcher {

/// Hands the lines of some processes to whoever looks at them, from their start on. Whoever looks may be slow, or come
/// late: nobody waits for him. What he has not taken is read again from the program's ring (LogRing), and what has
/// left that is missed; so nothing is kept here but a place in it for each process.
///
/// Bounds: of a line its first `longest_shown` bytes are told; with one call as much as a chunk of the ring has; in one
/// round `most_reads` rings are read. How much waits for the looker is his own bound (Calls::has_room).
class LineWatches {
public:
    static constexpr std::size_t longest_shown = 4096;
    static constexpr std::size_t most_reads = 8;

    struct Calls {
        std::function<bool()> has_room;  ///< for one more send()
        /// Borrowed for the call: whole lines without their ends, or the beginnings of long ones.
        std::function<void(std::uint64_t id, std::span<std::string_view const> lines)> send;
        /// Told once of each watch: what the looker did not take in time is gone.
        std::function<void(OutputKey process)> missed;
    };
    /// `output` outlives this.
    LineWatches(OutputCapture const& output, Calls calls) : output_(output), calls_(std::move(calls)) {}

    /// Begins with the latest start of this process. `id`: of what is sent. Replaces another watch of the process.
    void begin(OutputKey process, std::uint64_t id, config::LogStream stream);
    /// Nothing happens when there is none.
    void end(OutputKey process);
    /// Ends all watches, because nobody looks any more.
    void clear();

    /// A new chunk: see OutputCapture::follow().
    void take(std::uint32_t program, LogChunk const& chunk);
    /// Sends what is behind, as far as there is room.
    void catch_up();
    /// Whether catch_up() would do something.
    [[nodiscard]] bool is_to_catch_up() const { return behind_ > 0 && calls_.has_room(); }

private:
    struct Watch {
        OutputKey process;
        std::uint64_t id = 0;
        std::uint64_t next = 0;  // chunk
        config::LogStream stream = config::LogStream::both;
        bool is_behind = true;    // it has to be read from the ring
        bool is_mid_out = false;  // the beginning of the line has been sent, or missed
        bool is_mid_err = false;
        bool has_missed = false;
    };
    std::vector<Watch>::iterator find(OutputKey process);
    void fall_behind(Watch& watch);
    void read_ring(Watch& watch);
    void send(Watch& watch, LogChunk const& chunk);

    OutputCapture const& output_;
    Calls calls_;
    std::vector<Watch> watches_;  // by process
    std::size_t behind_ = 0;
    std::size_t turn_ = 0;  // of the watches, whose ring is read next
    std::vector<std::string_view> lines_;
};

}  // namespace triton::launcher
