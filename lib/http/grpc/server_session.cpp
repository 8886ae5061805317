#include "lib/http/grpc/server_session.h"

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include <nghttp2/nghttp2.h>

#include "lib/http/grpc/http2.h"
#include "lib/http/grpc/message_reader.h"
#include "lib/http/grpc/timeout.h"

namespace triton::http::grpc {

namespace {

constexpr std::int32_t window_bytes = 1 << 20;       // a client sends so much without waiting for us
constexpr std::size_t bytes_beside_field = 32;       // counted as well; RFC 9113, 6.5.2
constexpr std::size_t most_acknowledgements = 1000;  // of PING and SETTINGS, which a client leaves unread
constexpr std::size_t most_settings = 32;            // in one frame
constexpr std::size_t most_path_bytes = 256;
}  // namespace

/// One stream of HTTP/2. Its fields are those of the request's header.
struct ServerSession::Stream {
    std::int32_t id = 0;
    std::string method = {};
    std::string path = {};
    std::string type = {};
    std::string encoding = {};
    std::string timeout = {};
    std::size_t field_bytes = 0;
    TimePoint began = {};
    TimePoint progress = {};  ///< when the client last took something, or had nothing to take
    MessageReader reader = MessageReader();
    std::size_t counted = 0;  ///< bytes of the reader that the server's RequestMemory counts
    std::shared_ptr<Call> call = nullptr;
    std::optional<TimePoint> deadline = {};
    bool has_ended_request = false;
    bool has_begun_answer = false;
    bool has_sent_end = false;
};

/// The functions that nghttp2 calls. Exceptions must not pass through its frames.
class ServerSession::Callbacks {
public:
    static ServerSession& of(void* user) { return *static_cast<ServerSession*>(user); }

    static int begin_frame(nghttp2_session* /*session*/, nghttp2_frame_hd const* frame, void* user) {
        return guarded([&] { of(user).count_frame(frame->type, frame->length); });
    }
    static int begin_headers(nghttp2_session* /*session*/, nghttp2_frame const* frame, void* user) {
        if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
        return guarded([&] { of(user).begin_stream(frame->hd.stream_id); });
    }
    static int header(nghttp2_session* /*session*/, nghttp2_frame const* frame, std::uint8_t const* name,
                      std::size_t name_size, std::uint8_t const* value, std::size_t value_size, std::uint8_t /*flags*/,
                      void* user) {
        Stream* const stream = of(user).find(frame->hd.stream_id);
        if (!stream) return 0;
        int const result =
            guarded([&] { of(user).take_field(*stream, view(name, name_size), view(value, value_size)); });
        if (result != 0) return result;
        bool const is_too_long = stream->field_bytes > of(user).limits_.field_bytes;
        return is_too_long ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;  // resets the stream
    }
    static int frame(nghttp2_session* /*session*/, nghttp2_frame const* frame, void* user) {
        Stream* const stream = of(user).find(frame->hd.stream_id);
        bool const is_request = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
        if (!stream || !is_request) return 0;
        return guarded([&] {
            bool const is_head = frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
            if (is_head) of(user).end_head(*stream);
            if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) of(user).end_request(*stream);
        });
    }
    static int data(nghttp2_session* /*session*/, std::uint8_t /*flags*/, std::int32_t id, std::uint8_t const* bytes,
                    std::size_t size, void* user) {
        Stream* const stream = of(user).find(id);
        return stream ? guarded([&] { of(user).take_data(*stream, view(bytes, size)); }) : 0;
    }
    static int invalid_frame(nghttp2_session* /*session*/, nghttp2_frame const* /*frame*/, int /*error*/, void* user) {
        return guarded([&] { of(user).count_reset(); });
    }
    static int sent(nghttp2_session* session, nghttp2_frame const* frame, void* user) {
        Stream* const stream = of(user).find(frame->hd.stream_id);
        if (!stream || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
        stream->has_sent_end = true;
        if (stream->has_ended_request) return 0;
        // The rest of the request is for nobody.
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
    }
    static int close(nghttp2_session* /*session*/, std::int32_t id, std::uint32_t error, void* user) {
        return guarded([&] { of(user).close_stream(id, error); });
    }
    static ssize_t read(nghttp2_session* /*session*/, std::int32_t id, std::uint8_t* to, std::size_t size,
                        std::uint32_t* flags, nghttp2_data_source* /*source*/, void* user) {
        Stream* const stream = of(user).find(id);
        if (!stream) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        ssize_t copied = 0;
        int const result = guarded([&] {
            copied = static_cast<ssize_t>(of(user).fill(*stream, reinterpret_cast<char*>(to), size));
            Call const& call = *stream->call;
            bool const is_all = call.unsent() == 0;
            if (is_all && call.status_) {
                *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
                of(user).submit_end(*stream, false);
            } else if (copied == 0) {
                copied = NGHTTP2_ERR_DEFERRED;
            }
        });
        return result != 0 ? result : copied;
    }
};

ServerSession::ServerSession(SessionLimits const& limits, Surroundings around)
    : limits_(limits),
      around_(std::move(around)),
      session_(nullptr, [](void* session) { nghttp2_session_del(static_cast<nghttp2_session*>(session)); }),
      frames_(limits.frames, around_.now()),
      resets_(limits.resets, around_.now()) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_option* options = nullptr;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) throw std::bad_alloc();
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, &Callbacks::begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, &Callbacks::begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, &Callbacks::header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &Callbacks::frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &Callbacks::data);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, &Callbacks::invalid_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, &Callbacks::sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &Callbacks::close);
    int made = nghttp2_option_new(&options);
    nghttp2_session* session = nullptr;
    if (made == 0) {
        nghttp2_option_set_max_outbound_ack(options, most_acknowledgements);
        nghttp2_option_set_max_settings(options, most_settings);
        made = nghttp2_session_server_new2(&session, callbacks, this, options);
        nghttp2_option_del(options);
    }
    nghttp2_session_callbacks_del(callbacks);
    if (made != 0) throw std::bad_alloc();
    session_.reset(session);
    std::array<nghttp2_settings_entry, 3> const settings{
        {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits_.calls},
         {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, static_cast<std::uint32_t>(window_bytes)},
         {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(limits_.field_bytes)}}};
    check(nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size()));
    check(nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, window_bytes));
}

