// The client's side of gRPC against our server's, without a socket.

#include "lib/http/grpc/client_session.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include "lib/http/grpc/message_reader.h"
#include "lib/http/grpc/server_session.h"

namespace {

using namespace triton;
using namespace triton::http::grpc;

class GrpcClientSession : public testing::Test {
protected:
    ServerSession& server() {
        if (!server_)
            server_ = std::make_unique<ServerSession>(
                SessionLimits{}, ServerSession::Surroundings{.serve = [this](auto call) { calls.push_back(call); },
                                                             .has_output = [] {},
                                                             .now = [] { return TimePoint(); },
                                                             .memory = memory});
        return *server_;
    }
    /// Carries bytes in both directions, one at a time, until nothing more is said.
    void exchange() {
        for (bool has_some = true; has_some;) {
            std::string const to = client.take_output();
            for (char const& byte : to)
                server().receive({&byte, 1});
            std::string const from = server().take_output(SIZE_MAX);
            for (char const& byte : from)
                client.receive({&byte, 1});
            has_some = !to.empty() || !from.empty();
        }
    }
    void begin(std::string message, std::optional<Duration> timeout = {}) {
        client.call("/a.B/C", std::move(message), timeout,
                    {.message = [this](std::string text) { messages.push_back(std::move(text)); },
                     .finished = [this](Status const& status) { ends.push_back(status); }});
    }

