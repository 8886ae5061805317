#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

/// What tritoncrid and the monitor of a pod say to each other, on a SEQPACKET socket: one message is one packet. A
/// daemon speaks to monitors of the version before, too.
namespace triton::cri::monitor {

inline constexpr std::uint32_t protocol_version = 1;
inline constexpr std::size_t most_message_bytes = 60 * 1024;
inline constexpr std::size_t most_texts = 256;

enum class Kind : std::uint32_t {
    // Requests. Each has one answer of the same sequence.
    table = 1,    ///< answered by a `container` for each, then `answer`; from then on `exited` is told
    create = 2,   ///< see CreateText; numbers[0]: StreamBit of its input and terminal; numbers[1]: owners are mapped
    start = 3,    ///< texts: runtime
    signal = 4,   ///< numbers: signal
    destroy = 5,  ///< from the runtime, with its root; the monitor forgets it
    reopen = 6,   ///< opens the log by its name
    execute = 7,  ///< see ExecuteText; descriptors: output, errors. answer: exit code, when it has ended
    abort = 8,    ///< kills the command of the `execute` whose sequence is numbers[0]
    end = 9,      ///< destroys all containers, and ends
    // Requests with the socket of a session as the descriptor; numbers[0]: StreamBit. See Sessions.
    execute_streams = 10,  ///< see ExecuteText: a command, when its session begins
    attach = 11,
    forward = 12,  ///< texts: path of the network namespace, or empty: that of the monitor
    // What the stream server says in a session.
    begin = 20,    ///< the client is there with all of its streams
    resize = 21,   ///< numbers: width and height of the terminal
    connect = 22,  ///< numbers[0]: port
    // What it says to the daemon.
    redeem = 30,  ///< texts: a token
    // Answers and events.
    answer = 100,     ///< numbers: 0 or an ErrorKind + 1, then the result; texts: the reason
    container = 101,  ///< numbers: see ContainerNumber
    exited = 102,     ///< the same
    opened = 110,     ///< descriptors: the ends of streams; numbers[0]: StreamBit, which of them
    ended = 111,      ///< numbers: as of `answer`, then how many bytes of output were lost; the last message
    connected = 112,  ///< of the same sequence as `connect`; the socket, or texts: the reason
    // What the daemon says to the stream server.
    serve = 130,     ///< descriptor: a listening socket
    redeemed = 131,  ///< of the same sequence; numbers[0]: the kind of session, 0: there is no such ticket;
                     ///< numbers[1]: StreamBit; numbers[2]: an ErrorKind + 1 with the reason as text; its socket
};

/// texts of `create`.
enum CreateText : std::size_t {
    create_runtime,  ///< path of the program
    create_state,    ///< its --root
    create_driver,   ///< its --cgroup-manager
    create_bundle,
    create_log,    ///< path of the log, empty: none
    create_lower,  ///< the image
    create_upper,
    create_work,
    create_oom,    ///< files to look at for kills by the kernel, separated by newlines
    create_texts,  ///< what comes after them: volumes, each with a VolumeKind in front; see mapped_volume()
};
/// Volumes of a pod with a user namespace: its root cannot pass all directories above them.
enum VolumeKind : char { volume_as_it_is = 'a', volume_mapped = 'm' };
/// Where in its bundle such a volume is found.
inline std::string mapped_volume(std::string const& bundle, std::size_t number) {
    return bundle + "/v" + std::to_string(number);
}
/// texts of `execute`.
enum ExecuteText : std::size_t {
    execute_process,  ///< path of its process.json
    execute_texts,
};
/// Streams, as bits of a number.
enum StreamBit : std::int64_t {
    stream_input = 1,
    stream_output = 2,
    stream_errors = 4,
    stream_terminal = 8,     ///< the others are one terminal
    stream_input_once = 16,  ///< the input ends with the first client that was attached to it
};
/// Those whose condition holds.
constexpr std::int64_t bits(std::initializer_list<std::pair<bool, StreamBit>> conditions) {
    std::int64_t sum = 0;
    for (auto const& [holds, bit] : conditions)
        if (holds) sum |= bit;
    return sum;
}
/// Where a container is, as a number of its description.
enum ContainerPhase : std::int64_t { phase_making, phase_created, phase_running, phase_exited };
enum ContainerNumber : std::size_t {
    container_phase,  ///< a ContainerPhase
    container_pid,
    container_exit_code,
    container_oom,
    container_exited_at,  ///< nanoseconds since 1970
    container_numbers,
};

struct Message {
    Kind kind = Kind::answer;
    std::uint64_t sequence = 0;
    std::string container = {};
    std::array<std::int64_t, container_numbers> numbers{};
    std::vector<std::string> texts = {};

    bool operator==(Message const&) const = default;
};

/// Errors: `invalid`: it is longer than most_message_bytes.
Result<std::string> encode(Message const& message);
/// Errors: `corrupt`; `unsupported`: another version.
Result<Message> decode(std::string_view packet);

inline constexpr std::size_t most_descriptors = 3;

/// Sends a packet without waiting. Errors: those of sendmsg(2), EAGAIN too.
Result<> send_message(int socket, Message const& message, std::vector<int> const& descriptors = {});

struct Received {
    Message message;
    std::vector<UniqueFd> descriptors = {};
};
/// The next packet. Errors: `unavailable`: the peer has closed; `busy`: there is none now; those of decode().
Result<Received> receive_message(int socket);

}  // namespace triton::cri::monitor
