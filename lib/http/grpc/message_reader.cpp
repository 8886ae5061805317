#include "lib/http/grpc/message_reader.h"

#include <algorithm>
#include <utility>

namespace triton::http::grpc {

std::string frame_message(std::string message) {
    std::string prefix(prefix_bytes, '\0');
    for (std::size_t byte = 0; byte < 4; ++byte)
        prefix[4 - byte] = static_cast<char>(message.size() >> (8 * byte) & 0xff);
    return std::move(message.insert(0, prefix));
}

std::expected<void, Status> MessageReader::feed(std::string_view bytes) {
    while (!bytes.empty()) {
        if (is_whole_) return std::unexpected(Status{Code::internal, "the call has more than one message"});
        auto const taken = feed_one(bytes);
        if (!taken) return std::unexpected(taken.error());
        bytes.remove_prefix(*taken);
    }
    return {};
}

std::expected<std::size_t, Status> MessageReader::feed_one(std::string_view bytes) {
    std::size_t const all = bytes.size();
    while (!bytes.empty() && !is_whole_) {
        if (prefix_size_ < prefix_.size()) {
            prefix_[prefix_size_++] = bytes.front();
            bytes.remove_prefix(1);
            if (prefix_size_ < prefix_.size()) continue;
            if (auto begun = begin_message(); !begun) return std::unexpected(begun.error());
        } else {
            std::size_t const size = std::min(bytes.size(), wanted_ - message_.size());
            message_.append(bytes.substr(0, size));
            bytes.remove_prefix(size);
            is_whole_ = message_.size() == wanted_;
        }
    }
    return all - bytes.size();
}

std::expected<void, Status> MessageReader::begin_message() {
    if (prefix_[0] != '\0') return std::unexpected(Status{Code::unimplemented, "compressed messages are not accepted"});
    wanted_ = 0;
    for (std::size_t i = 1; i < prefix_.size(); ++i)
        wanted_ = wanted_ << 8 | static_cast<unsigned char>(prefix_[i]);
    if (wanted_ > most_bytes_)
        return std::unexpected(Status{Code::resource_exhausted, "the message has " + std::to_string(wanted_) +
                                                                    " bytes, and at most " +
                                                                    std::to_string(most_bytes_) + " are accepted"});
    is_whole_ = wanted_ == 0;
    return {};
}

std::optional<std::string> MessageReader::take() {
    if (!is_whole_) return std::nullopt;
    is_whole_ = false;
    prefix_size_ = 0;
    return std::exchange(message_, {});
}

}  // namespace triton::http::grpc
