#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "lib/http/spdy/frame.h"
#include "lib/http/spdy/header_block.h"

namespace triton::http::spdy {

using StreamId = std::uint32_t;

/// What happens on the streams of a session. The calls come from inside of ServerSession::receive(), and may use it.
class StreamEvents {
public:
    virtual ~StreamEvents() = default;
    /// The client opens a stream, which is answered at once: a client throws away what comes before the reply.
    /// Returns false to refuse it.
    virtual bool opened(StreamId stream, Headers const& headers) = 0;
    virtual void received(StreamId stream, std::string_view bytes) = 0;
    /// The client sends nothing more there.
    virtual void finished(StreamId stream) = 0;
    /// It is gone: the client has reset it, or has sent something after its end.
    virtual void was_reset(StreamId stream) = 0;
};

/// The server's end of SPDY/3.1 without a socket: bytes in, bytes out. As its clients here it knows no flow control,
/// so its owner stops to call receive() when there is too much for a stream.
///
/// An error of one stream resets that stream. An error of the connection (another version, a header block that cannot
/// be read, a frame that is too long) ends it with GOAWAY.
class ServerSession {
public:
    static constexpr std::size_t most_streams = 256;              ///< that are open
    static constexpr std::size_t most_control_bytes = 16 * 1024;  ///< of a control frame
    static constexpr std::size_t most_data_bytes = 32 * 1024;     ///< of a data frame that we send

    explicit ServerSession(StreamEvents& events) : events_(events) {}

    /// Returns false when the connection is to end, after what is in output().
    bool receive(std::string_view bytes);

    /// Nothing happens when the stream does not exist, or was finished here.
    void send(StreamId stream, std::string_view bytes);
    void finish(StreamId stream);
    void reset(StreamId stream, ResetCode code);
    /// The last frame.
    void go_away(GoawayCode code);

    /// What is to be sent; its owner takes from the front.
    std::string& output() { return output_; }
    [[nodiscard]] std::size_t open_streams() const { return streams_.size(); }

private:
    struct Stream {
        bool is_finished_here = false;
        bool is_finished_there = false;
    };
    bool handle_control(FrameHead const& head, std::string_view payload);
    bool open_stream(FrameHead const& head, std::string_view payload);
    void receive_data(std::string_view bytes);
    void end_data();
    void forget_if_finished(StreamId stream);
    bool fail_connection();

    StreamEvents& events_;
    HeaderReader reader_;
    HeaderWriter writer_;
    std::map<StreamId, Stream> streams_;
    StreamId last_ = 0;
    std::string input_;  // a head, or a control frame, that is not complete
    FrameHead data_;     // the data frame that is arriving
    std::size_t data_left_ = 0;
    bool is_over_ = false;
    std::string output_;
};

}  // namespace triton::http::spdy
