#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "host/cri/monitor/message.h"
#include "host/cri/monitor/poll_set.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::cri::monitor {

/// The ends of streams that a client gets. Those that it does not have are empty.
struct StreamEnds {
    UniqueFd input;
    UniqueFd output;
    UniqueFd errors;
};

/// What clients that are attached to a container see of its output, and what they write to its input.
///
/// Each client has a pipe for each stream. A client whose pipe is full holds up the container, as the reader of a pipe
/// or a terminal does, so that it loses nothing however slow it is. One that takes nothing for `patience` has stopped:
/// from then on what does not fit is lost for this client, and counted, until it has caught up. So a client that hangs
/// delays the container, its log, and the other clients once, and not longer than that. What a client writes waits in
/// its own pipe until the container has read what came before.
class ContainerStreams {
public:
    using Client = std::uint64_t;
    static constexpr std::size_t most_clients = 8;
    static constexpr int pipe_bytes = 1 << 20;  ///< what a client may be behind before it holds up the container
    static constexpr Duration patience = std::chrono::seconds(10);

    /// The input of a container that has one: the write end of a pipe, or the master of its terminal. It does not
    /// block. `is_once`: it ends with the first client that has written to it.
    void set_input(UniqueFd writer, bool is_terminal, bool is_once);
    [[nodiscard]] bool has_input() const { return static_cast<bool>(input_); }

    /// `wanted`: StreamBit. Errors: `exhausted`: there are too many; those of pipe(2).
    Result<StreamEnds> attach(Client client, std::int64_t wanted);
    /// Its output ends. What it has written is still passed on. Returns how many bytes it has lost.
    std::uint64_t detach(Client client);
    /// Output of the container.
    void pass_on(std::string_view bytes, bool is_errors, TimePoint now);
    /// Whether a client holds up this stream: then no more of it is to be read.
    [[nodiscard]] bool holds_up(bool is_errors) const;
    /// Whether some of the output waits for this client.
    [[nodiscard]] bool is_behind(Client client) const;
    /// When a client that takes nothing will have stopped; TimePoint::max(): none holds up anything.
    [[nodiscard]] TimePoint deadline() const;
    void give_up_stopped(TimePoint now);
    /// The container has ended. What waits for clients still does.
    void close();
    /// The clients that are attached.
    [[nodiscard]] std::vector<Client> clients() const;

    /// Adds what it waits for. `self` finds this again, or returns nullptr.
    void add_to(PollSet& polled, std::function<ContainerStreams*()> const& self);

private:
    /// The write end of a client's pipe.
    struct Output {
        UniqueFd pipe = {};
        std::string pending = {};  ///< that did not fit
        TimePoint progress = {};   ///< when the client last took something of it
        bool has_stopped = false;
    };
    struct Attached {
        UniqueFd input;
        Output output;
        Output errors;
        std::uint64_t lost = 0;
        bool is_gone = false;  // its last input is still on its way
    };
    void read_input(Client client);
    void flush();
    void flush_output(Client client, bool is_errors);
    void input_ended(Client client);

    UniqueFd input_;
    bool is_terminal_ = false;
    bool is_once_ = false;
    bool is_input_ending_ = false;  // after what is pending
    std::string pending_;           // for the input
    std::map<Client, Attached> attached_;
};

/// Sets the size of a terminal, of which `fd` is either side. Values of 0 are left out.
void resize_terminal(int fd, std::int64_t width, std::int64_t height);

}  // namespace triton::cri::monitor
