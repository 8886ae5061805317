#include "host/cri/stream/command_session.h"

#include <utility>

namespace triton::cri::stream {

namespace {

// What a pipe or a terminal can hold at the end of its program. More would be from somebody who writes on.
constexpr std::size_t most_drained = 1U << 20U;

}  // namespace

CommandSession::CommandSession(SessionParts parts, bool is_command, CommandStreams const& streams,
                               MakeWire const& make_wire)
    : parts_(std::move(parts)),
      is_command_(is_command),
      streams_(streams),
      wire_(make_wire(*this)),
      since_(steady_now()) {}

void CommandSession::start() {
    auto watch = parts_.loop.on_readable(parts_.socket.get(), [this] { hear(); });
    if (!watch) return end(std::unexpected(watch.error()));
    watch_ = *std::move(watch);
    wire_->start();
}

void CommandSession::receive(std::string_view bytes) {
    if (!is_over_ && !wire_->receive(bytes)) is_over_ = true;
}

bool CommandSession::is_blocked() const {
    std::size_t const pending = input_ ? input_->pending() : early_input_.size();
    return pending > most_pending;
}

void CommandSession::hold_output(bool is_held) {
    if (std::exchange(is_held_, is_held) == is_held) return;
    for (auto const& source : {output_.get(), errors_.get()}) {
        if (!source) continue;
        is_held ? source->pause() : source->resume();
    }
}

void CommandSession::check_limits() {
    if (has_begun_ || is_over_ || steady_now() - since_ < halves_limit) return;
    wire_->close();
    is_over_ = true;
}

void CommandSession::began() {
    has_begun_ = true;
    tell({.kind = monitor::Kind::begin});
}

void CommandSession::tell(monitor::Message const& message) {
    (void)monitor::send_message(parts_.socket.get(), message);  // a peer that has gone is seen by hear()
}

void CommandSession::received_input(std::string_view bytes) {
    if (has_finished_input_ || is_over_) return;
    if (input_)
        input_->write(bytes);
    else if (!has_opened_)
        early_input_ += bytes;
}

/// A terminal has no end of its input.
void CommandSession::finished_input() {
    if (std::exchange(has_finished_input_, true)) return;
    if (input_ && !(is_command_ && streams_.is_terminal)) input_->finish();
}

void CommandSession::resized(TerminalSize size) {
    size_ = size;
    if (!has_opened_) return;
    monitor::Message message{.kind = monitor::Kind::resize};
    message.numbers[0] = size.width;
    message.numbers[1] = size.height;
    tell(message);
}

void CommandSession::hear() {
    auto received = monitor::receive_message(parts_.socket.get());
    if (!received && received.error().kind == ErrorKind::busy) return;
    if (!received) return end(fail(ErrorKind::unavailable, "the pod has ended"));
    monitor::Message const& message = received->message;
    if (message.kind == monitor::Kind::opened) return opened(*received);
    if (message.kind != monitor::Kind::ended) return;
    if (message.numbers[0] != 0)
        return end(fail(ErrorKind::internal, message.texts.empty() ? "it has failed" : message.texts.front()));
    if (message.numbers[2] > 0)
        return end(fail(ErrorKind::internal, "the client has read too slowly: " + std::to_string(message.numbers[2]) +
                                                 " bytes of output were lost"));
    end(message.numbers[1]);
}

std::unique_ptr<Source> CommandSession::make_source(UniqueFd fd, bool is_errors) {
    auto source = std::make_unique<Source>(parts_.loop, std::move(fd),
                                           Source::Events{.received =
                                                              [this, is_errors](std::string_view bytes) {
                                                                  wire_->send_output(bytes, is_errors);
                                                                  parts_.changed();
                                                              },
                                                          .ended = [] {}});
    if (!is_held_) source->resume();
    return source;
}

/// The ends in the order input, output, errors. Of a command with a terminal there is one for both directions.
void CommandSession::opened(monitor::Received& received) {
    if (has_opened_) return;
    has_opened_ = true;
    std::size_t next = 0;
    auto const take = [&](monitor::StreamBit bit) {
        bool const is_there = (received.message.numbers[0] & bit) != 0 && next < received.descriptors.size();
        return is_there ? std::move(received.descriptors[next++]) : UniqueFd{};
    };
    UniqueFd input = take(monitor::stream_input);
    UniqueFd output = take(monitor::stream_output);
    UniqueFd errors = take(monitor::stream_errors);
    if (is_command_ && streams_.is_terminal && streams_.has_input && output) input = copy_of(output);
    if (output) output_ = make_source(std::move(output), false);
    if (errors) errors_ = make_source(std::move(errors), true);
    if (size_) resized(*size_);
    if (input) {
        input_ = std::make_unique<Sink>(parts_.loop, std::move(input), [this] { parts_.changed(); });
        input_->write(early_input_);
        if (std::exchange(has_finished_input_, false)) finished_input();
    }
    early_input_.clear();
    parts_.changed();
}

void CommandSession::end(Result<std::int64_t> const& exit_code) {
    watch_ = {};
    if (is_over_) return;
    for (auto const& source : {output_.get(), errors_.get()})
        if (source) source->drain(most_drained);
    is_over_ = true;
    wire_->end(exit_code);
    parts_.changed();
}

}  // namespace triton::cri::stream
