#include "lib/http/grpc/call.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/http/grpc/message_reader.h"
#include "lib/http/grpc/server_session.h"

namespace triton::http::grpc {

Call::Call(ServerSession& session, std::int32_t stream, std::string path, CallCount count)
    : session_(&session), stream_(stream), path_(std::move(path)), count_(std::move(count)) {
    ++*count_;
}

Call::~Call() { --*count_; }

void Call::send(std::string message) {
    if (is_over()) return;
    if (message.size() > most_message_bytes)
        return finish({Code::resource_exhausted, "the answer has " + std::to_string(message.size()) +
                                                     " bytes, and clients accept " +
                                                     std::to_string(most_message_bytes)});
    if (!session_->has_room_for(message.size() + prefix_bytes))
        return finish({Code::resource_exhausted, "this client does not read its answers"});
    queue_.push_back(frame_message(std::move(message)));
    unsent_ += queue_.back().size();
    session_->answer_has_grown(*this);
}

void Call::finish(Status status) {
    if (is_over()) return;
    status_ = std::move(status);
    abandoned_ = nullptr;
    session_->answer_has_grown(*this);
}

std::size_t Call::take(char* to, std::size_t size) {
    std::size_t copied = 0;
    while (copied < size && !queue_.empty()) {
        std::string const& first = queue_.front();
        std::size_t const part = std::min(size - copied, first.size() - taken_);
        std::memcpy(to + copied, first.data() + taken_, part);
        copied += part;
        taken_ += part;
        if (taken_ < first.size()) break;
        queue_.pop_front();
        taken_ = 0;
    }
    unsent_ -= copied;
    return copied;
}

void Call::detach() {
    session_ = nullptr;
    queue_.clear();
    unsent_ = 0;
    drained_ = nullptr;
    auto const abandoned = std::exchange(abandoned_, nullptr);
    if (abandoned && !status_) abandoned();
}

}  // namespace triton::http::grpc
