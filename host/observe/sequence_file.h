#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace triton::observe {

/// The file that keeps sequence numbers from being used twice. It has a number that none has reached: the mark. A run
/// of the daemon takes numbers from there on, and moves the mark before reaching it.
class SequenceFile {
public:
    static constexpr std::uint64_t reserve = 1'000'000;

    explicit SequenceFile(std::string path) : path_(std::move(path)) {}

    /// Moves the mark by `reserve`, durably. Returns the number after which the events of this run begin. If the file
    /// is corrupt, that is `fallback`.
    /// Errors: those of writing the file.
    Result<std::uint64_t> begin(std::uint64_t fallback);
    /// Moves the mark so that numbers after `next` are reserved, too. Errors: the same.
    Result<> keep_ahead(std::uint64_t next);

private:
    Result<> write(std::uint64_t mark);
    std::string path_;
};

}  // namespace triton::observe
