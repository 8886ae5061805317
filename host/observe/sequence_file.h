#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace triton::observe {

/// The file that keeps sequence numbers from being used twice: it has a number that none has reached. A life of the
/// daemon takes numbers from there on and moves the mark before it comes to it.
class SequenceFile {
public:
    static constexpr std::uint64_t reserve = 1'000'000;

    explicit SequenceFile(std::string path) : path_(std::move(path)) {}

    /// Moves the mark by `reserve`, durably. Returns the number after which this life's events begin. Of a file
    /// that is garbage: then it is `fallback`.
    /// Errors: those of writing the file.
    Result<std::uint64_t> begin(std::uint64_t fallback);
    /// Moves the mark so that numbers after `next` are kept, too. Errors: the same.
    Result<> keep_ahead(std::uint64_t next);

private:
    Result<> write(std::uint64_t mark);
    std::string path_;
};

}  // namespace triton::observe