ServerSession::~ServerSession() {
    // Handlers keep their calls; what they are told here must find no stream.
    auto const streams = std::exchange(streams_, {});
    for (auto const& [id, stream] : streams) {
        around_.memory.used -= stream->counted;
        if (stream->call) stream->call->detach();
    }
}

bool ServerSession::receive(std::string_view bytes) {
    if (is_broken_) return false;
    is_receiving_ = true;
    ssize_t const taken =
        nghttp2_session_mem_recv(raw(session_), reinterpret_cast<std::uint8_t const*>(bytes.data()), bytes.size());
    is_receiving_ = false;
    if (taken < 0) {
        is_broken_ = true;
        if (complaint_.empty()) complaint_ = nghttp2_strerror(static_cast<int>(taken));
        return false;
    }
    dispatch();
    return !is_broken_ && complaint_.empty() && nghttp2_session_want_read(raw(session_)) != 0;
}

/// Gives complete requests to their handlers, outside of nghttp2's frames.
void ServerSession::dispatch() {
    auto const ready = std::exchange(ready_, {});
    for (std::shared_ptr<Call> const& call : ready) {
        if (call->is_over()) continue;  // the client has cancelled it already
        try {
            around_.serve(call);
        } catch (std::exception const& error) {
            call->finish({Code::internal, error.what()});
        }
    }
}

std::string ServerSession::take_output(std::size_t most) {
    std::string output;
    while (output.size() < most) {
        std::uint8_t const* bytes = nullptr;
        ssize_t const size = nghttp2_session_mem_send(raw(session_), &bytes);
        if (size < 0) is_broken_ = true;
        if (size <= 0) break;
        output.append(view(bytes, static_cast<std::size_t>(size)));
    }
    return output;
}

bool ServerSession::is_over() const {
    return is_broken_ ||
           (nghttp2_session_want_read(raw(session_)) == 0 && nghttp2_session_want_write(raw(session_)) == 0);
}

void ServerSession::begin_shutdown() {
    if (is_broken_) return;
    check(nghttp2_submit_goaway(raw(session_), NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(raw(session_)), NGHTTP2_NO_ERROR, nullptr, 0));
    around_.has_output();
}

// --- What a client does too often

void ServerSession::count_frame(std::uint8_t type, std::size_t length) {
    bool const has_content = type == NGHTTP2_HEADERS || (type == NGHTTP2_DATA && length > 0);
    if (!has_content && !frames_.take(around_.now())) send_away("too many frames without content");
}

