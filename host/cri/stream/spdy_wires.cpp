#include "host/cri/stream/spdy_wires.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

namespace triton::cri::stream {

namespace {

using http::spdy::Headers;
using http::spdy::ResetCode;
using http::spdy::StreamId;

constexpr int first_version_with_sizes = 3;
constexpr std::size_t most_early_bytes = 64 * 1024;  // of a connection whose other half has not come

std::string header(Headers const& headers, std::string const& name) {
    auto const found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
    std::uint16_t port = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc{} || end != text.data() + text.size() || port == 0) return std::nullopt;
    return port;
}

}  // namespace

SpdyCommandWire::SpdyCommandWire(CommandEvents& events, CommandStreams const& streams, int version)
    : events_(events), version_(version), session_(*this) {
    streams_["error"] = 0;
    if (streams.has_input) streams_["stdin"] = 0;
    if (streams.has_output) streams_["stdout"] = 0;
    if (streams.has_errors) streams_["stderr"] = 0;
    if (streams.is_terminal && version >= first_version_with_sizes) streams_["resize"] = 0;
}

StreamId SpdyCommandWire::stream_of(std::string_view type) const {
    auto const found = streams_.find(type);
    return found == streams_.end() ? 0 : found->second;
}

bool SpdyCommandWire::opened(StreamId stream, Headers const& headers) {
    auto const found = streams_.find(header(headers, "streamtype"));
    if (found == streams_.end() || found->second != 0) return false;
    found->second = stream;
    if (std::ranges::none_of(streams_, [](auto const& one) { return one.second == 0; })) events_.began();
    return true;
}

void SpdyCommandWire::received(StreamId stream, std::string_view bytes) {
    if (stream == stream_of("stdin")) return events_.received_input(bytes);
    if (stream != stream_of("resize")) return;
    if (auto const size = sizes_.receive(bytes)) events_.resized(*size);
}

void SpdyCommandWire::finished(StreamId stream) {
    if (stream == stream_of("stdin")) events_.finished_input();
}

void SpdyCommandWire::send_output(std::string_view bytes, bool is_errors) {
    session_.send(stream_of(is_errors ? "stderr" : "stdout"), bytes);
}

void SpdyCommandWire::end(Result<std::int64_t> const& exit_code) {
    for (char const* const type : {"stdout", "stderr"})
        session_.finish(stream_of(type));
    session_.send(stream_of("error"), command_status(exit_code, version_ >= first_version_with_objects));
    session_.finish(stream_of("error"));
    for (char const* const type : {"stdin", "resize"})
        session_.finish(stream_of(type));
    close();
}

bool SpdyForwardWire::opened(StreamId stream, Headers const& headers) {
    std::string const type = header(headers, "streamtype");
    bool const is_error = type == "error";
    auto const port = parse_port(header(headers, "port"));
    if ((!is_error && type != "data") || !port) return false;
    std::string request = header(headers, "requestid");
    // Old clients open the error stream, and the data stream right after it.
    if (request.empty()) request = "#" + std::to_string(is_error ? stream : stream - 2);
    if (!pairs_.contains(request) && pairs_.size() >= most_pairs) return false;
    Pair& pair = pairs_[request];
    StreamId& half = is_error ? pair.error : pair.data;
    if (half != 0) return false;
    half = stream;
    pair.since = steady_now();
    if (pair.data == 0 || pair.error == 0) return true;
    std::uint32_t const key = pair.data;
    if (!events_.opened(key, *port)) {
        end(key, "error forwarding port: there are too many connections");
        return true;
    }
    if (std::string const early = std::exchange(pair.early, {}); !early.empty()) events_.received(key, early);
    if (pair.is_finished) events_.finished(key);
    return true;
}

std::map<std::string, SpdyForwardWire::Pair>::iterator SpdyForwardWire::pair_of(StreamId stream) {
    return std::ranges::find_if(
        pairs_, [&](auto const& one) { return one.second.data == stream || one.second.error == stream; });
}

void SpdyForwardWire::received(StreamId stream, std::string_view bytes) {
    auto const found = pair_of(stream);
    if (found == pairs_.end() || found->second.data != stream) return;
    Pair& pair = found->second;
    if (pair.error != 0) return events_.received(stream, bytes);
    pair.early += bytes;
    if (pair.early.size() <= most_early_bytes) return;
    session_.reset(stream, ResetCode::cancel);
    pairs_.erase(found);
}

void SpdyForwardWire::finished(StreamId stream) {
    auto const found = pair_of(stream);
    if (found == pairs_.end() || found->second.data != stream) return;
    found->second.is_finished = true;
    if (found->second.error != 0) events_.finished(stream);
}

/// Of the data stream; a client that resets its error stream does not want to know.
void SpdyForwardWire::was_reset(StreamId stream) {
    auto const found = pair_of(stream);
    if (found == pairs_.end()) return;
    Pair const pair = found->second;
    if (pair.data != stream && pair.data != 0) return;
    pairs_.erase(found);
    if (pair.error != 0 && pair.data == stream) {
        session_.finish(pair.error);
        events_.was_reset(stream);
    }
}

void SpdyForwardWire::end(std::uint32_t key, std::string_view error) {
    auto const found = pair_of(key);
    if (found == pairs_.end()) return;
    Pair const pair = found->second;
    pairs_.erase(found);
    session_.send(pair.error, error);
    session_.finish(pair.error);
    if (error.empty())
        session_.finish(pair.data);
    else
        session_.reset(pair.data, ResetCode::cancel);
}

void SpdyForwardWire::expire_halves(TimePoint when) {
    for (auto one = pairs_.begin(); one != pairs_.end();) {
        auto const current = one++;
        Pair const& pair = current->second;
        if ((pair.data != 0 && pair.error != 0) || pair.since >= when) continue;
        session_.reset(pair.data != 0 ? pair.data : pair.error, ResetCode::cancel);
        pairs_.erase(current);
    }
}

}  // namespace triton::cri::stream
