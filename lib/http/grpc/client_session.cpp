#include "lib/http/grpc/client_session.h"

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "lib/http/grpc/http2.h"
#include "lib/http/grpc/message_reader.h"
#include "lib/http/grpc/timeout.h"

namespace triton::http::grpc {

namespace {

constexpr std::int32_t answer_window_bytes = 1 << 20;  // the server sends so much without waiting for us
constexpr std::size_t most_field_bytes = 16 * 1024;    // of one answer

/// What a server that is not one of gRPC means. Source:
/// https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md
Status status_of_http(std::string const& http_status) {
    return {Code::unavailable, http_status.empty() ? "the server has ended the call without an answer"
                                                   : "the server answers with the status " + http_status + " of HTTP"};
}

}  // namespace

/// One call.
struct ClientSession::Stream {
    std::string request = {};
    std::size_t sent = 0;
    Answer answer = {};
    MessageReader reader = MessageReader();
    std::size_t field_bytes = 0;
    std::string http_status = {};
    std::optional<Code> code = {};
    std::string text = {};
    std::optional<Status> failure = {};  ///< why we have given it up
};

/// The functions that nghttp2 calls. Exceptions must not pass through its frames.
class ClientSession::Callbacks {
public:
    static ClientSession& of(void* user) { return *static_cast<ClientSession*>(user); }

    static int header(nghttp2_session* /*session*/, nghttp2_frame const* frame, std::uint8_t const* name,
                      std::size_t name_size, std::uint8_t const* value, std::size_t value_size, std::uint8_t /*flags*/,
                      void* user) {
        Stream* const stream = of(user).find(frame->hd.stream_id);
        if (!stream) return 0;
        int const result =
            guarded([&] { of(user).take_field(*stream, view(name, name_size), view(value, value_size)); });
        return result == 0 && stream->failure ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : result;
    }
    static int data(nghttp2_session* session, std::uint8_t /*flags*/, std::int32_t id, std::uint8_t const* bytes,
                    std::size_t size, void* user) {
        Stream* const stream = of(user).find(id);
        if (!stream || stream->failure) return 0;
        int const result = guarded([&] { of(user).take_data(*stream, view(bytes, size)); });
        if (result == 0 && stream->failure)
            return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
        return result;
    }
    static int close(nghttp2_session* /*session*/, std::int32_t id, std::uint32_t error, void* user) {
        return guarded([&] { of(user).close_stream(id, error); });
    }
    static ssize_t read(nghttp2_session* /*session*/, std::int32_t id, std::uint8_t* to, std::size_t size,
                        std::uint32_t* flags, nghttp2_data_source* /*source*/, void* user) {
        Stream* const stream = of(user).find(id);
        if (!stream) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        std::size_t const copied = stream->request.copy(reinterpret_cast<char*>(to), size, stream->sent);
        stream->sent += copied;
        if (stream->sent == stream->request.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
        return static_cast<ssize_t>(copied);
    }
};

ClientSession::ClientSession()
    : session_(nullptr, [](void* session) { nghttp2_session_del(static_cast<nghttp2_session*>(session)); }) {
    nghttp2_session_callbacks* callbacks = nullptr;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) throw std::bad_alloc();
    nghttp2_session_callbacks_set_on_header_callback(callbacks, &Callbacks::header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &Callbacks::data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &Callbacks::close);
    nghttp2_session* session = nullptr;
    int const made = nghttp2_session_client_new(&session, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    if (made != 0) throw std::bad_alloc();
    session_.reset(session);
    std::array<nghttp2_settings_entry, 3> const settings{
        {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
         {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, static_cast<std::uint32_t>(answer_window_bytes)},
         {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(most_field_bytes)}}};
    check(nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size()));
    check(nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, answer_window_bytes));
}

ClientSession::~ClientSession() = default;

void ClientSession::call(std::string const& path, std::string message, std::optional<Duration> timeout, Answer answer) {
    auto stream = std::make_unique<Stream>();
    stream->request = frame_message(std::move(message));
    stream->answer = std::move(answer);
    std::string const timeout_value = timeout ? timeout_text(*timeout) : "";
    std::array<nghttp2_nv, 7> const fields{field(":method", "POST"),
                                           field(":scheme", "http"),
                                           field(":path", path),
                                           field(":authority", "localhost"),
                                           field("content-type", grpc_type),
                                           field("te", "trailers"),
                                           field("grpc-timeout", timeout_value)};
    nghttp2_data_provider body{};
    body.read_callback = &Callbacks::read;
    std::int32_t const id = nghttp2_submit_request(raw(session_), nullptr, fields.data(),
                                                   timeout ? fields.size() : fields.size() - 1, &body, nullptr);
    check(id);
    if (id < 0) return stream->answer.finished({Code::unavailable, nghttp2_strerror(id)});
    streams_.insert_or_assign(id, std::move(stream));
}

bool ClientSession::receive(std::string_view bytes) {
    ssize_t const taken =
        nghttp2_session_mem_recv(raw(session_), reinterpret_cast<std::uint8_t const*>(bytes.data()), bytes.size());
    for (auto const& tell : std::exchange(due_, {}))
        tell();
    return taken >= 0 && nghttp2_session_want_read(raw(session_)) != 0;
}

std::string ClientSession::take_output() {
    std::string output;
    std::uint8_t const* bytes = nullptr;
    for (ssize_t size = 0; (size = nghttp2_session_mem_send(raw(session_), &bytes)) > 0;)
        output.append(view(bytes, static_cast<std::size_t>(size)));
    return output;
}

void ClientSession::lose(Status const& status) {
    for (auto const& [id, stream] : std::exchange(streams_, {}))
        stream->answer.finished(status);
}

ClientSession::Stream* ClientSession::find(std::int32_t id) {
    auto const found = streams_.find(id);
    return found == streams_.end() ? nullptr : found->second.get();
}

void ClientSession::take_field(Stream& stream, std::string_view name, std::string_view value) {
    stream.field_bytes += name.size() + value.size();
    if (stream.field_bytes > most_field_bytes) {
        stream.failure = Status{Code::resource_exhausted, "the header of the answer is too long"};
        return;
    }
    if (name == ":status") stream.http_status = value;
    if (name == "grpc-status") stream.code = parse_code(value).value_or(Code::unknown);
    if (name == "grpc-message") stream.text = decode_message(value);
}

void ClientSession::take_data(Stream& stream, std::string_view bytes) {
    if (stream.http_status != "200") return;  // a page for people
    while (!bytes.empty()) {
        auto const taken = stream.reader.feed_one(bytes);
        if (!taken) {
            stream.failure = taken.error();
            return;
        }
        bytes.remove_prefix(*taken);
        if (auto message = stream.reader.take())
            due_.push_back([tell = stream.answer.message, text = *std::move(message)] { tell(text); });
    }
}

void ClientSession::close_stream(std::int32_t id, std::uint32_t error) {
    auto const found = streams_.find(id);
    if (found == streams_.end()) return;
    std::shared_ptr<Stream> const stream = std::move(found->second);
    streams_.erase(found);
    Status status =
        stream->failure ? *stream->failure
        : stream->code  ? Status{*stream->code, stream->text}
        : error != 0
            ? Status{Code::unavailable, "the server has reset the call: " + std::string(nghttp2_http2_strerror(error))}
            : status_of_http(stream->http_status);
    if (status.code == Code::ok && stream->reader.is_within_message())
        status = {Code::internal, "the answer is cut short"};
    due_.push_back([stream, status] { stream->answer.finished(status); });
}

}  // namespace triton::http::grpc