void ServerSession::count_reset() {
    if (!resets_.take(around_.now())) send_away("too many calls that were reset");
}

void ServerSession::send_away(std::string complaint) {
    if (!complaint_.empty()) return;
    complaint_ = std::move(complaint);
    check(nghttp2_session_terminate_session(raw(session_), NGHTTP2_ENHANCE_YOUR_CALM));
}

// --- Requests

ServerSession::Stream* ServerSession::find(std::int32_t id) {
    auto const found = streams_.find(id);
    return found == streams_.end() ? nullptr : found->second.get();
}

void ServerSession::begin_stream(std::int32_t id) {
    auto stream = std::make_unique<Stream>();
    stream->id = id;
    stream->began = stream->progress = around_.now();
    streams_.insert_or_assign(id, std::move(stream));
}

void ServerSession::take_field(Stream& stream, std::string_view name, std::string_view value) {
    stream.field_bytes += name.size() + value.size() + bytes_beside_field;
    if (name == ":method") stream.method = value;
    if (name == ":path") stream.path = value.substr(0, most_path_bytes);
    if (name == "content-type") stream.type = value;
    if (name == "grpc-encoding") stream.encoding = value;
    if (name == "grpc-timeout") stream.timeout = value;
}

void ServerSession::end_head(Stream& stream) {
    if (stream.method != "POST") return refuse(stream, 405);
    std::string_view const rest = std::string_view(stream.type).substr(std::min(stream.type.size(), grpc_type.size()));
    bool const is_grpc = stream.type.starts_with(grpc_type) && (rest.empty() || rest[0] == '+' || rest[0] == ';');
    if (!is_grpc) return refuse(stream, 415);
    stream.call = std::make_shared<Call>(*this, stream.id, stream.path, running_);
    if (*running_ > limits_.running)
        return finish(stream, {Code::resource_exhausted, "too many calls of this client are being worked on"});
    if (!stream.encoding.empty() && stream.encoding != "identity")
        return finish(stream, {Code::unimplemented, "compressed messages are not accepted"});
    if (stream.timeout.empty()) return;
    auto const timeout = parse_timeout(stream.timeout);
    if (!timeout) return finish(stream, {Code::internal, "grpc-timeout is malformed"});
    stream.deadline = stream.call->deadline_ = stream.began + *timeout;
}

void ServerSession::take_data(Stream& stream, std::string_view bytes) {
    if (!stream.call || stream.call->is_over()) return;  // of a request that is refused already
    auto const fed = stream.reader.feed(bytes);
    around_.memory.used += stream.reader.buffered() - stream.counted;
    stream.counted = stream.reader.buffered();
    if (!fed) return finish(stream, fed.error());
    if (around_.memory.used > around_.memory.most)
        finish(stream, {Code::resource_exhausted, "the requests that are arriving take too much memory"});
}

void ServerSession::end_request(Stream& stream) {
    stream.has_ended_request = true;
    if (!stream.call || stream.call->is_over()) return;
    auto message = stream.reader.take();
    around_.memory.used -= std::exchange(stream.counted, 0);
    if (!message) {
        bool const is_cut = stream.reader.is_within_message();
        return finish(stream, {Code::internal, is_cut ? "the message is cut short" : "the call has no message"});
    }
    stream.call->message_ = *std::move(message);
    ready_.push_back(stream.call);
}

void ServerSession::close_stream(std::int32_t id, std::uint32_t error) {
    auto const found = streams_.find(id);
    if (found == streams_.end()) return;
    std::unique_ptr<Stream> const stream = std::move(found->second);
    streams_.erase(found);
    around_.memory.used -= stream->counted;
    if (error != NGHTTP2_NO_ERROR || !stream->has_sent_end) count_reset();
    if (stream->call) stream->call->detach();
}

// --- Answers

/// An answer of HTTP, for what is not gRPC.
void ServerSession::refuse(Stream& stream, unsigned http_status) {
    std::string const status = std::to_string(http_status);
    std::array<nghttp2_nv, 1> const fields{field(":status", status)};
    stream.has_begun_answer = true;
    check(nghttp2_submit_response(raw(session_), stream.id, fields.data(), fields.size(), nullptr));
}

void ServerSession::finish(Stream& stream, Status status) {
    around_.memory.used -= std::exchange(stream.counted, 0);
    stream.reader = MessageReader();
    stream.call->finish(std::move(status));
}

