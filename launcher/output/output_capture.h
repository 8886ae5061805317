#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/program.h"
#include "launcher/output/console.h"
#include "launcher/output/far_file.h"
#include "launcher/output/line_format.h"
#include "launcher/output/log_file.h"
#include "launcher/output/log_ring.h"
#include "launcher/output/syslog_relay.h"
#include "launcher/output/syslog_sender.h"
#include "launcher/terminal/pseudo_terminal.h"
#include "launcher/terminal/screen_modes.h"
#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/base/rfc3339.h"

namespace triton::launcher {

/// A process as the caller names it: its program's number in some table, its number in the program.
struct OutputKey {
    std::uint32_t program = 0;
    std::uint32_t process = 1;
    auto operator<=>(OutputKey const&) const = default;
};

/// Everything that an OutputCapture of another version of us needs to continue. Descriptors are borrowed: they stay
/// open across execve(2) if the caller removes FD_CLOEXEC.
struct OutputState {
    struct Pipe {
        OutputKey key = {};
        OutputStream stream = OutputStream::out;
        int read_end = -1;
        int write_end = -1;
        std::string begun = {};       ///< of a line that is not ended
        bool is_continued = false;    ///< a piece of that line was passed on already
        std::string held = {};        ///< read, and waiting for room
        bool is_ending = false;       ///< the process has ended ..
        std::uint64_t until_end = 0;  ///< .. and has left this many bytes in the pipe
        bool is_terminal = false;     ///< its master is the read end, and a slave the write end
        std::uint64_t run_begin = 0;  ///< see OutputCapture::run_begin(); 0 where nobody asks for it
        std::string modes = {};       ///< see ScreenModes::redo()
        bool is_leaving = false;      ///< its number is no longer wanted, or has another pipe
        bool is_dropping = false;     ///< up to the end of the line
    };
    struct Program {
        std::uint32_t program = 0;
        std::string file = {};     ///< which one, of files by the number
        std::string waiting = {};  ///< for its file
        bool is_mid_line = false;  ///< in its file
        std::string ring = {};
        std::uint64_t dropped = 0;
        int writer = -1;         ///< the channel to the writer of its file ..
        std::uint64_t sent = 0;  ///< .. by which so much of `waiting` was sent
    };
    struct Syslog {
        std::string address = {};
        std::string waiting = {};  ///< messages
    };
    std::vector<Pipe> pipes;
    std::vector<Program> programs;  ///< and for standard errors of their own, by numbers that no program has
    std::vector<Syslog> syslog;
};

/// Takes what processes write to their standard output and error, and passes it on in whole lines.
///
/// Each process number has one pipe for both streams (raw format, to a file: their order is kept) or one for each. We
/// hold both ends, from the number's first start until remove(): output of a process is not lost when it dies, a
/// successor writes into the same pipe, no process gets SIGPIPE, and a grandchild that keeps the pipe open holds up
/// nothing. The price is two descriptors a pipe, so the soft RLIMIT_NOFILE should be at the hard one.
///
/// A file on a file system that may hang is a FarFile; others are a RotatingFile.
///
/// Memory is bounded: by LogFile::capacity or Console's buffer, and for each pipe by three times longest_line.
/// When the destination takes no more, "block" leaves the rest in the pipes, so that the program waits when these are
/// full; "drop" counts lines and continues.
class OutputCapture {
public:
    /// Each may be empty. Called from inside of this class's methods; must not call them.
    struct Callbacks {
        /// Lines dropped since the last call, when there is room again. `name`: of the program, which may be gone.
        std::function<void(std::string_view name, std::uint64_t lines)> dropped;
        /// Told once, until it has worked again: the file cannot be written, opened or rotated.
        std::function<void(std::string_view name, Error const&)> failed;
        /// Lines that waited for the file of a program that no longer exists, and that nobody will write.
        std::function<void(std::string_view name, std::uint64_t lines)> lost;
        /// Messages that a syslog daemon has not taken, and that nobody will send.
        std::function<void(std::string_view address, std::uint64_t messages)> unsent;
        /// Starts the writer of a FarFile. Empty: all files are written here.
        FarFile::Start start_writer = {};
        /// Before the path of a syslog socket is opened. Empty: it may be.
        MayTouch may_touch = {};
    };

    /// `loop`, `console` and `relay` outlive this.
    OutputCapture(EventLoop& loop, Console& console, SyslogRelay& relay, Callbacks callbacks);
    ~OutputCapture();
    OutputCapture(OutputCapture const&) = delete;
    OutputCapture& operator=(OutputCapture const&) = delete;

