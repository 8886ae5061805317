// Whatever a client sends: the server's side of gRPC keeps to its limits, forgets no call and counts its memory right.
// The first byte says how the bytes are cut and how fast time passes; the rest follows the client's preface.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/http/grpc/server_session.h"

namespace {

using namespace triton;
using namespace triton::http::grpc;

constexpr std::string_view preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

void require(bool holds) {
    if (!holds) std::abort();
}

int run(std::string_view input) {
    if (input.empty()) return 0;
    auto const first = static_cast<unsigned char>(input.front());
    std::size_t const piece = 1 + (first & 0x3f) * 7;
    Duration const step = std::chrono::milliseconds((first >> 6) * 400);
    std::string const bytes = std::string(preface).append(input.substr(1));

    TimePoint now{std::chrono::hours(1)};
    SessionLimits const limits{.calls = 4, .running = 8, .field_bytes = 2048, .answer_bytes = 64 * 1024};
    RequestMemory memory{.used = 0, .most = 32 * 1024};
    std::vector<std::shared_ptr<Call>> kept;
    std::size_t abandoned = 0;
    {
        ServerSession session(limits, {.serve =
                                           [&](std::shared_ptr<Call> call) {
                                               require(kept.size() < 8 * limits.running);
                                               if (call->path() == "/echo") return call->answer(call->message());
                                               call->when_abandoned([&abandoned] { ++abandoned; });
                                               call->send("first");
                                               kept.push_back(std::move(call));
                                               if (kept.size() >= limits.running) kept.erase(kept.begin());
                                           },
                                       .has_output = [] {},
                                       .now = [&now] { return now; },
                                       .memory = memory});
        for (std::size_t at = 0; at < bytes.size(); at += piece) {
            bool const goes_on = session.receive(std::string_view(bytes).substr(at, piece));
            require(session.open_calls() <= limits.calls + 1);
            require(memory.used <= memory.most + piece);
            for (int i = 0; i < 100 && !session.take_output(4096).empty(); ++i) {
            }
            if (!goes_on) break;
            now += step;
            session.pass_time();
            if (!kept.empty() && at % 3 == 0) kept.front()->finish({Code::aborted, "enough"});
        }
    }
    require(memory.used == 0);
    for (auto const& call : kept)
        require(call->is_over());
    return 0;
}

}  // namespace

extern "C" int grpc_session_fuzz(std::uint8_t const* data, std::size_t size) {
    return run({reinterpret_cast<char const*>(data), size});
}

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    return grpc_session_fuzz(data, size);
}
#endif
