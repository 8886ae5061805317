#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "lib/base/result.h"
#include "lib/log/log_output.h"

namespace triton::log {

/// A log file that others may write, rename and remove as well: another container of the pod, or logrotate(8).
class SharedFile {
public:
    /// `max_size`: at this it becomes PATH.1, and PATH.1 becomes PATH.2; 0: it grows for ever.
    SharedFile(std::string path, std::uint64_t max_size)
        : path_(std::move(path)), max_size_(max_size), size_limit_(max_size) {}

    /// Opens the file; while that fails, lines wait. Errors: those of open(2).
    Result<> open();
    /// Reopens it under its name if it was renamed or removed, or unconditionally. Returns whether it did.
    Result<bool> reopen(bool in_any_case);
    /// Looks, before lines are written, whether it must be opened again, or is full. Errors: it cannot be rotated,
    /// told once until it has grown by its size.
    Result<> tend();

    [[nodiscard]] LogOutput& output() { return output_; }
    [[nodiscard]] LogOutput const& output() const { return output_; }

private:
    Result<> rotate();

    std::string path_;
    std::uint64_t max_size_;
    std::uint64_t size_limit_;  // grows beyond max_size_ when the file cannot be renamed
    LogOutput output_;
};

}  // namespace triton::log
