#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <termios.h>

#include "launcher/terminal/attach_frames.h"
#include "launcher/terminal/screen_modes.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// The bytes that keys like "ctrl-p,ctrl-q" or "ctrl-a,d" send; empty: none. Errors: what is not a key.
Result<std::string> parse_keys(std::string_view text);

/// Finds a sequence of keys in what is typed. What may be its beginning is held back until it is known to be another.
class KeySequence {
public:
    explicit KeySequence(std::string keys) : keys_(std::move(keys)) {}
    /// Appends what is to be passed on to `out`. Returns whether the sequence was typed: what follows it is dropped.
    bool take(std::string_view typed, std::string& out);

private:
    std::string keys_;
    std::size_t matched_ = 0;
};

/// The user's side of `ctl attach`: standard input and output, a terminal or not. While it lives a terminal is in raw
/// mode; its destructor, and every signal that ends us, puts it back.
class UserTerminal {
public:
    struct Settings {
        std::string name;  ///< of the process, as typed
        std::string detach_keys;
        bool is_read_only = false;
        bool follows = false;  ///< stays for the next process
        std::optional<TimePoint> deadline;
    };
    enum class End : std::uint8_t {
        process_ended,  ///< `status` as wait(2) has it
        detached,
        timed_out,
        signalled,  ///< `status` is the signal
        upgraded,   ///< to be called again
        over,       ///< why, in `reason`
        closed      ///< the launcher has gone
    };
    struct Outcome {
        End end = End::closed;
        int status = 0;
        std::string reason = {};
    };

    explicit UserTerminal(Settings settings);
    ~UserTerminal();
    UserTerminal(UserTerminal const&) = delete;
    UserTerminal& operator=(UserTerminal const&) = delete;

    /// Joins both sides until one of them ends; then what the program has switched on the terminal is put back.
    /// `received`: what has come on the connection already.
    Outcome run(UniqueFd connection, std::string received);
    /// A line for the user in between.
    void say(std::string_view text);

private:
    void enter_raw_mode();
    void leave_raw_mode();
    void send_window();
    std::optional<Outcome> take_signals();
    std::optional<Outcome> take_input();
    std::optional<Outcome> take_frames(bool is_at_end);
    std::optional<Outcome> follow(bool is_at_end);
    std::optional<Outcome> take_frame(AttachMessage const& message);
    bool show();
    void flush_typed();
    Outcome join(UniqueFd connection, std::string received);
    void put_screen_back();
    void stop();

    Settings settings_;
    KeySequence keys_;
    UniqueFd signals_;
    bool is_terminal_ = false;  // standard input
    bool is_raw_ = false;
    bool is_input_ended_ = false;
    termios before_{};
    UniqueFd connection_;
    std::string received_;      // not looked at
    std::string sent_;          // to the launcher: what it has not taken
    std::string shown_;         // to standard output: the same
    std::optional<int> ended_;  // the status of a process that is followed, until all before its end is shown
    ScreenModes modes_;         // what has been switched by what was shown
};

}  // namespace triton::launcher
