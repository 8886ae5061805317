#include "lib/http/spdy/server_session.h"

#include <utility>

namespace triton::http::spdy {

namespace {

constexpr StreamId stream_mask = 0x7fff'ffff;

}  // namespace

bool ServerSession::receive(std::string_view bytes) {
    while (!is_over_ && !bytes.empty()) {
        if (data_left_ > 0) {
            std::string_view const piece = bytes.substr(0, data_left_);
            bytes.remove_prefix(piece.size());
            data_left_ -= piece.size();
            receive_data(piece);
            if (data_left_ == 0) end_data();
            continue;
        }
        std::size_t const wanted =
            input_.size() < frame_head_bytes ? frame_head_bytes : frame_head_bytes + parse_frame_head(input_).length;
        std::string_view const piece = bytes.substr(0, wanted - input_.size());
        input_ += piece;
        bytes.remove_prefix(piece.size());
        if (input_.size() < frame_head_bytes) continue;
        FrameHead const head = parse_frame_head(input_);
        if (!head.is_control) {
            input_.clear();
            data_ = head;
            data_left_ = head.length;
            if (data_left_ == 0) end_data();
        } else if (head.version != protocol_version || head.length > most_control_bytes) {
            return fail_connection();
        } else if (input_.size() == frame_head_bytes + head.length) {
            std::string const frame = std::exchange(input_, {});
            if (!handle_control(head, std::string_view(frame).substr(frame_head_bytes))) return fail_connection();
        }
    }
    return !is_over_;
}

bool ServerSession::fail_connection() {
    if (!is_over_) go_away(GoawayCode::protocol_error);
    return false;
}

/// Returns false for an error of the connection.
bool ServerSession::handle_control(FrameHead const& head, std::string_view payload) {
    switch (static_cast<FrameType>(head.type)) {
        case FrameType::syn_stream: return open_stream(head, payload);
        case FrameType::rst_stream: {
            if (payload.size() != 8) return false;
            StreamId const stream = number_at(payload, 0) & stream_mask;
            if (streams_.erase(stream) > 0) events_.was_reset(stream);
            return true;
        }
        case FrameType::ping:
            if (payload.size() != 4) return false;
            append_control_frame(output_, FrameType::ping, 0, payload);
            return true;
        case FrameType::headers: {
            // Nobody sends them, but the state of the compression goes on with them.
            if (payload.size() < 4 || !reader_.read(payload.substr(4))) return false;
            StreamId const stream = number_at(payload, 0) & stream_mask;
            auto const found = streams_.find(stream);
            if ((head.flags & flag_fin) != 0 && found != streams_.end() && !found->second.is_finished_there) {
                found->second.is_finished_there = true;
                events_.finished(stream);
                forget_if_finished(stream);
            }
            return true;
        }
        case FrameType::syn_reply: return false;  // we open no streams
        case FrameType::settings:
        case FrameType::goaway:
        case FrameType::window_update: return true;
    }
    return true;  // unknown types are passed over
}

bool ServerSession::open_stream(FrameHead const& head, std::string_view payload) {
    constexpr std::size_t fixed_bytes = 10;
    if (payload.size() < fixed_bytes) return false;
    auto const headers = reader_.read(payload.substr(fixed_bytes));
    if (!headers) return false;
    StreamId const stream = number_at(payload, 0) & stream_mask;
    if (streams_.contains(stream)) return false;
    if (stream <= last_ || stream % 2 == 0) {
        reset(stream, ResetCode::protocol_error);
        return true;
    }
    last_ = stream;
    if (streams_.size() >= most_streams) {
        reset(stream, ResetCode::refused);
        return true;
    }
    streams_.emplace(stream, Stream{});
    std::string reply;
    append_number(reply, stream);
    append_control_frame(output_, FrameType::syn_reply, 0, reply + writer_.write({}));
    if (!events_.opened(stream, *headers)) {
        reset(stream, ResetCode::refused);
        return true;
    }
    auto const found = streams_.find(stream);
    if ((head.flags & flag_fin) != 0 && found != streams_.end()) {
        found->second.is_finished_there = true;
        events_.finished(stream);
        forget_if_finished(stream);
    }
    return true;
}

void ServerSession::receive_data(std::string_view bytes) {
    auto const found = streams_.find(data_.stream);
    if (found != streams_.end() && !found->second.is_finished_there) events_.received(data_.stream, bytes);
}

/// Data of a stream that was reset here may have been on its way.
void ServerSession::end_data() {
    StreamId const stream = data_.stream;
    auto const found = streams_.find(stream);
    if (found == streams_.end()) {
        if (stream > last_ || stream == 0) reset(stream, ResetCode::invalid_stream);
        return;
    }
    if (found->second.is_finished_there) {
        reset(stream, ResetCode::already_closed);
        return events_.was_reset(stream);
    }
    if ((data_.flags & flag_fin) == 0) return;
    found->second.is_finished_there = true;
    events_.finished(stream);
    forget_if_finished(stream);
}

void ServerSession::send(StreamId stream, std::string_view bytes) {
    auto const found = streams_.find(stream);
    if (found == streams_.end() || found->second.is_finished_here) return;
    while (!bytes.empty()) {
        std::string_view const piece = bytes.substr(0, most_data_bytes);
        bytes.remove_prefix(piece.size());
        append_data_frame(output_, stream, 0, piece);
    }
}

void ServerSession::finish(StreamId stream) {
    auto const found = streams_.find(stream);
    if (found == streams_.end() || found->second.is_finished_here) return;
    found->second.is_finished_here = true;
    append_data_frame(output_, stream, flag_fin, {});
    forget_if_finished(stream);
}

void ServerSession::forget_if_finished(StreamId stream) {
    auto const found = streams_.find(stream);
    if (found != streams_.end() && found->second.is_finished_here && found->second.is_finished_there)
        streams_.erase(found);
}

void ServerSession::reset(StreamId stream, ResetCode code) {
    streams_.erase(stream);
    std::string payload;
    append_number(payload, stream);
    append_number(payload, static_cast<std::uint32_t>(code));
    append_control_frame(output_, FrameType::rst_stream, 0, payload);
}

void ServerSession::go_away(GoawayCode code) {
    if (is_over_) return;
    is_over_ = true;
    std::string payload;
    append_number(payload, last_);
    append_number(payload, static_cast<std::uint32_t>(code));
    append_control_frame(output_, FrameType::goaway, 0, payload);
}

}  // namespace triton::http::spdy