    /// What configure() was given.
    struct Settings {
        std::string name;
        config::Output output;
        std::uint32_t count;
    };
    /// nullopt: the output of the program is not captured.
    [[nodiscard]] std::optional<Settings> settings(std::uint32_t program) const;
    /// Says where the output of a program goes from now on; `output.kind` is `captured`. `name` is empty for the
    /// unnamed program. `ring_bytes`: how much is kept for read_log(). Text for an earlier destination goes there
    /// first. Two programs may have one file for the moment that one leaves it; they do not see each other's lines and
    /// rotate it each on its own. Errors: the file cannot be opened; nothing has changed then.
    /// With `output.error` the standard error has a destination of its own; the chunks of both are in one order.
    /// `count`: files by the number are opened for so many; a number beyond it keeps what it has until remove().
    Result<> configure(std::uint32_t program, std::string_view name, config::Output const& output,
                       std::uint32_t count = 1, std::size_t ring_bytes = LogRing::default_capacity);
    /// Forgets a program and, after draining them, the pipes of all its processes. What its file cannot take now is
    /// tried again.
    void forget(std::uint32_t program);
    /// Whether it has a process whose pipes are here.
    [[nodiscard]] bool has_pipes(std::uint32_t program) const;

    /// What a process gets as its standard output and error (borrowed; O_CLOEXEC, to be duplicated by the child). No
    /// `err` where the standard error is not captured.
    struct WriteEnds {
        int out = -1;
        int err = -1;
    };
    /// The program has been configured. Opens pipes at the first call for a number. Errors: those of pipe2(2).
    Result<WriteEnds> write_ends(OutputKey key);
    /// A fresh terminal for the number, instead of the one that its last process had. What is written to it is passed
    /// on as from a pipe, with each CR LF as a line's end. The program has been configured.
    /// Returns: the slave (borrowed; O_CLOEXEC). Errors: those of open_pseudo_terminal().
    Result<int> open_terminal(OutputKey key, WindowSize size, uid_t owner);
    /// The master of the terminal that a process has (borrowed, until process_ended()); -1: it has none.
    [[nodiscard]] int terminal(OutputKey key) const;
    /// The beginning of a line on it whose end has not come: its prompt, perhaps.
    [[nodiscard]] std::string_view begun_line(OutputKey key) const;
    /// What its program has switched on it.
    [[nodiscard]] ScreenModes terminal_modes(OutputKey key) const;
    /// Both are called from inside of this class's methods; they must not call them.
    struct TerminalReader {
        virtual ~TerminalReader() = default;
        /// What was written to a terminal, as it is.
        virtual void shown(OutputKey key, std::string_view bytes) = 0;
        /// Whether a terminal is not to be read now. resume() goes on with it.
        [[nodiscard]] virtual bool is_to_wait(OutputKey key) const = 0;
    };
    /// `reader` outlives this.
    void read_terminals_for(TerminalReader& reader) { terminal_reader_ = &reader; }

    /// The process was reaped: takes what is left in its pipes, as far as the destination has room, and ends the line
    /// that it did not end. Output of a successor comes after that.
    void process_ended(OutputKey key);
    /// The number is no longer wanted: drains its pipes and closes them.
    void remove(OutputKey key);

    /// SIGHUP: opens the files of all programs again under their names. Failures are reported by Callbacks::failed.
    void reopen_files();

    /// Whether a destination takes nothing now (its disk is full), and is tried again after a moment.
    [[nodiscard]] bool is_to_retry() const { return retry_timer_.is_armed(); }
    /// Tries it now.
    void retry();
    /// The console has room again.
    void resume();
    /// Writers of files end when they have written what there is. Others come when there is more.
    void let_writers_end();
    /// Before the launcher ends: takes everything that is in the pipes and writes it, as long as `limit` allows.
    void flush(milliseconds limit);

    // For `ctl logs`.

    /// The chunks kept for a program, from `sequence` on; see LogRing::read(). Returns `sequence` when there are none.
    std::uint64_t read_log(std::uint32_t program, std::uint64_t sequence,
                           std::function<bool(LogChunk const&)> const& each) const;
    /// The numbers of the first chunk that is kept for a program, and of the next one; see LogRing.
    struct Kept {
        std::uint64_t first = 1;
        std::uint64_t next = 1;
    };
    [[nodiscard]] Kept kept(std::uint32_t program) const;
    /// From which chunk on a stream is that of the latest start of this process. UINT64_MAX: from none yet, or there is
    /// no such process.
    [[nodiscard]] std::uint64_t run_begin(OutputKey key, OutputStream stream) const;
    /// Is called with each new chunk of any program. Must not block and must not call back into this object; the text
    /// is borrowed for the call. Empty: nobody follows.
    void follow(std::function<void(std::uint32_t program, LogChunk const&)> on_chunk);

    // For an upgrade.

    [[nodiscard]] OutputState export_state();
    /// Reading ends with this, unless the upgrade fails and resume_reading() is called.
    void stop_reading();
    void resume_reading();
    /// Tells that what waits of programs that no longer exist, in pipes and for files, is lost, as the next version
    /// does not know it. If there is none after all, it goes on waiting.
    void tell_waiting_as_lost();
    /// Before programs are configured: the writers that they are to have again. The rest of them end.
    void offer_writers(OutputState const& state);
    /// Takes the pipes and texts of programs that have been configured; those of others are closed.
    void import_state(OutputState state);

private:
    struct Pipe;
    struct Program;
    struct Destination;
    /// The key of a stream's destination: all numbers of a program share one, or each file has its own.
    struct DestinationKey {
        std::uint32_t program = 0;
        OutputStream stream = OutputStream::out;  // err: of a standard error for itself
        std::string file = {};                    // which one, of files by the number
        auto operator<=>(DestinationKey const&) const = default;
    };
    struct Process;
    struct Opened;
    struct Offered {
        UniqueFd channel;
        std::size_t sent = 0;
    };
    enum class Progress : std::uint8_t { again, empty, blocked };

