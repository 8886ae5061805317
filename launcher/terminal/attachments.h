#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/terminal/attach_frames.h"
#include "launcher/terminal/pseudo_terminal.h"
#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// A process as the one who asks names it: its program's number in some table, its number in the program.
struct TerminalKey {
    std::uint32_t program = 0;
    std::uint32_t process = 1;
    auto operator<=>(TerminalKey const&) const = default;
};

/// What may become of our memory and time, whatever the clients and the programs do.
struct AttachLimits {
    std::size_t clients = 32;                         ///< of all terminals together
    std::size_t output_bytes = 256 * 1024;            ///< of one client
    Duration patience = std::chrono::seconds(1);      ///< of a program with a client that takes nothing
    Duration replaceable = std::chrono::seconds(30);  ///< a client that takes nothing for longer gives way to another
};

/// Who is attached to the terminals of processes: passes on what the programs write, and what the clients type.
///
/// A client that does not keep up holds the program up as a slow terminal does, but for a moment only: what comes then
/// is lost for that client, which is told how much. One that sends more than the program reads is not heard until the
/// terminal takes more. No client holds up another, nor the launcher.
class Attachments {
public:
    struct Callbacks {
        /// A descriptor from outside, which may be slow to close.
        std::function<void(UniqueFd connection)> close;
        /// Somebody who had to be waited for takes more, or has been given up: see is_behind().
        std::function<void()> has_room;
    };
    struct Client {
        UniqueFd connection;  ///< a stream socket that does not block
        bool may_write = true;
        bool follows = false;  ///< stays for the next process of the number
    };

    /// `loop` outlives this.
    Attachments(EventLoop& loop, Callbacks callbacks, AttachLimits const& limits = {});
    ~Attachments();
    Attachments(Attachments const&) = delete;
    Attachments& operator=(Attachments const&) = delete;

    /// Whether there is a place for one more client. One that has taken nothing for long loses its place for that.
    [[nodiscard]] bool make_place();
    /// `master`: of the terminal that the process has now, borrowed until ended(); -1: it does not run. `before`: what
    /// the client sees first.
    void add(TerminalKey key, int master, Client client, std::string_view before);
    [[nodiscard]] bool has(TerminalKey key) const;
    [[nodiscard]] bool is_empty() const { return lines_.empty(); }

    /// A process has been given a terminal: `master`, borrowed until ended().
    void opened(TerminalKey key, int master);
    /// The program has written something.
    void written(TerminalKey key, std::string_view bytes);
    /// Whether the program is to wait for a client.
    [[nodiscard]] bool is_behind(TerminalKey key) const;
    /// The process has ended, `status` as wait(2) has it.
    void ended(TerminalKey key, int status);
    /// To be called when a process's number no longer exists.
    void removed(TerminalKey key);
    /// The same for all numbers of a program, also for those that have never been there.
    void forget(std::uint32_t program);
    /// Another version of us takes over: they come to it anew.
    void upgrading();

private:
    struct Seat;
    struct Line;

    template <class Act>
    void enter(Act const& act);
    void show(Seat& seat, std::string_view bytes);
    void flush(Seat& seat);
    void tell(Seat& seat, AttachFrame what, std::string_view content);
    void leave(Seat& seat, AttachFrame what, std::string_view content);
    void end(Seat& seat);
    [[nodiscard]] bool is_waited_for(Seat const& seat) const;
    void hear(Line& line, Seat& seat);
    void listen(Line& line, Seat& seat);
    void pass_on(Line& line, Seat& seat);
    void await_terminal(Line& line);
    void time_passed();
    void arm();
    template <class Act>
    void each(Act const& act) const;

    EventLoop& loop_;
    Callbacks callbacks_;
    AttachLimits limits_;
    std::map<TerminalKey, std::unique_ptr<Line>> lines_;  // those with a client
    std::unique_ptr<char[]> buffer_;                      // for one message of a client
    EventLoop::Timer timer_;                              // of clients that take nothing
    EventLoop::Timer room_timer_;                         // for Callbacks::has_room, from outside of all others' calls
    int depth_ = 0;                                       // of enter()
};

}  // namespace triton::launcher
