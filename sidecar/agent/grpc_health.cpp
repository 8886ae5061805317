#include "sidecar/agent/grpc_health.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include <nghttp2/nghttp2.h>

#include "lib/text/printable.h"
#include "lib/text/utf8.h"

namespace triton::agent {

namespace {

constexpr std::size_t prefix_bytes = 5;  // a flag for compression and the length of the message
constexpr std::size_t most_message_bytes = 64;
constexpr std::size_t most_text_bytes = 200;
constexpr std::size_t most_field_bytes = 16384;  // of a header or trailer, unpacked; RFC 9113, 6.5.2
constexpr std::size_t bytes_beside_field = 32;   // counted as well

/// Encodes message HealthCheckRequest { string service = 1; }.
std::string request_of(std::string_view service) {
    std::string message;
    if (!service.empty()) {
        message.push_back('\x0a');
        std::size_t length = service.size();
        for (; length >= 0x80; length >>= 7)
            message.push_back(static_cast<char>(0x80 | (length & 0x7f)));
        message.push_back(static_cast<char>(length));
        message.append(service);
    }
    std::string framed(prefix_bytes, '\0');
    for (std::size_t byte = 0; byte < 4; ++byte)
        framed[4 - byte] = static_cast<char>(message.size() >> (8 * byte) & 0xff);
    return framed + message;
}

/// Takes a varint of protocol buffers off the text.
std::optional<std::uint64_t> take_varint(std::string_view& text) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !text.empty(); shift += 7) {
        auto const byte = static_cast<unsigned char>(text.front());
        text.remove_prefix(1);
        value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) return value;
    }
    return std::nullopt;
}

/// Decodes message HealthCheckResponse { ServingStatus status = 1; }; a missing status means UNKNOWN. nullopt: this is
/// not such a message.
std::optional<std::uint64_t> serving_status(std::string_view framed) {
    if (framed.size() < prefix_bytes || framed[0] != '\0') return std::nullopt;
    std::size_t length = 0;
    for (std::size_t byte = 1; byte < prefix_bytes; ++byte)
        length = length << 8 | static_cast<unsigned char>(framed[byte]);
    std::string_view message = framed.substr(prefix_bytes);
    if (message.size() != length) return std::nullopt;
    std::uint64_t status = 0;
    while (!message.empty()) {
        auto const key = take_varint(message);
        if (key != 8U) return std::nullopt;  // field 1, a varint, is the only one
        auto const value = take_varint(message);
        if (!value) return std::nullopt;
        status = *value;
    }
    return status;
}

std::string name_of_code(std::uint64_t code) {
    constexpr std::array<std::string_view, 17> names{
        "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS", "UNAUTHENTICATED"};
    return code < names.size() ? std::string(names[code]) : "status " + std::to_string(code);
}

}  // namespace

