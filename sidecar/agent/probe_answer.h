#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "lib/base/result.h"

namespace triton::agent {

/// Reads the head of an HTTP answer as it comes, for its status alone. As lenient as Go's client, by which the kubelet
/// probes: the reason may be missing with the blank before it, and a line may end in LF.
/// Source: RFC 9112, 4 and 2.2.
class ProbeAnswer {
public:
    /// Takes the whole lines at the beginning of `text`, up to the end of the head. Returns the size of what it took.
    /// Errors: "the answer is not HTTP: ...".
    Result<std::size_t> take(std::string_view text);

    /// Once the head is complete. Interim ones (1xx), which come before the answer, are passed over.
    [[nodiscard]] std::optional<unsigned> status() const {
        return is_complete_ ? std::optional(status_) : std::nullopt;
    }

private:
    Result<> take_line(std::string_view line);

    unsigned status_ = 0;  // 0: the status line has not come
    bool is_complete_ = false;
};

}  // namespace triton::agent
