// The server's side of gRPC against nghttp2's client, without a socket and with a clock of the test's own.

#include "lib/http/grpc/server_session.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include "lib/http/grpc/message_reader.h"

namespace {

using namespace triton;
using namespace triton::http::grpc;
using testing::HasSubstr;

/// The client's view of one answer.
struct Answer {
    std::map<std::string, std::string> fields;
    std::string data;
    std::optional<std::uint32_t> closed;  ///< with that error of HTTP/2

    [[nodiscard]] std::string code() const { return fields.contains("grpc-status") ? fields.at("grpc-status") : ""; }
    [[nodiscard]] std::string message() const {
        return decode_message(fields.contains("grpc-message") ? fields.at("grpc-message") : "");
    }
};

class Client {
public:
    Client() {
        nghttp2_session_callbacks* callbacks = nullptr;
        nghttp2_session_callbacks_new(&callbacks);
        nghttp2_session_callbacks_set_on_header_callback(
            callbacks, [](nghttp2_session*, nghttp2_frame const* frame, std::uint8_t const* name, std::size_t name_size,
                          std::uint8_t const* value, std::size_t value_size, std::uint8_t, void* user) {
                static_cast<Client*>(user)
                    ->answers[frame->hd.stream_id]
                    .fields[{reinterpret_cast<char const*>(name), name_size}] = {reinterpret_cast<char const*>(value),
                                                                                 value_size};
                return 0;
            });
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
            callbacks, [](nghttp2_session*, std::uint8_t, std::int32_t id, std::uint8_t const* bytes, std::size_t size,
                          void* user) {
                static_cast<Client*>(user)->answers[id].data.append(reinterpret_cast<char const*>(bytes), size);
                return 0;
            });
        nghttp2_session_callbacks_set_on_stream_close_callback(
            callbacks, [](nghttp2_session*, std::int32_t id, std::uint32_t error, void* user) {
                static_cast<Client*>(user)->answers[id].closed = error;
                return 0;
            });
        nghttp2_session_callbacks_set_on_frame_recv_callback(
            callbacks, [](nghttp2_session*, nghttp2_frame const* frame, void* user) {
                if (frame->hd.type == NGHTTP2_GOAWAY) static_cast<Client*>(user)->goaway = frame->goaway.error_code;
                return 0;
            });
        nghttp2_option* options = nullptr;
        nghttp2_option_new(&options);
        nghttp2_option_set_no_auto_window_update(options, 1);
        nghttp2_session_client_new2(&session, callbacks, this, options);
        nghttp2_option_del(options);
        nghttp2_session_callbacks_del(callbacks);
        nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, nullptr, 0);
    }
    ~Client() { nghttp2_session_del(session); }
    Client(Client const&) = delete;
    Client& operator=(Client const&) = delete;

    using Fields = std::vector<std::pair<std::string, std::string>>;
    static Fields head(std::string const& path, Fields more = {}) {
        Fields fields{{":method", "POST"},
                      {":scheme", "http"},
                      {":path", path},
                      {":authority", "localhost"},
                      {"content-type", "application/grpc"},
                      {"te", "trailers"}};
        fields.insert(fields.end(), more.begin(), more.end());
        return fields;
    }
    /// Begins a call. `body`: all of it; nullopt: the request does not end.
    std::int32_t call(Fields const& fields, std::optional<std::string> body) {
        std::vector<nghttp2_nv> values;
        for (auto const& [name, value] : fields) {
            auto const bytes = [](std::string const& text) {
                return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
            };
            values.push_back({bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
        }
        bodies.push_back(std::make_unique<Body>(Body{body.value_or(""), 0, body.has_value()}));
        nghttp2_data_provider provider{};
        provider.source.ptr = bodies.back().get();
        provider.read_callback = [](nghttp2_session*, std::int32_t, std::uint8_t* to, std::size_t size,
                                    std::uint32_t* flags, nghttp2_data_source* source, void*) -> ssize_t {
            auto& own = *static_cast<Body*>(source->ptr);
            std::size_t const count = std::min(size, own.text.size() - own.sent);
            std::memcpy(to, own.text.data() + own.sent, count);
            own.sent += count;
            if (own.sent == own.text.size() && own.ends) *flags |= NGHTTP2_DATA_FLAG_EOF;
            return count == 0 && !own.ends ? static_cast<ssize_t>(NGHTTP2_ERR_DEFERRED) : static_cast<ssize_t>(count);
        };
        return nghttp2_submit_request(session, nullptr, values.data(), values.size(), &provider, nullptr);
    }
    std::int32_t call(std::string const& path, std::string message) {
        return call(head(path), frame_message(std::move(message)));
    }

    std::string output() {
        std::string all;
        std::uint8_t const* bytes = nullptr;
        for (ssize_t size = 0; (size = nghttp2_session_mem_send(session, &bytes)) > 0;)
            all.append(reinterpret_cast<char const*>(bytes), static_cast<std::size_t>(size));
        return all;
    }
    void input(std::string const& bytes) {
        ASSERT_EQ(nghttp2_session_mem_recv(session, reinterpret_cast<std::uint8_t const*>(bytes.data()), bytes.size()),
                  static_cast<ssize_t>(bytes.size()));
    }
    /// Takes what it has been sent of a stream, so that the server may send more.
    void consume(std::int32_t id) {
        std::size_t const received = answers[id].data.size();
        nghttp2_session_consume(session, id, received - consumed[id]);
        consumed[id] = received;
    }

    struct Body {
        std::string text;
        std::size_t sent;
        bool ends;
    };
    std::map<std::int32_t, Answer> answers;
    std::map<std::int32_t, std::size_t> consumed;
    std::optional<std::uint32_t> goaway;
    std::vector<std::unique_ptr<Body>> bodies;
    nghttp2_session* session = nullptr;
};

class GrpcServerSession : public testing::Test {
protected:
    std::unique_ptr<ServerSession> make() {
        return std::make_unique<ServerSession>(
            limits, ServerSession::Surroundings{.serve = [this](std::shared_ptr<Call> call) { serve(std::move(call)); },
                                                .has_output = [] {},
                                                .now = [this] { return now; },
                                                .memory = memory});
    }
    void begin() { session = make(); }
    void serve(std::shared_ptr<Call> call) {
        if (call->path() == "/echo") return call->answer(call->message());
        if (call->path() == "/throw") throw std::runtime_error("something is wrong");
        kept.push_back(std::move(call));
    }
    /// Lets both sides talk until nobody has anything to say. Returns whether the connection goes on.
    bool talk() {
        bool goes_on = true;
        for (int round = 0; round < 1000; ++round) {
            std::string const there = client.output();
            if (!there.empty()) goes_on = session->receive(there) && goes_on;
            std::string const back = session->take_output(1 << 20);
            if (!back.empty()) client.input(back);
            if (there.empty() && back.empty()) break;
        }
        return goes_on;
    }
    Answer const& answer(std::int32_t id) { return client.answers[id]; }

    TimePoint now{std::chrono::hours(1)};
    SessionLimits limits;
    RequestMemory memory;
    Client client;
    std::vector<std::shared_ptr<Call>> kept;
    std::unique_ptr<ServerSession> session;
};

TEST_F(GrpcServerSession, AnswersACall) {
    begin();
    auto const id = client.call("/echo", "hello");
    EXPECT_TRUE(talk());
    EXPECT_EQ(answer(id).fields.at(":status"), "200");
    EXPECT_EQ(answer(id).fields.at("content-type"), "application/grpc");
    EXPECT_EQ(answer(id).data, frame_message("hello"));
    EXPECT_EQ(answer(id).code(), "0");
    EXPECT_FALSE(answer(id).fields.contains("grpc-message"));
    EXPECT_EQ(answer(id).closed, NGHTTP2_NO_ERROR);
    EXPECT_EQ(session->open_calls(), 0U);
    EXPECT_EQ(session->next_deadline(), TimePoint::max());
}

TEST_F(GrpcServerSession, AnErrorIsOneHeader) {
    begin();
    auto const id = client.call("/keep", "");
    talk();
    ASSERT_EQ(kept.size(), 1U);
    kept[0]->finish({Code::not_found, "there is no \u00e9"});
    kept[0]->finish({Code::internal, "too late"});
    talk();
    EXPECT_EQ(answer(id).code(), "5");
    EXPECT_EQ(answer(id).message(), "there is no \u00e9");
    EXPECT_EQ(answer(id).data, "");
}

TEST_F(GrpcServerSession, AnExceptionIsInternal) {
    begin();
    auto const id = client.call("/throw", "");
    EXPECT_TRUE(talk());
    EXPECT_EQ(answer(id).code(), "13");
    EXPECT_EQ(answer(id).message(), "something is wrong");
}

TEST_F(GrpcServerSession, StreamsMessagesAsTheClientTakesThem) {
    begin();
    auto const id = client.call("/keep", "");
    talk();
    auto const call = kept.at(0);
    int sent = 1;
    call->when_drained([&] {
        if (sent == 4) return call->finish();
        ++sent;
        call->send(std::string(40'000, 'x'));
    });
    call->send(std::string(40'000, 'x'));
    talk();
    EXPECT_LT(sent, 4) << "the client's window has 65,535 bytes";
    for (int i = 0; i < 10 && !answer(id).closed; ++i) {
        client.consume(id);
        talk();
    }
    EXPECT_EQ(answer(id).data.size(), 4 * 40'005U);
    EXPECT_EQ(answer(id).code(), "0");
    EXPECT_TRUE(call->is_over());
}

TEST_F(GrpcServerSession, WhatIsNotGrpcGetsAnAnswerOfHttp) {
    begin();
    auto fields = Client::head("/echo");
    fields[4].second = "application/grpcx";
    auto const id = client.call(fields, frame_message("x"));
    fields[0].second = "GET";
    auto const other = client.call(fields, "");
    talk();
    EXPECT_EQ(answer(id).fields.at(":status"), "415");
    EXPECT_EQ(answer(other).fields.at(":status"), "405");
    fields = Client::head("/echo");
    fields[4].second = "application/grpc+proto";
    auto const good = client.call(fields, frame_message("x"));
    talk();
    EXPECT_EQ(answer(good).code(), "0");
}

TEST_F(GrpcServerSession, BadRequestsAreAnswered) {
    begin();
    struct Case {
        Client::Fields more;
        std::string body;
        std::string code;
        std::string message;
    };
    std::vector<Case> const cases{
        {{}, "", "13", "the call has no message"},
        {{}, std::string("\0\0\0\0\5hel", 8), "13", "the message is cut short"},
        {{}, frame_message("a") + frame_message("b"), "13", "the call has more than one message"},
        {{}, std::string("\0\1\0\0\1", 5), "8", "the message has 16777217 bytes, and at most 16777216 are accepted"},
        {{{"grpc-encoding", "gzip"}}, frame_message("a"), "12", "compressed messages are not accepted"},
        {{{"grpc-encoding", "identity"}}, frame_message("a"), "0", ""},
        {{{"grpc-timeout", "1s"}}, frame_message("a"), "13", "grpc-timeout is malformed"},
        {{{"grpc-timeout", "99999999H"}}, frame_message("a"), "0", ""},
    };
    for (Case const& one : cases) {
        auto const id = client.call(Client::head("/echo", one.more), one.body);
        EXPECT_TRUE(talk());
        EXPECT_EQ(answer(id).code(), one.code) << one.message;
        EXPECT_EQ(answer(id).message(), one.message);
    }
    EXPECT_EQ(memory.used, 0U);
    EXPECT_EQ(session->open_calls(), 0U);
}

TEST_F(GrpcServerSession, ADeadlineEndsACall) {
    begin();
    auto const id = client.call(Client::head("/keep", {{"grpc-timeout", "2S"}}), frame_message(""));
    talk();
    auto const call = kept.at(0);
    bool is_abandoned = false;
    call->when_abandoned([&] { is_abandoned = true; });
    EXPECT_EQ(call->deadline(), now + std::chrono::seconds(2));
    EXPECT_EQ(session->next_deadline(), now + std::chrono::seconds(2));
    now += std::chrono::milliseconds(1999);
    session->pass_time();
    EXPECT_FALSE(is_abandoned);
    now += std::chrono::milliseconds(1);
    session->pass_time();
    EXPECT_TRUE(is_abandoned);
    call->answer("too late");
    talk();
    EXPECT_EQ(answer(id).code(), "4");
    EXPECT_EQ(answer(id).data, "");
}

TEST_F(GrpcServerSession, ACancelledCallTellsItsHandler) {
    begin();
    auto const id = client.call("/keep", "");
    talk();
    auto const call = kept.at(0);
    int abandoned = 0;
    call->when_abandoned([&] { ++abandoned; });
    nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    talk();
    EXPECT_EQ(abandoned, 1);
    EXPECT_TRUE(call->is_over());
    call->answer("for nobody");
    talk();
    EXPECT_EQ(answer(id).data, "");
}

TEST_F(GrpcServerSession, TheEndOfAConnectionEndsItsCalls) {
    begin();
    client.call("/keep", "");
    client.call(Client::head("/keep"), std::nullopt);
    talk();
    auto const call = kept.at(0);
    int abandoned = 0;
    call->when_abandoned([&] { ++abandoned; });
    session.reset();
    EXPECT_EQ(abandoned, 1);
    call->answer("for nobody");
    EXPECT_EQ(memory.used, 0U);
}

TEST_F(GrpcServerSession, ARequestMustArriveInTime) {
    begin();
    auto const id = client.call(Client::head("/echo"), std::nullopt);
    talk();
    EXPECT_EQ(session->next_deadline(), now + limits.request);
    now += limits.request;
    session->pass_time();
    talk();
    EXPECT_EQ(answer(id).code(), "4");
    EXPECT_EQ(session->open_calls(), 0U) << "the rest of the request is not waited for";
}

TEST_F(GrpcServerSession, AClientThatTakesNoAnswerLosesIt) {
    begin();
    auto const id = client.call("/echo", std::string(200'000, 'x'));
    talk();
    EXPECT_EQ(answer(id).data.size(), 65'535U);
    now += limits.stall - Duration(1);
    session->pass_time();
    talk();
    EXPECT_FALSE(answer(id).closed);
    now += Duration(1);
    session->pass_time();
    talk();
    EXPECT_EQ(answer(id).closed, NGHTTP2_CANCEL);
    EXPECT_EQ(session->open_calls(), 0U);
}

TEST_F(GrpcServerSession, AnAnswerAfterALongTimeIsNotStalled) {
    begin();
    auto const id = client.call("/keep", "");
    talk();
    now += 2 * limits.stall;
    session->pass_time();
    kept.at(0)->send("first");
    talk();
    now += 2 * limits.stall;
    session->pass_time();
    kept.at(0)->answer("second");
    session->pass_time();
    talk();
    EXPECT_EQ(answer(id).code(), "0");
    EXPECT_EQ(answer(id).data, frame_message("first") + frame_message("second"));
}

TEST_F(GrpcServerSession, UnreadAnswersHaveALimit) {
    limits.answer_bytes = 300'000;
    begin();
    auto const first = client.call("/echo", std::string(250'000, 'x'));
    talk();
    auto const second = client.call("/echo", std::string(250'000, 'x'));
    talk();
    EXPECT_EQ(answer(second).code(), "8");
    EXPECT_EQ(answer(second).message(), "this client does not read its answers");
    EXPECT_EQ(answer(first).code(), "");
}

TEST_F(GrpcServerSession, RequestsThatArriveShareALimitOfMemory) {
    memory.most = 100'000;
    begin();
    auto const first = client.call(Client::head("/echo"), frame_message(std::string(90'000, 'x')).substr(0, 80'000));
    client.bodies.back()->ends = false;
    talk();
    EXPECT_EQ(memory.used, 80'000 - prefix_bytes);
    auto const second = client.call("/echo", std::string(50'000, 'x'));
    talk();
    EXPECT_EQ(answer(second).code(), "8");
    EXPECT_FALSE(answer(first).closed);
    session.reset();
    EXPECT_EQ(memory.used, 0U);
}

TEST_F(GrpcServerSession, AnAnswerThatClientsRefuseIsNotSent) {
    begin();
    auto const id = client.call("/keep", "");
    talk();
    kept.at(0)->answer(std::string(most_message_bytes + 1, 'x'));
    talk();
    EXPECT_EQ(answer(id).code(), "8");
    EXPECT_EQ(answer(id).message(), "the answer has 16777217 bytes, and clients accept 16777216");
}

TEST_F(GrpcServerSession, CallsAboveTheLimitWait) {
    limits.calls = 2;
    begin();
    talk();  // the settings are known
    for (int i = 0; i < 5; ++i)
        client.call("/keep", "");
    talk();
    EXPECT_EQ(kept.size(), 2U) << "nghttp2's client keeps to what it was told";
    for (std::size_t i = 0; i < kept.size(); ++i) {
        kept[i]->finish();
        talk();
    }
    EXPECT_EQ(kept.size(), 5U);
}

TEST_F(GrpcServerSession, ARapidResetIsSentAway) {
    limits.resets = {.at_once = 20, .per_second = 1};
    begin();
    bool goes_on = true;
    int calls = 0;
    for (; goes_on && calls < 1000; ++calls) {
        auto const id = client.call("/keep", "");
        std::string const request = client.output();
        nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
        goes_on = session->receive(request + client.output());
    }
    EXPECT_LT(calls, 30);
    EXPECT_EQ(session->complaint(), "too many calls that were reset");
    EXPECT_LT(kept.size(), 30U);
}

TEST_F(GrpcServerSession, HandlersOfCancelledCallsCount) {
    limits.running = 3;
    begin();
    for (int i = 0; i < 3; ++i) {
        auto const id = client.call("/keep", "");
        talk();
        nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
        talk();
    }
    auto const refused = client.call("/echo", "");
    talk();
    EXPECT_EQ(answer(refused).code(), "8");
    kept.clear();
    auto const good = client.call("/echo", "");
    talk();
    EXPECT_EQ(answer(good).code(), "0");
}

TEST_F(GrpcServerSession, AFloodOfPingsIsSentAway) {
    limits.frames = {.at_once = 100, .per_second = 1};
    begin();
    talk();
    bool goes_on = true;
    int pings = 0;
    for (; goes_on && pings < 1000; ++pings) {
        nghttp2_submit_ping(client.session, NGHTTP2_FLAG_NONE, nullptr);
        goes_on = talk();
    }
    EXPECT_LT(pings, 150);
    EXPECT_EQ(client.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
    EXPECT_EQ(session->complaint(), "too many frames without content");
}

TEST_F(GrpcServerSession, AHeaderThatIsTooLongResetsItsStream) {
    begin();
    talk();
    auto const id = client.call(
        Client::head("/echo", {{"x-a", std::string(9000, 'a')}, {"x-b", std::string(9000, 'b')}}), frame_message(""));
    auto const good = client.call("/echo", "x");
    EXPECT_TRUE(talk());
    EXPECT_EQ(answer(id).closed, NGHTTP2_INTERNAL_ERROR);
    EXPECT_EQ(answer(good).code(), "0");
}

TEST_F(GrpcServerSession, OtherBytesEndTheConnection) {
    begin();
    EXPECT_FALSE(session->receive("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    EXPECT_TRUE(session->is_over());
    EXPECT_THAT(session->complaint(), HasSubstr("client magic"));
}

TEST_F(GrpcServerSession, AShutdownLetsOpenCallsEnd) {
    begin();
    auto const id = client.call("/keep", "");
    talk();
    session->begin_shutdown();
    talk();
    EXPECT_EQ(client.goaway, NGHTTP2_NO_ERROR);
    EXPECT_FALSE(session->is_over());
    kept.at(0)->answer("done");
    talk();
    EXPECT_EQ(answer(id).data, frame_message("done"));
    EXPECT_TRUE(session->is_over());
}

}  // namespace