class GrpcHealth::Session {
public:
    Session(std::string const& authority, std::string_view service, std::string const& user_agent)
        : request_(request_of(service)) {
        nghttp2_session_callbacks* callbacks = nullptr;
        if (nghttp2_session_callbacks_new(&callbacks) != 0) throw std::bad_alloc();
        nghttp2_session_callbacks_set_on_header_callback(callbacks, &Session::on_header);
        nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, &Session::on_invalid_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &Session::on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &Session::on_close);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &Session::on_frame);
        nghttp2_session* session = nullptr;
        int const made = nghttp2_session_client_new(&session, callbacks, this);
        nghttp2_session_callbacks_del(callbacks);
        if (made != 0) throw std::bad_alloc();
        session_.reset(session);
        submit(authority, user_agent);
    }

    std::string take_output() {
        std::string out;
        for (;;) {
            std::uint8_t const* bytes = nullptr;
            ssize_t const size = nghttp2_session_mem_send(session_.get(), &bytes);
            if (size < 0) fail(size);
            if (size <= 0) break;
            out.append(reinterpret_cast<char const*>(bytes), static_cast<std::size_t>(size));
        }
        // If the server breaks the rules, nghttp2 only says goodbye.
        if (!is_over_ && nghttp2_session_want_read(session_.get()) == 0) fail(NGHTTP2_ERR_PROTO);
        return out;
    }

    void take_input(std::string_view bytes) {
        ssize_t const taken =
            nghttp2_session_mem_recv(session_.get(), reinterpret_cast<std::uint8_t const*>(bytes.data()), bytes.size());
        if (taken < 0) fail(taken);
    }

    [[nodiscard]] bool is_over() const { return is_over_; }

    [[nodiscard]] std::optional<std::string> problem() const {
        if (!broken_.empty()) return broken_;
        if (status_ != "200")
            return "the answer has the HTTP status " + (status_.empty() ? "0" : text::printable(status_));
        std::uint64_t code = 0;
        char const* const end = grpc_status_.data() + grpc_status_.size();
        auto const [stopped, error] = std::from_chars(grpc_status_.data(), end, code);
        if (error != std::errc{} || stopped != end) return "the answer has no grpc-status";
        if (code != 0)
            return name_of_code(code) + (grpc_message_.empty()
                                             ? ""
                                             : ": " + text::shortened(text::printable(grpc_message_), most_text_bytes));
        switch (serving_status(message_).value_or(99)) {
            case 0: return "the service is UNKNOWN";
            case 1: return std::nullopt;
            case 2: return "the service is NOT_SERVING";
            case 3: return "the service is SERVICE_UNKNOWN";
            default: return "the answer is not a HealthCheckResponse";
        }
    }