bool ServerSession::has_room_for(std::size_t bytes) const {
    std::size_t unsent = bytes;
    for (auto const& [id, stream] : streams_)
        if (stream->call) unsent += stream->call->unsent();
    return unsent <= limits_.answer_bytes;
}

void ServerSession::answer_has_grown(Call& call) {
    Stream* const stream = find(call.stream_);
    if (!stream) return;
    if (call.queue_.size() <= 1) stream->progress = around_.now();  // so far the client had nothing to take
    if (stream->has_begun_answer) {
        (void)nghttp2_session_resume_data(raw(session_), stream->id);  // it was not waiting, perhaps
    } else {
        begin_answer(*stream);
    }
    if (!is_receiving_) around_.has_output();
}

/// An answer that is an error at once has one header, which is also its end.
void ServerSession::begin_answer(Stream& stream) {
    stream.has_begun_answer = true;
    if (stream.call->status_ && stream.call->unsent() == 0) return submit_end(stream, true);
    std::array<nghttp2_nv, 2> const fields{field(":status", "200"), field("content-type", grpc_type)};
    nghttp2_data_provider body{};
    body.read_callback = &Callbacks::read;
    check(nghttp2_submit_response(raw(session_), stream.id, fields.data(), fields.size(), &body));
}

/// The trailers; or the whole header, when nothing was sent before it.
void ServerSession::submit_end(Stream& stream, bool is_head) {
    Status const& status = *stream.call->status_;
    std::string const code = std::to_string(static_cast<unsigned>(status.code));
    std::string const message = encode_message(status.message);
    std::array<nghttp2_nv, 4> const fields{field(":status", "200"), field("content-type", grpc_type),
                                           field("grpc-status", code), field("grpc-message", message)};
    std::size_t const size = message.empty() ? 3 : 4;
    if (is_head) {
        check(nghttp2_submit_response(raw(session_), stream.id, fields.data(), size, nullptr));
    } else {
        check(nghttp2_submit_trailer(raw(session_), stream.id, fields.data() + 2, size - 2));
    }
}

std::size_t ServerSession::fill(Stream& stream, char* to, std::size_t size) {
    std::size_t const copied = stream.call->take(to, size);
    stream.progress = around_.now();
    bool const is_drained = copied > 0 && stream.call->unsent() == 0 && !stream.call->status_;
    if (is_drained && stream.call->drained_) {
        // The next messages go out with the ones before them.
        auto const drained = stream.call->drained_;
        drained();
    }
    return copied;
}

// --- Time

void ServerSession::pass_time() {
    std::vector<std::int32_t> ids;
    for (auto const& [id, stream] : streams_)
        ids.push_back(id);
    for (std::int32_t const id : ids)
        if (Stream* const stream = find(id)) pass_time_of(*stream);
}

void ServerSession::pass_time_of(Stream& stream) {
    TimePoint const now = around_.now();
    bool const waits_for_client = stream.call && stream.has_begun_answer && !stream.has_sent_end;
    if (waits_for_client && (stream.call->unsent() > 0 || stream.call->status_)) {
        if (now - stream.progress < limits_.stall) return;
        check(nghttp2_submit_rst_stream(raw(session_), NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_CANCEL));
        return around_.has_output();
    }
    bool const has_no_head = !stream.call && !stream.has_begun_answer;
    if (has_no_head && now - stream.began >= limits_.request) {
        send_away("a header that did not arrive in time");
        return around_.has_output();
    }
    if (!stream.call || stream.call->is_over()) return;
    if (stream.deadline && now >= *stream.deadline) {
        auto const call = stream.call;
        auto const abandoned = std::exchange(call->abandoned_, nullptr);
        finish(stream, {Code::deadline_exceeded, "the deadline of the call has passed"});
        if (abandoned) abandoned();
    } else if (!stream.has_ended_request && now - stream.began >= limits_.request) {
        finish(stream, {Code::deadline_exceeded, "the request did not arrive in time"});
    }
}

TimePoint ServerSession::next_deadline() const {
    TimePoint next = TimePoint::max();
    for (auto const& [id, stream] : streams_) {
        bool const is_open = stream->call ? !stream->call->is_over() : !stream->has_begun_answer;
        if (is_open && !stream->has_ended_request) next = std::min(next, stream->began + limits_.request);
        if (is_open && stream->deadline) next = std::min(next, *stream->deadline);
        if (stream->has_begun_answer && !stream->has_sent_end) next = std::min(next, stream->progress + limits_.stall);
    }
    return next;
}

}  // namespace triton::http::grpc
