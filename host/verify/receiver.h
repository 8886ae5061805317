#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "host/role/channel.h"
#include "host/role/verify_messages.h"
#include "host/verify/landed.h"
#include "host/verify/prefix_hasher.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::verify {

/// Writes bytes from pipes into a file, each pipe into its range, and hashes the file meanwhile. The other end of a
/// pipe controls what comes and when, but never where it goes, and never more than its range has room for.
class Receiver {
public:
    /// The channel must outlive this. The file is open for reading and writing.
    Receiver(role::Channel& channel, role::Receive const& job, UniqueFd file);

    /// Works until the library says End, and everything is hashed and on disk.
    /// Errors: `corrupt` for wrong bytes or wrong messages; those of the file.
    Result<role::Verified> run();

private:
    struct OpenRange {
        std::uint32_t id = 0;
        std::uint64_t begin = 0;
        std::uint64_t next = 0;  // the first byte that has not arrived
        std::uint64_t end = 0;
        bool is_open_ended = false;
        UniqueFd pipe;
        PrefixHasher::Buffer buffer;  // what has arrived and is not written yet
        TimePoint unwritten_since{};  // when the first byte of that arrived
    };

    Result<> wait();
    Result<> hear();
    [[nodiscard]] Result<> check_overlap(role::Interval const& interval) const;
    Result<> begin_range(role::Range const& range, UniqueFd pipe);
    Result<bool> read_some(OpenRange& range);
    Result<> flush(OpenRange& range);
    Result<> end_range(OpenRange& range);
    [[nodiscard]] std::optional<TimePoint> next_write() const;
    Result<> write_what_is_due();
    void tell_landed();
    Result<role::Verified> finish();

    role::Channel& channel_;
    role::Expected expected_;
    UniqueFd file_;
    LandedBytes landed_;
    PrefixHasher hasher_;
    std::vector<OpenRange> ranges_;
    std::optional<std::uint64_t> end_;
    std::uint64_t unsynced_ = 0;  // written since the kernel was last told to begin writing
    TimePoint next_landed_{};
    bool is_napping_ = false;  // the pipes fill up for a moment
};

/// Checks the offset and length of a range that the library asks for. Errors: `corrupt`.
Result<> check_interval(role::Interval const& interval, std::uint64_t maximum);

}  // namespace triton::verify