private:
    struct Delete {
        void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
    };

    void submit(std::string const& authority, std::string const& user_agent) {
        // No server push, a small window, and a limit for the length of fields.
        std::array<nghttp2_settings_entry, 3> const settings{
            {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 16384},
             {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, most_field_bytes}}};
        int submitted = nghttp2_submit_settings(session_.get(), NGHTTP2_FLAG_NONE, settings.data(), settings.size());
        std::array<nghttp2_nv, 8> const fields{field(":method", "POST"),
                                               field(":scheme", "http"),
                                               field(":path", "/grpc.health.v1.Health/Check"),
                                               field(":authority", authority),
                                               field("te", "trailers"),
                                               field("content-type", "application/grpc"),
                                               field("user-agent", user_agent),
                                               field("grpc-accept-encoding", "identity")};
        nghttp2_data_provider body{};
        body.read_callback = &Session::read_body;
        if (submitted == 0)
            submitted = nghttp2_submit_request(session_.get(), nullptr, fields.data(), fields.size(), &body, nullptr);
        if (submitted < 0) fail(submitted);
    }

    /// nghttp2 copies these.
    static nghttp2_nv field(std::string_view name, std::string_view value) {
        auto const bytes = [](std::string_view text) {
            return const_cast<std::uint8_t*>(reinterpret_cast<std::uint8_t const*>(text.data()));
        };
        return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
    }

    void fail(ssize_t why) {
        if (broken_.empty())
            broken_ = std::string("the answer is not HTTP/2: ") + nghttp2_strerror(static_cast<int>(why));
        is_over_ = true;
    }

    static Session& of(void* user) { return *static_cast<Session*>(user); }

    static ssize_t read_body(nghttp2_session* /*session*/, std::int32_t /*stream*/, std::uint8_t* buffer,
                             std::size_t size, std::uint32_t* flags, nghttp2_data_source* /*source*/, void* user) {
        Session& self = of(user);
        std::size_t const count = std::min(size, self.request_.size() - self.sent_);
        std::memcpy(buffer, self.request_.data() + self.sent_, count);
        self.sent_ += count;
        if (self.sent_ == self.request_.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
        return static_cast<ssize_t>(count);
    }

    static int on_header(nghttp2_session* /*session*/, nghttp2_frame const* /*frame*/, std::uint8_t const* name,
                         std::size_t name_size, std::uint8_t const* value, std::size_t value_size,
                         std::uint8_t /*flags*/, void* user) {
        std::string_view const key(reinterpret_cast<char const*>(name), name_size);
        std::string_view const text(reinterpret_cast<char const*>(value), value_size);
        Session& self = of(user);
        if (!self.count(key, text)) return NGHTTP2_ERR_CALLBACK_FAILURE;
        if (key == ":status") self.status_ = text.substr(0, most_text_bytes);
        if (key == "grpc-status") self.grpc_status_ = text.substr(0, most_text_bytes);
        if (key == "grpc-message") self.grpc_message_ = text.substr(0, most_text_bytes);
        return 0;
    }

    static int on_invalid_header(nghttp2_session* /*session*/, nghttp2_frame const* /*frame*/, std::uint8_t const* name,
                                 std::size_t name_size, std::uint8_t const* value, std::size_t value_size,
                                 std::uint8_t /*flags*/, void* user) {
        std::string_view const key(reinterpret_cast<char const*>(name), name_size);
        std::string_view const text(reinterpret_cast<char const*>(value), value_size);
        return of(user).count(key, text) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
    }

    /// Counts a field. One byte of an answer may stand for 4 kB that nghttp2 looks through: 64 KiB would cost a tenth
    /// of a second.
    bool count(std::string_view name, std::string_view value) {
        field_bytes_ += name.size() + value.size() + bytes_beside_field;
        if (field_bytes_ <= 2 * most_field_bytes) return true;
        if (broken_.empty()) broken_ = "the fields of the answer are too long";
        return false;
    }

    static int on_data(nghttp2_session* /*session*/, std::uint8_t /*flags*/, std::int32_t /*stream*/,
                       std::uint8_t const* data, std::size_t size, void* user) {
        Session& self = of(user);
        std::size_t const room = most_message_bytes - self.message_.size();
        self.message_.append(reinterpret_cast<char const*>(data), std::min(size, room));
        return 0;
    }

    static int on_close(nghttp2_session* /*session*/, std::int32_t /*stream*/, std::uint32_t code, void* user) {
        Session& self = of(user);
        if (code != NGHTTP2_NO_ERROR && self.grpc_status_.empty() && self.broken_.empty())
            self.broken_ = std::string("the server has ended the call: ") + nghttp2_http2_strerror(code);
        self.is_over_ = true;
        return 0;
    }

    static int on_frame(nghttp2_session* /*session*/, nghttp2_frame const* frame, void* user) {
        Session& self = of(user);
        if (frame->hd.type != NGHTTP2_GOAWAY || frame->goaway.error_code == NGHTTP2_NO_ERROR) return 0;
        if (self.broken_.empty())
            self.broken_ =
                std::string("the server refuses the connection: ") + nghttp2_http2_strerror(frame->goaway.error_code);
        self.is_over_ = true;
        return 0;
    }

    std::string request_;
    std::size_t sent_ = 0;
    std::size_t field_bytes_ = 0;  // of header and trailers
    std::string status_;
    std::string grpc_status_;
    std::string grpc_message_;
    std::string message_;
    std::string broken_;
    bool is_over_ = false;
    std::unique_ptr<nghttp2_session, Delete> session_;
};

GrpcHealth::GrpcHealth(std::string const& authority, std::string_view service, std::string const& user_agent)
    : session_(std::make_unique<Session>(authority, service, user_agent)) {}

GrpcHealth::~GrpcHealth() = default;

std::string GrpcHealth::take_output() { return session_->take_output(); }
void GrpcHealth::take_input(std::string_view bytes) { session_->take_input(bytes); }
bool GrpcHealth::is_over() const { return session_->is_over(); }
std::optional<std::string> GrpcHealth::problem() const { return session_->problem(); }

}  // namespace triton::agent
