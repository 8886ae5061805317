#pragma once

#include <array>
#include <cstddef>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "lib/http/grpc/status.h"

namespace triton::http::grpc {

inline constexpr std::size_t prefix_bytes = 5;                 ///< before each message
inline constexpr std::size_t most_message_bytes = 16U << 20U;  ///< what kubelet and others accept as an answer, too

/// A message with its prefix: a flag (0: it is not compressed) and four bytes of length, the highest first.
std::string frame_message(std::string message);

/// Reads one message out of the bytes of a call, however they are cut. The server's side and the client's use it.
class MessageReader {
public:
    explicit MessageReader(std::size_t most_bytes = most_message_bytes) : most_bytes_(most_bytes) {}

    /// Errors: UNIMPLEMENTED for a compressed message, RESOURCE_EXHAUSTED for one that is too long, INTERNAL for a
    /// second one before the first was taken. Nothing must be fed after an error.
    std::expected<void, Status> feed(std::string_view bytes);
    /// The same for an answer of several messages: stops at the end of the first one, and returns how many bytes belong
    /// to it. The caller takes it before it feeds the rest.
    std::expected<std::size_t, Status> feed_one(std::string_view bytes);

    /// The message, once it is whole.
    std::optional<std::string> take();

    /// Whether a message has begun, and is neither whole nor taken.
    [[nodiscard]] bool is_within_message() const { return prefix_size_ > 0 && !is_whole_; }
    /// How much memory it uses.
    [[nodiscard]] std::size_t buffered() const { return message_.size(); }

private:
    std::expected<void, Status> begin_message();

    std::size_t most_bytes_;
    std::array<char, prefix_bytes> prefix_{};
    std::size_t prefix_size_ = 0;
    std::size_t wanted_ = 0;  // bytes of the message
    std::string message_;     // grows as bytes arrive: the length is only the peer's word
    bool is_whole_ = false;
};

}  // namespace triton::http::grpc