    RequestMemory memory;
    std::vector<std::shared_ptr<Call>> calls;
    ClientSession client;
    std::vector<std::string> messages;
    std::vector<Status> ends;

private:
    std::unique_ptr<ServerSession> server_;
};

TEST_F(GrpcClientSession, CallIsAnswered) {
    std::string const request(100'000, 'q');
    std::string const answer(3'000'000, 'a');  // more than the windows
    begin(request, std::chrono::seconds(7));
    exchange();
    ASSERT_EQ(calls.size(), 1U);
    EXPECT_EQ(calls[0]->path(), "/a.B/C");
    EXPECT_EQ(calls[0]->message(), request);
    EXPECT_EQ(calls[0]->deadline(), TimePoint() + std::chrono::seconds(7));
    EXPECT_TRUE(ends.empty());
    calls[0]->answer(answer);
    exchange();
    EXPECT_EQ(messages, std::vector{answer});
    EXPECT_EQ(ends, std::vector{Status{}});
    EXPECT_EQ(client.open_calls(), 0U);
}

TEST_F(GrpcClientSession, AnswerOfManyMessagesComesAsTheyAre) {
    begin("");
    exchange();
    calls[0]->send("one");
    calls[0]->send("");
    calls[0]->send("three");
    std::string const from = server().take_output(SIZE_MAX);
    client.receive(from);  // all at once
    EXPECT_EQ(messages, (std::vector<std::string>{"one", "", "three"}));
    EXPECT_TRUE(ends.empty());
    calls[0]->finish({Code::aborted, "no more: 100 %\n"});
    exchange();
    EXPECT_EQ(ends, (std::vector{Status{Code::aborted, "no more: 100 %\n"}}));
}

TEST_F(GrpcClientSession, SeveralCallsAreOpen) {
    begin("1");
    begin("2");
    exchange();
    ASSERT_EQ(calls.size(), 2U);
    calls[1]->answer("two");
    calls[0]->finish({Code::not_found, "one does not exist"});
    exchange();
    EXPECT_EQ(messages, std::vector<std::string>{"two"});
    EXPECT_EQ(ends.size(), 2U);
}

TEST_F(GrpcClientSession, LostConnectionEndsItsCallsOnce) {
    begin("");
    exchange();
    calls[0]->send("half of it");
    exchange();
    client.lose({Code::unavailable, "gone"});
    client.lose({Code::unavailable, "gone again"});
    EXPECT_EQ(messages, std::vector<std::string>{"half of it"});
    EXPECT_EQ(ends, (std::vector{Status{Code::unavailable, "gone"}}));
}

TEST_F(GrpcClientSession, TextThatIsNoHttpEndsTheConnection) {
    begin("");
    client.receive("HTTP/1.1 400 Bad Request\r\n\r\n");
    client.take_output();  // the reason
    EXPECT_FALSE(client.receive("\r\n"));
}

// --- Servers that are not ours

/// nghttp2's server, which does what a test says.
class OddServer {
public:
    using Answer = std::function<void(nghttp2_session* session, std::int32_t id)>;
    explicit OddServer(Answer answer) : answer_(std::move(answer)) {
        nghttp2_session_callbacks* callbacks = nullptr;
        nghttp2_session_callbacks_new(&callbacks);
        nghttp2_session_callbacks_set_on_frame_recv_callback(
            callbacks, [](nghttp2_session* session, nghttp2_frame const* frame, void* user) {
                if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
                    static_cast<OddServer*>(user)->answer_(session, frame->hd.stream_id);
                return 0;
            });
        nghttp2_session_server_new(&session_, callbacks, this);
        nghttp2_session_callbacks_del(callbacks);
        nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
    }
    ~OddServer() { nghttp2_session_del(session_); }
    OddServer(OddServer const&) = delete;
    OddServer& operator=(OddServer const&) = delete;

    void serve(ClientSession& client) {
        for (bool has_some = true; has_some;) {
            std::string const to = client.take_output();
            nghttp2_session_mem_recv(session_, reinterpret_cast<std::uint8_t const*>(to.data()), to.size());
            std::uint8_t const* bytes = nullptr;
            std::string from;
            for (ssize_t size = 0; (size = nghttp2_session_mem_send(session_, &bytes)) > 0;)
                from.append(reinterpret_cast<char const*>(bytes), static_cast<std::size_t>(size));
            client.receive(from);
            has_some = !to.empty() || !from.empty();
        }
    }

private:
    Answer answer_;
    nghttp2_session* session_ = nullptr;
};

void submit(nghttp2_session* session, std::int32_t id, std::vector<std::pair<std::string, std::string>> const& fields,
            std::string const* data = nullptr) {
    std::vector<nghttp2_nv> values;
    auto const bytes = [](std::string const& text) {
        return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
    };
    for (auto const& [name, value] : fields)
        values.push_back({bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
    nghttp2_data_provider body{};
    body.source.ptr = const_cast<std::string*>(data);
    body.read_callback = [](nghttp2_session*, std::int32_t, std::uint8_t* to, std::size_t size, std::uint32_t* flags,
                            nghttp2_data_source* source, void*) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        return static_cast<ssize_t>(
            static_cast<std::string const*>(source->ptr)->copy(reinterpret_cast<char*>(to), size));
    };
    nghttp2_submit_response(session, id, values.data(), values.size(), data ? &body : nullptr);
}

class GrpcClientOfOddServers : public GrpcClientSession {
protected:
    Status status_of(OddServer::Answer answer) {
        begin("");
        OddServer server(std::move(answer));
        server.serve(client);
        return ends.empty() ? Status{} : ends.front();
    }
};

TEST_F(GrpcClientOfOddServers, PageOfHttpIsNoAnswer) {
    std::string const page = "<html>";
    EXPECT_EQ(status_of([&](auto* session, auto id) { submit(session, id, {{":status", "404"}}, &page); }),
              (Status{Code::unavailable, "the server answers with the status 404 of HTTP"}));
    EXPECT_TRUE(messages.empty());
}

TEST_F(GrpcClientOfOddServers, ResetCallHasFailed) {
    EXPECT_EQ(status_of([](auto* session, auto id) {
                  nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
              }),
              (Status{Code::unavailable, "the server has reset the call: REFUSED_STREAM"}));
}

TEST_F(GrpcClientOfOddServers, HugeMessageIsNotAccepted) {
    std::string const data("\0\xff\xff\xff\xff", 5);
    EXPECT_EQ(status_of([&](auto* session, auto id) { submit(session, id, {{":status", "200"}}, &data); }).code,
              Code::resource_exhausted);
}

TEST_F(GrpcClientOfOddServers, EndlessHeaderIsNotAccepted) {
    std::vector<std::pair<std::string, std::string>> fields{{":status", "200"}};
    for (int i = 0; i < 40; ++i)
        fields.emplace_back("x-" + std::to_string(i), std::string(1000, 'x'));
    EXPECT_NE(status_of([&](auto* session, auto id) { submit(session, id, fields); }).code, Code::ok);
    EXPECT_EQ(ends.size(), 1U);
}

TEST_F(GrpcClientOfOddServers, UnknownCodeIsAFailure) {
    EXPECT_EQ(status_of([](auto* session, auto id) {
                  submit(session, id, {{":status", "200"}, {"grpc-status", "99"}, {"grpc-message", "odd"}});
              }),
              (Status{Code::unknown, "odd"}));
}

TEST_F(GrpcClientOfOddServers, MessageThatIsCutShortIsAFailure) {
    std::string const data("\0\0\0\0\x09half", 9);
    EXPECT_NE(status_of([&](auto* session, auto id) { submit(session, id, {{":status", "200"}}, &data); }).code,
              Code::ok);
    EXPECT_TRUE(messages.empty());
}

}  // namespace
