#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "host/cri/monitor/message.h"
#include "host/cri/stream/descriptor_ends.h"
#include "host/cri/stream/session.h"
#include "host/cri/stream/wire.h"

namespace triton::cri::stream {

/// A command, or a container that somebody is attached to. The monitor starts it when all of the client's streams are
/// there, and sends its ends and how it has ended; bytes never pass the monitor of a command.
class CommandSession final : public Session, private CommandEvents {
public:
    using MakeWire = std::function<std::unique_ptr<CommandWire>(CommandEvents&)>;
    /// `is_command`: else it is attached.
    CommandSession(SessionParts parts, bool is_command, CommandStreams const& streams, MakeWire const& make_wire);

    void start() override;
    void receive(std::string_view bytes) override;
    std::string& output() override { return wire_->output(); }
    [[nodiscard]] bool is_blocked() const override;
    void hold_output(bool is_held) override;
    [[nodiscard]] bool is_over() const override { return is_over_; }
    void check_limits() override;

private:
    void began() override;
    void received_input(std::string_view bytes) override;
    void finished_input() override;
    void resized(TerminalSize size) override;

    void hear();
    void opened(monitor::Received& received);
    std::unique_ptr<Source> make_source(UniqueFd fd, bool is_errors);
    void end(Result<std::int64_t> const& exit_code);
    void tell(monitor::Message const& message);

    SessionParts parts_;
    bool is_command_;
    CommandStreams streams_;
    std::unique_ptr<CommandWire> wire_;
    EventLoop::Watch watch_;
    TimePoint since_;
    bool has_begun_ = false;
    bool has_opened_ = false;
    bool has_finished_input_ = false;
    bool is_held_ = false;
    bool is_over_ = false;
    std::string early_input_;
    std::optional<TerminalSize> size_;
    std::unique_ptr<Sink> input_;
    std::unique_ptr<Source> output_;
    std::unique_ptr<Source> errors_;
};

}  // namespace triton::cri::stream
