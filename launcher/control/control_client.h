#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/control/control_backend.h"
#include "launcher/control/control_wait.h"
#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/unique_fd.h"
#include "lib/json/writer.h"

namespace triton::launcher {

// Calls that are not over with their first answer, one at a time for each connection.

/// A list that is written a few processes a round.
struct ListJob {
    std::optional<std::string> program;    // nullopt: all
    std::optional<std::uint32_t> process;  // nullopt: all
    std::size_t index = 0;                 // of the program in hand
    std::string name;                      // of it, when it is open
    std::uint32_t next = 1;                // its next process
    bool is_begun = false;                 // the text has its head
    bool is_open = false;                  // the program in hand has its head
    json::Writer text;
};
struct WaitJob {
    std::string program;
    std::optional<std::uint32_t> process;
    WaitFor what = WaitFor::ready;
    std::uint32_t next = 1;                    // processes before it were where they are waited for
    std::vector<std::uint32_t> starts_before;  // restarted, started: of process 1 and so on, or of the one
    std::uint64_t seen = 0;                    // of the changes
};
/// Kept lines that are answered a part at a time. With `follows`, those that come meanwhile wait behind them.
struct LogsJob {
    struct Line {
        std::uint32_t process = 0;
        bool is_stderr = false;
        std::int64_t time = 0;
        std::size_t begin = 0;  // in `text`
        std::size_t size = 0;
    };
    std::string program;
    std::optional<std::uint32_t> process;
    bool follows = false;
    std::string text;
    std::vector<Line> lines;  // oldest first, once all have been found
    std::size_t next = 0;     // of them

    void add(OutputLine const& line);
    [[nodiscard]] OutputLine at(std::size_t index) const;
    [[nodiscard]] std::size_t bytes() const { return text.size() + lines.size() * sizeof(Line); }
};
struct SubscribeJob {};
struct FollowJob {
    std::string program;
    std::optional<std::uint32_t> process;
};
struct UpgradeJob {};
struct StageJob {
    std::uint64_t ticket = 0;
};
/// The active configuration, once or again at each change.
struct ConfigurationJob {
    std::uint64_t seen = 0;  // of the changes
};
struct ProbesJob {};
using Job = std::variant<std::monostate, ListJob, WaitJob, LogsJob, SubscribeJob, FollowJob, UpgradeJob, StageJob,
                         ConfigurationJob, ProbesJob>;

/// One connection: its bytes in and out, and the call in hand. What the bytes mean is the server's matter.
class ControlClient {
public:
    enum class Interest : std::uint8_t { none, input, output };

    ControlClient(UniqueFd fd, ControlPeer const& peer, ControlRole role, TimePoint now)
        : peer_(peer), role_(role), last_active_(now), fd_(std::move(fd)) {}

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] ControlPeer const& peer() const { return peer_; }
    [[nodiscard]] bool is_agent() const { return role_ == ControlRole::agent; }
    [[nodiscard]] ControlRole role() const { return role_; }

    /// Receives once, as far as the limit goes. Ends the client when that fails.
    void receive(std::size_t limit, TimePoint now);
    [[nodiscard]] bool has_message() const { return message_end_ != std::string::npos; }
    [[nodiscard]] bool has_input_room(std::size_t limit) const { return input_.size() < limit; }
    [[nodiscard]] bool is_input_full(std::size_t limit) const { return input_.size() >= limit && !has_message(); }
    [[nodiscard]] bool has_partial_message() const { return !input_.empty() && !has_message(); }
    [[nodiscard]] TimePoint partial_since() const { return partial_since_; }
    /// The next message, without its NUL.
    std::string take_message(TimePoint now);

    /// Room for more, below a limit.
    [[nodiscard]] bool has_room(std::size_t size, std::size_t limit) const { return pending() + size <= limit; }
    [[nodiscard]] std::size_t pending() const { return output_.size() - written_; }
    /// To append to; `now` is when the reader's time begins.
    std::string& output(TimePoint now);
    /// Sends what the reader takes. Ends the client when it is gone.
    void flush(TimePoint now);
    [[nodiscard]] TimePoint progress_at() const { return progress_at_; }
    /// How long the agent has not taken all that it was sent; none of other roles.
    [[nodiscard]] Duration deaf_for(TimePoint now) const;

    void end();
    [[nodiscard]] bool is_dead() const { return !fd_; }
    [[nodiscard]] bool is_at_end() const { return is_at_end_; }  // the other side sends no more
    [[nodiscard]] TimePoint last_active() const { return last_active_; }

    Job job;
    bool wants_more = false;  // of the call in hand
    bool is_oneway = false;   // likewise
    bool is_closing = false;  // as soon as the output is written
    std::uint64_t lost = 0;   // events or lines since there was room last
    Interest interest = Interest::none;
    EventLoop::Watch watch;

private:
    void find_message(std::size_t from, TimePoint now);
    [[nodiscard]] bool has_unread() const;

    ControlPeer peer_;
    ControlRole role_;
    std::string input_;
    std::size_t message_end_ = std::string::npos;
    TimePoint partial_since_{};
    std::string output_;
    std::size_t written_ = 0;
    TimePoint progress_at_{};
    TimePoint unread_since_{};
    TimePoint last_active_;
    bool is_at_end_ = false;
    UniqueFd fd_;
};

}  // namespace triton::launcher
