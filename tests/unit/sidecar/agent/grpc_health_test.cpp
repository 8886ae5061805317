#include "sidecar/agent/grpc_health.h"

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

namespace triton::agent {

namespace {

/// What a server answers to the call.
struct Answer {
    std::string status = "200";
    std::string message = std::string("\0\0\0\0\2\x08\1", 7);  // SERVING
    std::string grpc_status = "0";
    std::string grpc_message = {};
    bool has_trailers = true;
};

/// The server's side of nghttp2, which keeps what it was asked.
class Server {
public:
    explicit Server(Answer answer) : answer_(std::move(answer)) {
        nghttp2_session_callbacks* callbacks = nullptr;
        nghttp2_session_callbacks_new(&callbacks);
        nghttp2_session_callbacks_set_on_header_callback(
            callbacks, [](nghttp2_session*, nghttp2_frame const*, std::uint8_t const* name, std::size_t name_size,
                          std::uint8_t const* value, std::size_t value_size, std::uint8_t, void* user) {
                of(user).request += std::string(reinterpret_cast<char const*>(name), name_size) + "=" +
                                    std::string(reinterpret_cast<char const*>(value), value_size) + "\n";
                return 0;
            });
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
            callbacks,
            [](nghttp2_session*, std::uint8_t, std::int32_t, std::uint8_t const* data, std::size_t size, void* user) {
                of(user).body.append(reinterpret_cast<char const*>(data), size);
                return 0;
            });
        nghttp2_session_callbacks_set_on_frame_recv_callback(
            callbacks, [](nghttp2_session*, nghttp2_frame const* frame, void* user) {
                if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) of(user).answer(frame->hd.stream_id);
                return 0;
            });
        nghttp2_session* session = nullptr;
        nghttp2_session_server_new(&session, callbacks, this);
        nghttp2_session_callbacks_del(callbacks);
        session_.reset(session);
        nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, nullptr, 0);
    }

    std::string exchange(std::string const& input) {
        nghttp2_session_mem_recv(session_.get(), reinterpret_cast<std::uint8_t const*>(input.data()), input.size());
        std::string out;
        for (;;) {
            std::uint8_t const* bytes = nullptr;
            ssize_t const size = nghttp2_session_mem_send(session_.get(), &bytes);
            if (size <= 0) return out;
            out.append(reinterpret_cast<char const*>(bytes), static_cast<std::size_t>(size));
        }
    }

    std::string request;
    std::string body;

private:
    struct Delete {
        void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
    };

    static Server& of(void* user) { return *static_cast<Server*>(user); }

    static nghttp2_nv field(char const* name, std::string const& value) {
        auto const bytes = [](char const* text) {
            return const_cast<std::uint8_t*>(reinterpret_cast<std::uint8_t const*>(text));
        };
        return {bytes(name), bytes(value.c_str()), std::strlen(name), value.size(), NGHTTP2_NV_FLAG_NONE};
    }

    void answer(std::int32_t stream) {
        std::string const type = "application/grpc";
        std::array<nghttp2_nv, 2> const head{field(":status", answer_.status), field("content-type", type)};
        nghttp2_data_provider provider{};
        provider.read_callback = [](nghttp2_session* session, std::int32_t id, std::uint8_t* buffer, std::size_t,
                                    std::uint32_t* flags, nghttp2_data_source*, void* user) -> ssize_t {
            Answer const& all = of(user).answer_;
            std::memcpy(buffer, all.message.data(), all.message.size());
            *flags |= NGHTTP2_DATA_FLAG_EOF;
            if (all.has_trailers) {
                *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
                std::array<nghttp2_nv, 2> const tail{field("grpc-status", all.grpc_status),
                                                     field("grpc-message", all.grpc_message)};
                nghttp2_submit_trailer(session, id, tail.data(), all.grpc_message.empty() ? 1 : 2);
            }
            return static_cast<ssize_t>(all.message.size());
        };
        nghttp2_submit_response(session_.get(), stream, head.data(), head.size(), &provider);
    }

    Answer answer_;
    std::unique_ptr<nghttp2_session, Delete> session_;
};

struct Outcome {
    bool is_over = false;
    std::string problem;  // "": none
};

