#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::systemd {

/// A separate connection to the system's bus, on which systemd and systemd-machined report what happens to units and
/// machines. A signal is only a name: the details have to be asked for.
class Signals {
public:
    enum class About : std::uint8_t {
        unit,      ///< its name: "systemd-nspawn@..": its state or a job of it has changed, or systemd has forgotten it
        machine,   ///< its name: machined has registered it, or forgotten it
        machined,  ///< it has started, so that it may have told nothing for a while
    };

    /// Connects, and asks systemd to send signals. It blocks, with a limit.
    /// Errors: as Bus::connect().
    static Result<Signals> connect();
    Signals(Signals&& other) noexcept;
    Signals& operator=(Signals&&) = delete;
    ~Signals();

    /// Borrowed; readable when there may be something to take.
    [[nodiscard]] int fd() const;

    using Tell = std::function<void(About about, std::string_view name)>;
    /// Reports at most `most` of the messages that have arrived, without waiting. Returns whether there may be more.
    /// Errors: unavailable: the bus or systemd has ended the connection; later signals are lost.
    Result<bool> take(Tell const& tell, int most);

private:
    struct State;
    explicit Signals(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace triton::systemd
