#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "lib/http/grpc/status.h"

namespace triton::http::grpc {

class ServerSession;

/// How many calls are being worked on. A call whose client has gone counts until its handler lets go of it.
using CallCount = std::shared_ptr<std::size_t>;

/// One call of a client: its request, which is whole, and the way to answer it. It belongs to the thread of its
/// session. The handler keeps it as long as it works on it; after the call is over, answers go nowhere.
class Call {
public:
    Call(ServerSession& session, std::int32_t stream, std::string path, CallCount count);
    ~Call();
    Call(Call const&) = delete;
    Call& operator=(Call const&) = delete;

    /// "/runtime.v1.ImageService/PullImage"
    [[nodiscard]] std::string const& path() const { return path_; }
    /// The message that was sent.
    [[nodiscard]] std::string const& message() const { return message_; }
    /// When the client stops waiting, if it said so.
    [[nodiscard]] std::optional<TimePoint> deadline() const { return deadline_; }

    /// Queues a message of the answer. One that is longer than a client accepts ends the call with RESOURCE_EXHAUSTED.
    void send(std::string message);
    /// Ends the answer. Only the first one counts.
    void finish(Status status = {});
    /// The whole answer of a call that has one message.
    void answer(std::string message) {
        send(std::move(message));
        finish();
    }

    /// Whether the answer is complete, or the client does not wait for it any longer: it has cancelled the call, its
    /// deadline has passed, or its connection has ended.
    [[nodiscard]] bool is_over() const { return session_ == nullptr || status_.has_value(); }
    /// Calls once, when the client stops waiting before the answer is complete.
    void when_abandoned(std::function<void()> call) { abandoned_ = std::move(call); }

    /// Bytes of the answer that the client has not taken yet.
    [[nodiscard]] std::size_t unsent() const { return unsent_; }
    /// Calls each time when the client has taken all that was sent: a stream sends its next messages then.
    void when_drained(std::function<void()> call) { drained_ = std::move(call); }

private:
    friend class ServerSession;

    /// Copies what is next of the answer.
    std::size_t take(char* to, std::size_t size);
    /// The session does not know the call any longer.
    void detach();

    ServerSession* session_;  // nullptr: the stream has been closed
    std::int32_t stream_;
    std::string path_;
    CallCount count_;
    std::string message_;
    std::optional<TimePoint> deadline_;
    std::deque<std::string> queue_;  // framed messages; of the first one `taken_` bytes are gone
    std::size_t taken_ = 0;
    std::size_t unsent_ = 0;
    std::optional<Status> status_;
    std::function<void()> abandoned_;
    std::function<void()> drained_;
};

}  // namespace triton::http::grpc