/// In pieces of this size, which a network may make.
Outcome check(Server& server, std::string_view service = {}, std::size_t piece = 100000) {
    GrpcHealth health("[::1]:80", service, "tester");
    for (int turn = 0; turn < 8 && !health.is_over(); ++turn) {
        std::string const out = server.exchange(health.take_output());
        for (std::size_t at = 0; at < out.size() && !health.is_over(); at += piece)
            health.take_input(std::string_view(out).substr(at, piece));
    }
    return {health.is_over(), health.is_over() ? health.problem().value_or("") : "-"};
}

std::string problem_of(Answer answer) {
    Server server(std::move(answer));
    return check(server).problem;
}

TEST(GrpcHealth, AsksAsTheProtocolSays) {
    Server server({});
    EXPECT_EQ(check(server, "my.Service").problem, "");
    EXPECT_EQ(server.request,
              ":method=POST\n:scheme=http\n:path=/grpc.health.v1.Health/Check\n:authority=[::1]:80\nte=trailers\n"
              "content-type=application/grpc\nuser-agent=tester\ngrpc-accept-encoding=identity\n");
    EXPECT_EQ(server.body, std::string("\0\0\0\0\x0c\x0a\x0amy.Service", 17));
}

TEST(GrpcHealth, AsksForTheServerAsAWhole) {
    Server server({});
    EXPECT_EQ(check(server).problem, "");
    EXPECT_EQ(server.body, std::string(5, '\0'));
}

TEST(GrpcHealth, HasLongNames) {
    Server server({});
    EXPECT_EQ(check(server, std::string(256, 'x')).problem, "");
    EXPECT_EQ(server.body, std::string("\0\0\0\1\3\x0a\x80\x02", 8) + std::string(256, 'x'));
}

TEST(GrpcHealth, TakesItsAnswerByteByByte) {
    Server server({});
    Outcome const outcome = check(server, {}, 1);
    EXPECT_TRUE(outcome.is_over);
    EXPECT_EQ(outcome.problem, "");
}

TEST(GrpcHealth, SaysWhatIsWrong) {
    auto const framed = [](std::string const& message) {
        return std::string(4, '\0') + static_cast<char>(message.size()) + message;
    };
    EXPECT_EQ(problem_of({.message = framed("\x08\x02")}), "the service is NOT_SERVING");
    EXPECT_EQ(problem_of({.message = framed("\x08\x03")}), "the service is SERVICE_UNKNOWN");
    EXPECT_EQ(problem_of({.message = framed("")}), "the service is UNKNOWN");
    for (std::string const& odd :
         {framed("\x08"), framed("\x10\1"), framed("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), framed("\x08\x07"),
          std::string("\1\0\0\0\2\x08\1", 7), std::string(3, '\0'), std::string("\0\0\0\0\3\x08\1", 7),
          framed(std::string(100, '\x08'))})
        EXPECT_EQ(problem_of({.message = odd}), "the answer is not a HealthCheckResponse");
    EXPECT_EQ(problem_of({.message = "", .grpc_status = "12", .grpc_message = "unknown service\x1b"}).substr(0, 13),
              "UNIMPLEMENTED");
    EXPECT_EQ(problem_of({.message = "", .grpc_status = "5"}), "NOT_FOUND");
    EXPECT_EQ(problem_of({.message = "", .grpc_status = "99"}), "status 99");
    EXPECT_EQ(problem_of({.grpc_status = "no"}), "the answer has no grpc-status");
    EXPECT_EQ(problem_of({.has_trailers = false}), "the answer has no grpc-status");
    EXPECT_EQ(problem_of({.status = "404"}), "the answer has the HTTP status 404");
}

TEST(GrpcHealth, IsToldOfWhatIsNotHttp2) {
    for (std::string const& text :
         {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string(500, '\xff'), std::string(500, '\0')}) {
        GrpcHealth health("[::1]:80", "", "tester");
        (void)health.take_output();
        health.take_input(text);
        (void)health.take_output();  // its goodbye
        ASSERT_TRUE(health.is_over()) << text;
        EXPECT_NE(health.problem(), std::nullopt);
        health.take_input(text);  // what comes then does no harm
    }
}

}  // namespace

}  // namespace triton::agent