    [[nodiscard]] Program* find(std::uint32_t program) const;
    [[nodiscard]] std::shared_ptr<Destination> known(DestinationKey const& key) const;
    [[nodiscard]] Result<std::shared_ptr<Destination>> destination(OutputKey key, OutputStream stream);
    [[nodiscard]] std::shared_ptr<Destination> destination_again(OutputKey key, OutputStream stream);
    Result<std::unique_ptr<LogFile>> open_file(DestinationKey const& key, config::Output const& output,
                                               std::string const& path);
    std::unique_ptr<LogFile> take_offered(DestinationKey const& key, LogFile::Settings const& settings);
    void hear(Destination& destination);
    Result<> open_files(Program const& program, OutputStream stream, std::vector<Opened>& opened);
    void take_files(std::shared_ptr<Program> const& program, std::vector<Opened> opened);
    void redirect(Destination& destination, config::Output const& output, std::unique_ptr<LogFile> file);
    std::shared_ptr<SyslogSender> sender_for(config::Output const& output);
    void tend_senders();
    void tell_unsent(SyslogSender& sender);
    void leave(DestinationKey const& key);
    void leave_unused(DestinationKey const& key);
    void set_format(Pipe& pipe) const;
    Result<std::unique_ptr<Pipe>> open_pipe(OutputKey key, OutputStream stream, std::shared_ptr<Destination> to);
    void each_pipe(std::function<void(Pipe&)> const& call) const;

    std::unique_ptr<Pipe> make_pipe(OutputKey key, OutputStream stream, std::shared_ptr<Destination> to);
    Result<> watch(Pipe& pipe);
    void end_terminal(OutputKey key);
    void let_go(std::unique_ptr<Pipe> pipe);
    void take_place(std::unique_ptr<Pipe> pipe, bool is_leaving);
    std::optional<std::string_view> read_once(Pipe& pipe);
    std::string_view shown_lines(Pipe& pipe, std::size_t size);
    static void begin_run(Pipe& pipe);
    Progress pump(Pipe& pipe);
    void read_ready(Pipe& pipe);
    void pause(Pipe& pipe);
    void go_on(Pipe& pipe);
    void drain(Pipe& pipe);
    void finish_run(Pipe& pipe);
    bool end_run(Pipe& pipe);
    std::size_t take(Pipe& pipe, std::string_view data);
    bool take_begun(Pipe& pipe);
    std::size_t pass(Pipe& pipe, std::string_view text, bool is_end);
    std::size_t pass_raw(Pipe& pipe, std::string_view text, bool is_end);
    std::size_t pass_lines(Pipe& pipe, std::string_view text, bool is_end);
    void push(Pipe& pipe);
    [[nodiscard]] log::LogOutput& console_of(Pipe const& pipe) const;
    [[nodiscard]] bool has_room(Pipe const& pipe, std::size_t bytes);
    void look_after(Destination& destination);
    [[nodiscard]] bool is_to_tell_dropped(Destination const& destination, bool waits) const;
    void tell_dropped(Destination& destination);
    void keep_waiting(std::shared_ptr<Destination> destination);
    void tend_leaving();
    void give_up(Destination const& destination);
    void tell_lost(Program const& program, std::string_view waiting, std::uint64_t dropped);
    void retry_later();
    [[nodiscard]] bool waits_for_writer() const;
    void finish_files(std::function<milliseconds()> const& left);

    EventLoop& loop_;
    Console& console_;
    SyslogRelay& relay_;
    Callbacks callbacks_;
    std::string host_;  // for syslog; empty: nobody has needed it
    std::map<std::uint32_t, std::shared_ptr<Program>> programs_;
    std::map<DestinationKey, std::shared_ptr<Destination>> destinations_;
    std::map<OutputKey, Process> processes_;
    std::map<std::string, std::shared_ptr<SyslogSender>> senders_;  // by their addresses
    std::map<OutputKey, std::unique_ptr<Pipe>> terminals_;
    TerminalReader* terminal_reader_ = nullptr;
    std::vector<std::unique_ptr<Pipe>> leaving_;         // their number is no longer wanted, but they are not empty
    std::vector<std::shared_ptr<Destination>> waiting_;  // removed ones, whose file has not taken everything
    std::map<DestinationKey, Offered> offered_;          // writers
    std::vector<Pipe*> paused_;                          // in the order in which they continue
    std::unique_ptr<char[]> buffer_;                     // for one read, and the byte before it
    std::string rendered_;
    TimeText time_text_;
    std::int64_t time_ = 0;  // microseconds since the epoch, of the last read
    EventLoop::Timer retry_timer_;
    std::function<void(std::uint32_t, LogChunk const&)> follower_;
};

}  // namespace triton::launcher
