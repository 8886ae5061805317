#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "host/cri/stream/command_status.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

/// Between the protocols that clients speak and what their streams are connected with.
namespace triton::cri::stream {

/// A protocol on a connection that was upgraded: bytes in, bytes out.
class Wire {
public:
    virtual ~Wire() = default;
    /// Called once, before anything was received.
    virtual void start() = 0;
    /// Returns false when the connection is to end, after what is in output().
    virtual bool receive(std::string_view bytes) = 0;
    /// What is to be sent; its owner takes from the front.
    virtual std::string& output() = 0;
    /// Nothing more comes.
    virtual void close() = 0;
};

/// What the client of a command does. Called from inside of Wire::receive().
class CommandEvents {
public:
    virtual ~CommandEvents() = default;
    /// All streams are there.
    virtual void began() = 0;
    virtual void received_input(std::string_view bytes) = 0;
    virtual void finished_input() = 0;
    virtual void resized(TerminalSize size) = 0;
};
class CommandWire : public Wire {
public:
    virtual void send_output(std::string_view bytes, bool is_errors) = 0;
    /// Ends the output, then says how the command has ended, then ends.
    virtual void end(Result<std::int64_t> const& exit_code) = 0;
};

/// What the client of forwarded ports does. Each connection has a key.
class ForwardEvents {
public:
    virtual ~ForwardEvents() = default;
    /// Returns false when there are too many.
    virtual bool opened(std::uint32_t key, std::uint16_t port) = 0;
    virtual void received(std::uint32_t key, std::string_view bytes) = 0;
    virtual void finished(std::uint32_t key) = 0;
    virtual void was_reset(std::uint32_t key) = 0;
};
class ForwardWire : public Wire {
public:
    virtual void send(std::uint32_t key, std::string_view bytes) = 0;
    /// The pod sends nothing more there.
    virtual void finish(std::uint32_t key) = 0;
    /// Ends the connection in both directions; its key is gone. `error`: for its error stream; empty: all was well.
    virtual void end(std::uint32_t key, std::string_view error) = 0;
    /// Ends what has waited for its other half since before `when`.
    virtual void expire_halves(TimePoint when) = 0;
};

/// Which streams a client was promised.
struct CommandStreams {
    bool has_input = false;
    bool has_output = false;
    bool has_errors = false;
    bool is_terminal = false;
};

}  // namespace triton::cri::stream
