#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/process/seccomp.h"

namespace triton::launcher {

/// Writes what another process of the same program reads by BlockReader: a sequence of blocks, each with its length
/// before it. A list is its count and its blocks.
class BlockWriter {
public:
    void add(std::uint64_t number);
    void add(std::string_view block);
    void add(std::vector<std::string> const& blocks);
    void add(process::SeccompFilter::Code const& code);
    std::string take() { return std::move(text_); }

private:
    std::string text_;
};

/// Reads blocks. A missing block is read as empty, and makes the whole unreadable.
class BlockReader {
public:
    explicit BlockReader(std::string_view text) : rest_(text) {}

    std::uint64_t number();
    std::string_view block() { return take(number()); }
    /// No list can have more blocks than bytes are left for their lengths.
    std::size_t count();
    std::vector<std::string> blocks();
    /// A filter that the kernel would take by its length.
    process::SeccompFilter::Code code();
    /// Whether everything has been read, and was there.
    [[nodiscard]] bool is_whole() const { return is_good_ && rest_.empty(); }

private:
    std::string_view take(std::uint64_t size);

    std::string_view rest_;
    bool is_good_ = true;
};

}  // namespace triton::launcher
