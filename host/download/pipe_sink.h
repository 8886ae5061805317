#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/unique_fd.h"

namespace triton::download {

/// Writes into a pipe without waiting for its reader.
class PipeSink {
public:
    /// The descriptor becomes non-blocking.
    explicit PipeSink(UniqueFd pipe);

    /// Returns whether it has taken the bytes: it takes them while less than a limit is waiting.
    bool take(std::string_view bytes);
    /// Writes as much as the pipe takes.
    void flush();

    [[nodiscard]] bool is_empty() const { return waiting_.empty(); }
    [[nodiscard]] bool has_room() const;
    /// Whether the reader is gone.
    [[nodiscard]] bool is_broken() const { return is_broken_; }
    [[nodiscard]] std::uint64_t written() const { return written_; }
    /// Borrowed.
    [[nodiscard]] int fd() const { return pipe_.get(); }

private:
    UniqueFd pipe_;
    std::string waiting_;
    std::uint64_t written_ = 0;
    bool is_broken_ = false;
};

}  // namespace triton::download
