// grpc_tool SOCKET: a gRPC server that does what its client asks for. Messages are bytes, not protocol buffers.
//   /test.Tool/Echo      answers with the message
//   /test.Tool/Stream    "COUNT SIZE": a stream of so many messages
//   /test.Tool/Keep      answers when it is asked to by Release, with the number of those that were abandoned
//   /test.Tool/Release   answers all that are kept
//   /test.Tool/Fail      "CODE TEXT": ends with them
// It prints "ready" and then each call that its client gave up: "abandoned".

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "lib/daemon/unix_listener.h"
#include "lib/http/grpc/server.h"
#include "lib/log/log.h"
#include "lib/net/loop.h"

namespace {

using namespace triton;
using namespace triton::http::grpc;

void say(char const* text) {
    std::puts(text);
    (void)std::fflush(stdout);
}

/// Sends the next message when the one before it has been taken.
struct Streamer {
    std::shared_ptr<Call> call;
    long left = 0;
    std::size_t size = 0;

    void send() {
        if (left-- <= 0) return call->finish();
        call->send(std::string(size, 'x'));
    }
};

class Tool {
public:
    void serve(std::shared_ptr<Call> const& call) {
        if (call->path() == "/test.Tool/Echo") return call->answer(call->message());
        if (call->path() == "/test.Tool/Stream") return stream(call);
        if (call->path() == "/test.Tool/Keep") return keep(call);
        if (call->path() == "/test.Tool/Release") return release(call);
        if (call->path() == "/test.Tool/Fail") return end_with(call);
        call->finish({Code::unimplemented, "no such method"});
    }

private:
    static void stream(std::shared_ptr<Call> const& call) {
        char* rest = nullptr;
        long const count = std::strtol(call->message().c_str(), &rest, 10);
        std::size_t const size = std::strtoul(rest, nullptr, 10);
        auto const streamer = std::make_shared<Streamer>(Streamer{call, count, size});
        call->when_abandoned([] { say("abandoned"); });
        call->when_drained([streamer] { streamer->send(); });
        streamer->send();
    }
    void keep(std::shared_ptr<Call> const& call) {
        call->when_abandoned([this] {
            ++abandoned_;
            say("abandoned");
        });
        kept_.push_back(call);
    }
    void release(std::shared_ptr<Call> const& call) {
        for (auto const& one : kept_)
            one->answer(std::to_string(abandoned_));
        kept_.clear();
        call->answer("");
    }
    static void end_with(std::shared_ptr<Call> const& call) {
        char* rest = nullptr;
        auto const code = static_cast<Code>(std::strtol(call->message().c_str(), &rest, 10));
        call->finish({code, *rest == ' ' ? rest + 1 : rest});
    }

    std::vector<std::shared_ptr<Call>> kept_;
    std::size_t abandoned_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    (void)std::signal(SIGPIPE, SIG_IGN);
    auto socket = daemon::listen_on_unix_socket(argv[1]);
    if (!socket) return std::fprintf(stderr, "%s\n", socket.error().text().c_str()), 1;
    log::Log log({.path = {}, .console = 2});
    log.write_at_once([] {});
    net::Loop loop(1);
    Tool tool;
    ServerLimits limits;
    if (char const* const stall = std::getenv("GRPC_TOOL_STALL"))
        limits.session.stall = limits.answer = std::chrono::milliseconds(std::atol(stall));
    Server server(limits,
                  {.loop = loop, .serve = [&](std::shared_ptr<Call> const& call) { tool.serve(call); }, .log = log});
    server.listen(*std::move(socket));
    net::Signals const signals(loop, {SIGTERM}, [&](int) { server.stop([&] { loop.stop(); }); });
    say("ready");
    loop.run();
    return 0;
}
