#include "launcher/output/output_capture.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <utility>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "config/substitution.h"
#include "launcher/output/rotating_file.h"
#include "lib/base/far_files.h"
#include "lib/text/utf8.h"

namespace triton::launcher {

namespace {

constexpr std::size_t read_size = 64 * 1024;  // what a pipe holds
constexpr Duration between_retries = std::chrono::seconds(1);
constexpr Duration between_tellings = std::chrono::minutes(1);
/// Marks, in a number of OutputState, the destination that only a standard error has. No table has so many programs.
constexpr std::uint32_t error_bit = std::uint32_t{1} << 31;
constexpr std::size_t most_waiting = 16;  // destinations that have left, each with up to LogFile::capacity
// Of the console's buffer, for the launcher's own lines.
constexpr std::size_t room_for_log = log::LogOutput::capacity / 4;
static_assert(room_for_log + longest_piece <= log::LogOutput::capacity, "an empty one takes any line");

std::int64_t microseconds_now() {
    using namespace std::chrono;
    return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

/// The destination that only the standard error has. Null: it has none of its own, or does not come to us.
config::Output const* error_of(config::Output const& output) {
    if (output.error.empty() || output.error.front().kind != config::OutputKind::captured) return nullptr;
    return &output.error.front();
}

LineFormat format_for(config::OutputFormat format, std::string_view program, std::uint32_t process) {
    switch (format) {
        case config::OutputFormat::raw: return LineFormat::raw();
        case config::OutputFormat::prefix: return LineFormat::prefix(program, process);
        case config::OutputFormat::json: return LineFormat::json(program, process);
    }
    std::unreachable();
}

/// The host name in the form that syslog messages allow. Source: RFC 5424, 6.2.4.
std::string host_name() {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) return "-";
    std::string_view const text{name.data()};
    bool const is_good = std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
    return text.empty() || !is_good ? "-" : std::string(text);
}

LineFormat syslog_format(config::Syslog const& syslog, std::string_view host, std::string_view program,
                         std::uint32_t process) {
    constexpr std::size_t longest_name = 48;
    std::string_view const name = (syslog.name.empty() ? program : syslog.name).substr(0, longest_name);
    return LineFormat::syslog(
        {.facility = static_cast<unsigned>(syslog.facility),
         .severity = static_cast<unsigned>(syslog.severity.value_or(config::SyslogSeverity::info)),
         .error_severity = static_cast<unsigned>(syslog.error_severity.value_or(config::SyslogSeverity::err)),
         .host = host,
         .name = name,
         .is_old = syslog.format == config::SyslogFormat::rfc3164},
        process);
}

}  // namespace

/// A configured program, and what is kept of its output.
struct OutputCapture::Program {
    std::uint32_t id = 0;
    std::string name;
    config::Output output;
    std::uint32_t count = 1;
    LogRing ring;
    bool is_gone = false;  // its id may be another's

    /// Both streams share a pipe, so that their order is kept.
    [[nodiscard]] bool is_joined() const {
        return output.error.empty() && output.has_file() && output.format == config::OutputFormat::raw;
    }
    [[nodiscard]] OutputStream stream_of(OutputStream stream) const {
        return stream == OutputStream::err && error_of(output) ? OutputStream::err : OutputStream::out;
    }
    [[nodiscard]] config::Output const& settings_of(OutputStream stream) const {
        return stream == OutputStream::err ? *error_of(output) : output;
    }
    /// `stream` must have a destination of its own.
    [[nodiscard]] DestinationKey key_of(OutputStream stream, std::uint32_t number) const {
        config::Output const& settings = settings_of(stream);
        if (!settings.is_numbered()) return {id, stream};
        return {id, stream,
                config::numbered_path(*settings.file_argument).arguments(process::ProcessNumber{number}).front()};
    }
};

/// A destination of lines.
struct OutputCapture::Destination {
    DestinationKey key;
    std::shared_ptr<Program> program;
    config::Output output;
    std::unique_ptr<LogFile> file;         // null: the console ..
    std::shared_ptr<SyslogSender> syslog;  // .. without this one
    Pipe const* mid_line_of = nullptr;     // whose unended line is the last one in the file, if any
    std::uint64_t dropped = 0;
    TimePoint next_telling{};  // of what is dropped, while there is no room
    int told_error = 0;
    bool is_wanted = false;  // the configuration names it; else it stays as long as a pipe leads to it

    /// The bytes go to the file as they are, ended or not.
    [[nodiscard]] bool is_unchanged() const {
        return file && output.format == config::OutputFormat::raw && output.timestamp == config::OutputTimestamp::none;
    }
};

struct OutputCapture::Opened {
    DestinationKey key;
    config::Output const* output = nullptr;
    std::unique_ptr<LogFile> file;
    bool is_as_before = false;  // what is open stays
};

struct OutputCapture::Pipe {
    OutputKey key;
    OutputStream stream = OutputStream::out;
    std::shared_ptr<Destination> to;
    LineFormat format;
    UniqueFd read_end;
    UniqueFd write_end;
    EventLoop::Watch watch;     // while it is neither paused nor exported
    std::string begun;          // a line whose end has not come yet
    std::string held;           // read, but there was no room
    bool is_continued = false;  // a piece of the line has been passed on
    bool is_dropping = false;   // up to the end of the line
    bool is_paused = false;
    bool is_ending = false;              // the process has ended ..
    std::uint64_t until_end = 0;         // .. and this many bytes of its output are still unread
    bool is_leaving = false;             // it is in leaving_
    std::unique_ptr<ScreenModes> modes;  // of a terminal
    bool has_return = false;             // the last byte was a CR; what it means depends on the next one
    std::uint64_t run_begin = 0;         // the first chunk of the latest start
};

struct OutputCapture::Process {
    std::unique_ptr<Pipe> out;
    std::unique_ptr<Pipe> err;
};

OutputCapture::OutputCapture(EventLoop& loop, Console& console, SyslogRelay& relay, Callbacks callbacks)
    : loop_(loop), console_(console), relay_(relay), callbacks_(std::move(callbacks)), retry_timer_(loop, [this] {
          retry();
      }) {
    relay_.when_room([this] {
        for (auto const& [address, sender] : senders_)
            sender->flush();
        resume();
    });
}

OutputCapture::~OutputCapture() { relay_.when_room({}); }

// What there is.

OutputCapture::Program* OutputCapture::find(std::uint32_t program) const {
    auto const at = programs_.find(program);
    return at == programs_.end() ? nullptr : at->second.get();
}

void OutputCapture::each_pipe(std::function<void(Pipe&)> const& call) const {
    for (auto const& [key, process] : processes_) {
        if (process.out) call(*process.out);
        if (process.err) call(*process.err);
    }
    for (auto const& [key, terminal] : terminals_)
        call(*terminal);
    for (auto const& pipe : leaving_)
        call(*pipe);
}

void OutputCapture::set_format(Pipe& pipe) const {
    config::Output const& output = pipe.to->output;
    if (output.syslog) {
        pipe.format = syslog_format(*output.syslog, host_, pipe.to->program->name, pipe.key.process);
        return;
    }
    pipe.format = format_for(output.format, pipe.to->program->name, pipe.key.process);
    pipe.format.set_timestamp(output.timestamp == config::OutputTimestamp::rfc3339);
}

std::optional<OutputCapture::Settings> OutputCapture::settings(std::uint32_t program) const {
    Program const* const known = find(program);
    if (!known) return std::nullopt;
    return Settings{known->name, known->output, known->count};
}

Result<> OutputCapture::configure(std::uint32_t program, std::string_view name, config::Output const& output,
                                  std::uint32_t count, std::size_t ring_bytes) {
    Program const* const before = find(program);
    if (before && before->output == output && before->name == name && before->count == count) return {};
    Program wanted{.id = program, .name = std::string(name), .output = output, .count = count, .ring = LogRing(0)};
    std::vector<Opened> opened;
    TRY(open_files(wanted, OutputStream::out, opened));
    if (error_of(wanted.output)) TRY(open_files(wanted, OutputStream::err, opened));

    auto& entry = programs_[program];
    if (!entry) {
        entry = std::make_shared<Program>();
        entry->id = program;
        entry->ring = LogRing(ring_bytes);
    }
    entry->name = wanted.name;
    entry->output = wanted.output;
    entry->count = count;
    take_files(entry, std::move(opened));
    return {};
}

/// Errors: those of RotatingFile::open(), and of starting a writer.
Result<std::unique_ptr<LogFile>> OutputCapture::open_file(DestinationKey const& key, config::Output const& output,
                                                          std::string const& path) {
    LogFile::Settings settings{path, output.max_size, output.max_files, output.mode};
    if (auto offered = take_offered(key, settings)) return offered;
    auto near = std::make_unique<RotatingFile>(settings);
    TRY(near->open());
    if (!callbacks_.start_writer || !may_hang(near->fd())) return near;
    auto far = std::make_unique<FarFile>(loop_, std::move(settings), callbacks_.start_writer);
    TRY(far->begin());
    return far;
}

/// The file whose writer an earlier version has handed over; null: there is none.
std::unique_ptr<LogFile> OutputCapture::take_offered(DestinationKey const& key, LogFile::Settings const& settings) {
    auto const at = offered_.find(key);
    if (at == offered_.end()) return nullptr;
    auto file = std::make_unique<FarFile>(loop_, settings, callbacks_.start_writer);
    file->adopt(std::move(at->second.channel), at->second.sent);
    offered_.erase(at);
    return file;
}

/// Goes on when the writer of its file does.
void OutputCapture::hear(Destination& destination) {
    if (!destination.file) return;
    destination.file->when_moved([this, &destination] {
        look_after(destination);
        if (!paused_.empty()) resume();
    });
}

/// Opens the files that a stream needs, before anything is changed.
Result<> OutputCapture::open_files(Program const& program, OutputStream stream, std::vector<Opened>& opened) {
    config::Output const& output = program.settings_of(stream);
    auto const open_one = [&](DestinationKey key, std::string const& path) -> Result<> {
        auto const there = known(key);
        bool const is_as_before = there && there->output == output && there->program->name == program.name;
        std::unique_ptr<LogFile> file;
        if (!is_as_before) file = TRY(open_file(key, output, path));
        opened.push_back({std::move(key), &output, std::move(file), is_as_before});
        return {};
    };
    if (!output.has_file()) {
        opened.push_back({{program.id, stream}, &output, nullptr, false});
        return {};
    }
    if (!output.is_numbered()) return open_one({program.id, stream}, *output.file);
    auto const names = config::numbered_path(*output.file_argument);
    std::set<std::string> distinct;
    for (std::uint32_t number = 1; number <= program.count; ++number) {
        auto const [path, is_new] = distinct.insert(names.arguments(process::ProcessNumber{number}).front());
        if (is_new) TRY(open_one({program.id, stream, *path}, *path));
    }
    return {};
}

/// Makes these the destinations of a program from now on.
void OutputCapture::take_files(std::shared_ptr<Program> const& program, std::vector<Opened> opened) {
    auto const first = destinations_.lower_bound({program->id, OutputStream::out});
    for (auto at = first; at != destinations_.end() && at->first.program == program->id; ++at)
        at->second->is_wanted = false;
    for (Opened& one : opened) {
        auto& to = destinations_[one.key];
        if (!to) {
            to = std::make_shared<Destination>();
            to->key = one.key;
            to->program = program;
        }
        if (!one.is_as_before) redirect(*to, *one.output, std::move(one.file));
        to->is_wanted = true;
    }
    each_pipe([&](Pipe& pipe) {
        if (pipe.to->program != program) return;
        OutputStream const stream = program->stream_of(pipe.stream);
        if (auto to = known(program->key_of(stream, pipe.key.process))) pipe.to = std::move(to);
        set_format(pipe);
    });
    std::vector<DestinationKey> unwanted;
    for (auto at = destinations_.lower_bound({program->id, OutputStream::out});
         at != destinations_.end() && at->first.program == program->id; ++at) {
        if (!at->second->is_wanted) unwanted.push_back(at->first);
    }
    for (DestinationKey const& key : unwanted)
        leave_unused(key);
    resume();
    for (Opened const& one : opened) {
        if (auto const to = known(one.key)) look_after(*to);  // the destination may have taken over what waits for room
    }
}

void OutputCapture::redirect(Destination& destination, config::Output const& output, std::unique_ptr<LogFile> file) {
    if (destination.file) destination.file->flush();
    if (destination.file && destination.file->has_writer()) {
        auto former = std::make_shared<Destination>();
        former->key = destination.key;
        former->program = destination.program;
        former->output = destination.output;
        former->file = std::move(destination.file);
        hear(*former);
        keep_waiting(std::move(former));
    } else if (destination.file) {
        // The disk is full. What waits goes to the new file. Without one it is dropped: it is not in the console's
        // format.
        if (file)
            file->restore(destination.file->waiting(), false);
        else
            destination.dropped += static_cast<std::uint64_t>(std::ranges::count(destination.file->waiting(), '\n'));
    }
    destination.output = output;
    destination.file = std::move(file);
    hear(destination);
    destination.syslog = sender_for(output);
    destination.mid_line_of = nullptr;
}

/// The sender to syslog; null when the output does not go there.
std::shared_ptr<SyslogSender> OutputCapture::sender_for(config::Output const& output) {
    if (!output.syslog) return nullptr;
    if (host_.empty()) host_ = host_name();
    auto& sender = senders_[output.syslog->address];
    if (!sender)
        sender = std::make_shared<SyslogSender>(
            loop_, relay_, output.syslog->address, [this] { resume(); }, callbacks_.may_touch);
    return sender;
}

/// Flushes all senders. A few senders that no program uses any more stay until they have sent everything.
void OutputCapture::tend_senders() {
    std::size_t unused = 0;
    for (auto at = senders_.begin(); at != senders_.end();) {
        SyslogSender& sender = *at->second;
        sender.flush();
        if (sender.needs_retry()) retry_later();
        bool const is_used = at->second.use_count() > 1;
        bool const is_over = !is_used && (sender.pending() == 0 || ++unused > most_waiting);
        if (is_over) tell_unsent(sender);
        is_over ? void(at = senders_.erase(at)) : void(++at);
    }
}

void OutputCapture::tell_unsent(SyslogSender& sender) {
    auto const messages = static_cast<std::uint64_t>(std::ranges::count(sender.waiting(), '\n'));
    if (messages > 0 && callbacks_.unsent) callbacks_.unsent(sender.address(), messages);
}

std::shared_ptr<OutputCapture::Destination> OutputCapture::known(DestinationKey const& key) const {
    auto const at = destinations_.find(key);
    return at == destinations_.end() ? nullptr : at->second;
}

/// The destination of a stream of a configured program. A process whose number is beyond the count, and which is to
/// stop, may need its file opened again. Errors: those of RotatingFile::open().
Result<std::shared_ptr<OutputCapture::Destination>> OutputCapture::destination(OutputKey key, OutputStream stream) {
    std::shared_ptr<Program> const program = programs_.at(key.program);
    OutputStream const own = program->stream_of(stream);
    DestinationKey const at = program->key_of(own, key.process);
    if (auto there = known(at)) return there;
    config::Output const& output = program->settings_of(own);
    auto to = std::make_shared<Destination>();
    to->key = at;
    to->program = program;
    to->output = output;
    if (output.has_file()) to->file = TRY(open_file(at, output, at.file));
    hear(*to);
    to->syslog = sender_for(output);
    destinations_.emplace(at, to);
    return to;
}

/// The same, but where its file can no longer be opened the console takes the output: without a reader the process
/// would die.
std::shared_ptr<OutputCapture::Destination> OutputCapture::destination_again(OutputKey key, OutputStream stream) {
    auto to = destination(key, stream);
    if (to) return std::move(*to);
    std::shared_ptr<Program> const& program = programs_.at(key.program);
    if (callbacks_.failed) callbacks_.failed(program->name, to.error());
    OutputStream const own = program->stream_of(stream);
    auto& plain = destinations_[{key.program, own}];
    if (plain) return plain;
    plain = std::make_shared<Destination>();
    plain->key = {key.program, own};
    plain->program = program;
    plain->output = {.kind = config::OutputKind::captured, .when_full = program->settings_of(own).when_full};
    return plain;
}

void OutputCapture::forget(std::uint32_t program) {
    while (true) {
        auto const terminal = terminals_.lower_bound(OutputKey{program, 0});
        if (terminal == terminals_.end() || terminal->first.program != program) break;
        end_terminal(terminal->first);
    }
    while (true) {
        auto const at = processes_.lower_bound(OutputKey{program, 0});
        if (at == processes_.end() || at->first.program != program) break;
        remove(at->first);
    }
    while (true) {
        auto const at = destinations_.lower_bound({program, OutputStream::out});
        if (at == destinations_.end() || at->first.program != program) break;
        leave(DestinationKey(at->first));
    }
    auto const gone = programs_.find(program);
    if (gone == programs_.end()) return;
    gone->second->is_gone = true;  // pipes that are not empty yet keep it
    programs_.erase(gone);
}

bool OutputCapture::has_pipes(std::uint32_t program) const {
    auto const first = processes_.lower_bound(OutputKey{program, 0});
    return first != processes_.end() && first->first.program == program;
}

void OutputCapture::leave(DestinationKey const& key) {
    auto const at = destinations_.find(key);
    if (at == destinations_.end()) return;
    look_after(*at->second);
    std::shared_ptr<Destination> leaving = std::move(at->second);
    destinations_.erase(at);  // pipes that are not empty yet keep it
    keep_waiting(std::move(leaving));
}

/// Drops a destination when neither the configuration nor a pipe leads to it any more.
void OutputCapture::leave_unused(DestinationKey const& key) {
    auto const at = destinations_.find(key);
    if (at != destinations_.end() && !at->second->is_wanted && at->second.use_count() == 1) leave(key);
}

/// Keeps a destination whose disk is full: the file goes on trying, like that of a configured program.
void OutputCapture::keep_waiting(std::shared_ptr<Destination> destination) {
    if (!destination->file || (destination->file->pending() == 0 && destination.use_count() == 1)) return;
    if (waiting_.size() == most_waiting) {
        give_up(*waiting_.front());
        waiting_.erase(waiting_.begin());
    }
    waiting_.push_back(std::move(destination));
    retry_later();
}

void OutputCapture::tend_leaving() {
    for (auto const& destination : waiting_)
        destination->file->flush();
    std::erase_if(waiting_, [](auto const& destination) {
        return destination->file->pending() == 0 && destination.use_count() == 1;
    });
}

void OutputCapture::give_up(Destination const& destination) {
    tell_lost(*destination.program, destination.file->waiting(), destination.dropped);
}

void OutputCapture::tell_lost(Program const& program, std::string_view waiting, std::uint64_t dropped) {
    auto const lines = static_cast<std::uint64_t>(std::ranges::count(waiting, '\n'));
    if (lines + dropped > 0 && callbacks_.lost) callbacks_.lost(program.name, lines + dropped);
}

std::unique_ptr<OutputCapture::Pipe> OutputCapture::make_pipe(OutputKey key, OutputStream stream,
                                                              std::shared_ptr<Destination> to) {
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<char[]>(1 + read_size);
    auto pipe = std::make_unique<Pipe>();
    pipe->key = key;
    pipe->stream = stream;
    pipe->to = std::move(to);
    set_format(*pipe);
    paused_.reserve(2 * (2 * processes_.size() + terminals_.size() + leaving_.size() + 2));  // twice: see resume()
    return pipe;
}

Result<> OutputCapture::watch(Pipe& pipe) {
    pipe.watch = TRY(loop_.on_readable(pipe.read_end.get(), [this, &pipe] { read_ready(pipe); }));
    return {};
}

Result<std::unique_ptr<OutputCapture::Pipe>> OutputCapture::open_pipe(OutputKey key, OutputStream stream,
                                                                      std::shared_ptr<Destination> to) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail(errno, "make a pipe for the output of a process");
    auto pipe = make_pipe(key, stream, std::move(to));
    pipe->read_end = UniqueFd{ends[0]};
    pipe->write_end = UniqueFd{ends[1]};
    // On our end only: the process expects its end to block.
    if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return fail(errno, "set up a pipe");
    TRY(watch(*pipe));
    return pipe;
}

Result<OutputCapture::WriteEnds> OutputCapture::write_ends(OutputKey key) {
    Program const* const program = find(key.program);
    if (!program) return fail("the output of this program is not captured");
    Process& process = processes_[key];
    auto const open = [&](OutputStream stream) -> Result<std::unique_ptr<Pipe>> {
        return open_pipe(key, stream, TRY(destination(key, stream)));
    };
    if (!process.out) process.out = TRY(open(OutputStream::out));
    begin_run(*process.out);
    if (process.err) begin_run(*process.err);
    int const out = process.out->write_end.get();
    if (!program->output.error.empty() && !error_of(program->output)) return WriteEnds{out, -1};
    if (program->is_joined()) return WriteEnds{out, out};
    if (!process.err) {
        process.err = TRY(open(OutputStream::err));
        begin_run(*process.err);
    }
    return WriteEnds{out, process.err->write_end.get()};
}

Result<int> OutputCapture::open_terminal(OutputKey key, WindowSize size, uid_t owner) {
    if (!find(key.program)) return fail("the output of this program is not captured");
    auto to = TRY(destination(key, OutputStream::out));
    PseudoTerminal ends = TRY(open_pseudo_terminal(size, owner));
    auto pipe = make_pipe(key, OutputStream::out, std::move(to));
    pipe->modes = std::make_unique<ScreenModes>();
    pipe->read_end = std::move(ends.master);
    pipe->write_end = std::move(ends.slave);  // so that there is no hang-up when the program has closed its own
    begin_run(*pipe);
    TRY(watch(*pipe));
    end_terminal(key);  // ends an earlier terminal whose process was never started
    return terminals_.insert_or_assign(key, std::move(pipe)).first->second->write_end.get();
}

int OutputCapture::terminal(OutputKey key) const {
    auto const at = terminals_.find(key);
    return at == terminals_.end() ? -1 : at->second->read_end.get();
}

std::string_view OutputCapture::begun_line(OutputKey key) const {
    auto const at = terminals_.find(key);
    return at == terminals_.end() ? std::string_view() : std::string_view(at->second->begun);
}

ScreenModes OutputCapture::terminal_modes(OutputKey key) const {
    auto const at = terminals_.find(key);
    return at == terminals_.end() ? ScreenModes() : *at->second->modes;
}

/// Drains the terminal and closes it: a process that still has it open gets a hang-up.
void OutputCapture::end_terminal(OutputKey key) {
    auto const at = terminals_.find(key);
    if (at == terminals_.end()) return;
    std::unique_ptr<Pipe> terminal = std::move(at->second);
    terminals_.erase(at);
    // What the terminal was waiting for does not matter any more.
    if (std::exchange(terminal->is_paused, false)) std::erase(paused_, terminal.get());
    drain(*terminal);
    let_go(std::move(terminal));
}

/// Closes a pipe that was drained as far as there was room.
void OutputCapture::let_go(std::unique_ptr<Pipe> pipe) {
    if (pipe->is_ending) {
        pipe->is_leaving = true;
        return leaving_.push_back(std::move(pipe));
    }
    if (pipe->to->mid_line_of == pipe.get()) pipe->to->mid_line_of = nullptr;
    bool const is_wanted = pipe->to->is_wanted;
    DestinationKey const key = pipe->to->key;
    pipe.reset();
    if (!is_wanted) leave_unused(key);
}

/// Puts a pipe of an earlier version where it belongs. A version that does not say which ones leave names that one
/// first which its number has now.
void OutputCapture::take_place(std::unique_ptr<Pipe> pipe, bool is_leaving) {
    OutputKey const key = pipe->key;
    if (is_leaving || (pipe->modes && pipe->is_ending)) return let_go(std::move(pipe));
    if (pipe->modes) return void(terminals_.insert_or_assign(key, std::move(pipe)));
    Process& process = processes_[key];
    auto& mine = pipe->stream == OutputStream::out ? process.out : process.err;
    if (mine) return let_go(std::move(pipe));
    mine = std::move(pipe);
}

/// Marks the beginning of a run: earlier output does not belong to it.
void OutputCapture::begin_run(Pipe& pipe) { pipe.run_begin = pipe.to->program->ring.next_sequence(); }

std::uint64_t OutputCapture::run_begin(OutputKey key, OutputStream stream) const {
    constexpr std::uint64_t none = UINT64_MAX;
    Pipe const* pipe = nullptr;
    if (auto const terminal = terminals_.find(key); terminal != terminals_.end() && stream == OutputStream::out)
        pipe = terminal->second.get();
    else if (auto const at = processes_.find(key); at != processes_.end())
        pipe = stream == OutputStream::err ? at->second.err.get() : at->second.out.get();
    return pipe && !pipe->is_ending ? pipe->run_begin : none;
}

void OutputCapture::process_ended(OutputKey key) {
    end_terminal(key);
    auto const at = processes_.find(key);
    if (at == processes_.end()) return;
    for (Pipe* const pipe : {at->second.out.get(), at->second.err.get()}) {
        if (pipe) drain(*pipe);
    }
}

void OutputCapture::remove(OutputKey key) {
    end_terminal(key);
    auto const at = processes_.find(key);
    if (at == processes_.end()) return;
    Process process = std::move(at->second);
    processes_.erase(at);
    for (std::unique_ptr<Pipe>* const pipe : {&process.out, &process.err}) {
        if (!*pipe) continue;
        drain(**pipe);
        let_go(std::move(*pipe));
    }
}

// From a pipe.

void OutputCapture::read_ready(Pipe& pipe) {
    // Reads once, and then whatever is left: no writer keeps the loop for itself.
    if (pump(pipe) == Progress::blocked) pause(pipe);
    look_after(*pipe.to);
}

OutputCapture::Progress OutputCapture::pump(Pipe& pipe) {
    if (!pipe.held.empty()) {
        std::size_t const taken = take(pipe, pipe.held);
        pipe.held.erase(0, taken);
        if (!pipe.held.empty()) return Progress::blocked;
        pipe.held = {};
    }
    if (!take_begun(pipe)) return Progress::blocked;
    // What follows the end of the run is left for the next look: the pipe may be closed now.
    if (pipe.is_ending && pipe.until_end == 0) return end_run(pipe) ? Progress::again : Progress::blocked;
    if (pipe.to->output.when_full == config::WhenFull::block && !has_room(pipe, longest_piece))
        return Progress::blocked;
    if (pipe.modes && !pipe.is_ending && terminal_reader_ && terminal_reader_->is_to_wait(pipe.key))
        return Progress::blocked;
    auto const data = read_once(pipe);
    if (!data) return Progress::empty;
    pipe.held.assign(data->substr(take(pipe, *data)));
    return pipe.held.empty() && take_begun(pipe) ? Progress::again : Progress::blocked;
}

/// Returns what the program has written, borrowed until the next read; nullopt: nothing now.
std::optional<std::string_view> OutputCapture::read_once(Pipe& pipe) {
    std::size_t const wanted = pipe.is_ending ? std::min<std::uint64_t>(pipe.until_end, read_size) : read_size;
    ssize_t size = -1;
    do {
        size = ::read(pipe.read_end.get(), buffer_.get() + 1, wanted);
    } while (size < 0 && errno == EINTR);
    if (size <= 0) {
        pipe.until_end = 0;
        return std::nullopt;
    }
    time_ = microseconds_now();
    if (pipe.is_ending) pipe.until_end -= static_cast<std::uint64_t>(size);
    return pipe.modes ? shown_lines(pipe, static_cast<std::size_t>(size))
                      : std::string_view(buffer_.get() + 1, static_cast<std::size_t>(size));
}

/// The lines that the program has written, out of what was just read from its terminal. The terminal has put a CR
/// before each newline, see termios(3), ONLCR.
std::string_view OutputCapture::shown_lines(Pipe& pipe, std::size_t size) {
    char* begin = buffer_.get() + 1;
    pipe.modes->sent({begin, size});
    if (terminal_reader_) terminal_reader_->shown(pipe.key, {begin, size});
    char* const end = begin + size;
    if (std::exchange(pipe.has_return, false) && *begin != '\n') *--begin = '\r';
    char* to = begin;
    for (char* at = begin; at != end; ++at) {
        bool const is_last = at + 1 == end;
        if (*at == '\r' && is_last) pipe.has_return = true;
        if (*at != '\r' || (!is_last && at[1] != '\n')) *to++ = *at;
    }
    return {begin, to};
}

void OutputCapture::pause(Pipe& pipe) {
    pipe.watch = {};
    if (std::exchange(pipe.is_paused, true)) return;
    paused_.push_back(&pipe);
}

/// Ends the pause of a pipe. One that cannot be watched is paused again, and goes on with the next attempt.
void OutputCapture::go_on(Pipe& pipe) {
    pipe.is_paused = false;
    if (pipe.is_ending)
        finish_run(pipe);
    else if (pump(pipe) == Progress::blocked)
        pause(pipe);
    if (pipe.is_paused || pipe.watch || watch(pipe)) return;
    pause(pipe);
    retry_later();
}

void OutputCapture::resume() {
    struct Tried {  // they leave the list at once: one by one would be quadratic
        std::vector<Pipe*>& list;
        std::ptrdiff_t count = 0;
        ~Tried() { list.erase(list.begin(), list.begin() + count); }
    };
    {
        Tried tried{paused_};
        for (std::size_t const count = paused_.size(); static_cast<std::size_t>(tried.count) < count;) {
            Pipe& pipe = *paused_[static_cast<std::size_t>(tried.count++)];
            go_on(pipe);
            look_after(*pipe.to);
        }
    }
    for (auto const& [key, to] : destinations_) {
        if (to->dropped > 0) look_after(*to);  // nobody else would tell if it never writes again
    }
    std::vector<DestinationKey> left;
    for (auto const& pipe : leaving_) {
        if (!pipe->is_paused && !pipe->to->is_wanted) left.push_back(pipe->to->key);
    }
    std::erase_if(leaving_, [](auto const& pipe) { return !pipe->is_paused; });
    for (DestinationKey const& key : left)
        leave_unused(key);
}

/// The process has ended: its output is what the pipe holds now, even if others still write.
void OutputCapture::drain(Pipe& pipe) {
    int available = 0;
    if (pipe.modes)
        available = static_cast<int>(read_size);  // the terminal does not tell; it holds a quarter of that at most
    else if (!pipe.is_ending || pipe.until_end > 0)
        (void)::ioctl(pipe.read_end.get(), FIONREAD, &available);
    pipe.until_end = static_cast<std::uint64_t>(available);
    pipe.is_ending = true;
    if (!pipe.is_paused) finish_run(pipe);
}

void OutputCapture::finish_run(Pipe& pipe) {
    while (pipe.is_ending && !pipe.is_paused) {
        if (pump(pipe) == Progress::blocked) pause(pipe);
    }
    look_after(*pipe.to);
}

/// Ends a line that the process has left open. Returns whether there was room for it.
bool OutputCapture::end_run(Pipe& pipe) {
    while (!pipe.begun.empty()) {
        std::size_t const taken = pass(pipe, pipe.begun, true);
        pipe.begun.erase(0, taken);
        if (taken == 0) return false;
    }
    pipe.begun = {};
    if (std::exchange(pipe.is_dropping, false)) ++pipe.to->dropped;
    pipe.is_continued = false;
    if (std::exchange(pipe.is_ending, false)) begin_run(pipe);
    if (pipe.to->mid_line_of == &pipe) pipe.to->mid_line_of = nullptr;
    return true;
}

// Into lines.

/// Splits data into lines. Returns how much was taken: less than all when there is no room. A line that is too long or
/// complete may stay in `begun`.
std::size_t OutputCapture::take(Pipe& pipe, std::string_view data) {
    std::size_t taken = 0;
    while (taken < data.size()) {
        if (!take_begun(pipe)) return taken;
        std::string_view const rest = data.substr(taken);
        if (pipe.begun.empty()) {
            std::size_t const end = rest.rfind('\n');
            if (end == std::string_view::npos) {
                pipe.begun.assign(rest);
                taken += rest.size();
                continue;
            }
            std::size_t const passed = pass(pipe, rest.substr(0, end + 1), false);
            taken += passed;
            if (passed <= end) return taken;
        } else {
            std::size_t const end = rest.find('\n');
            std::string_view const part = rest.substr(0, end == std::string_view::npos ? end : end + 1);
            pipe.begun.append(part);
            taken += part.size();
        }
    }
    return taken;
}

/// Passes on `begun` if the line has ended or is too long. Returns whether there was room.
bool OutputCapture::take_begun(Pipe& pipe) {
    while (!pipe.begun.empty()) {
        bool const is_whole = pipe.begun.back() == '\n';
        if (!is_whole && pipe.begun.size() <= longest_line) return true;
        std::size_t const size = is_whole ? pipe.begun.size() : text::prefix(pipe.begun, longest_line).size();
        std::size_t const passed = pass(pipe, std::string_view(pipe.begun).substr(0, size), false);
        pipe.begun.erase(0, passed);
        if (passed < size) return false;
        if (pipe.begun.empty() && pipe.begun.capacity() > 4096) pipe.begun = {};
    }
    return true;
}

/// Passes on whole lines. The text behind the last newline is a piece of a line, or its end (`is_end`). Returns how
/// much there was room for.
std::size_t OutputCapture::pass(Pipe& pipe, std::string_view text, bool is_end) {
    Destination& to = *pipe.to;
    std::size_t const passed = to.output.kind == config::OutputKind::null ? text.size()
                               : to.is_unchanged()                        ? pass_raw(pipe, text, is_end)
                                                                          : pass_lines(pipe, text, is_end);
    if (passed == 0) return 0;
    LogChunk chunk{0, time_, pipe.key.process, pipe.stream};
    chunk.text = text.substr(0, passed);
    chunk.is_partial = chunk.text.back() != '\n' && !(is_end && passed == text.size());
    chunk.is_left_over = pipe.is_ending;
    Program& program = *to.program;
    if (!follower_ || program.is_gone) {
        program.ring.append(chunk);
    } else {
        program.ring.append(chunk, [this, &program](LogChunk const& one) { follower_(program.id, one); });
    }
    return passed;
}

/// Passes text on unchanged. If another pipe has left a line unended, that line is ended first.
std::size_t OutputCapture::pass_raw(Pipe& pipe, std::string_view text, bool is_end) {
    Destination& to = *pipe.to;
    std::size_t passed = 0;
    if (pipe.is_dropping) {
        std::size_t const end = text.find('\n');
        if (end == std::string_view::npos) return text.size();
        pipe.is_dropping = false;
        ++to.dropped;
        passed = end + 1;
    }
    std::string_view const rest = text.substr(passed);
    if (rest.empty()) return passed;
    if (!to.file->has_room(rest.size() + 1)) {
        if (to.output.when_full == config::WhenFull::block) return passed;
        to.dropped += static_cast<std::uint64_t>(std::ranges::count(rest, '\n'));
        pipe.is_dropping = rest.back() != '\n';
        return text.size();
    }
    if (to.file->is_mid_line() && to.mid_line_of != &pipe) to.file->write("\n");
    to.file->write(rest);
    to.mid_line_of = to.file->is_mid_line() && !is_end ? &pipe : nullptr;
    return text.size();
}

/// Passes text on line by line, in the destination's format.
std::size_t OutputCapture::pass_lines(Pipe& pipe, std::string_view text, bool is_end) {
    Destination& to = *pipe.to;
    std::string_view const time = time_text_.at(time_);
    std::size_t passed = 0;
    while (passed < text.size()) {
        std::string_view const rest = text.substr(passed);
        std::size_t const end = rest.find('\n');
        std::string_view const line = rest.substr(0, end);
        std::size_t const length = end == std::string_view::npos ? line.size() : end + 1;
        bool const has_end = end != std::string_view::npos || is_end;
        if (rendered_.size() >= read_size) push(pipe);
        if (!pipe.is_dropping && !has_room(pipe, rendered_.size() + longest_piece)) {
            push(pipe);
            if (!has_room(pipe, longest_piece)) {
                if (to.output.when_full == config::WhenFull::block) break;
                pipe.is_dropping = true;
            }
        }
        if (pipe.is_dropping) {
            passed += length;
            if (!has_end) continue;
            ++to.dropped;
            pipe.is_dropping = false;
            pipe.is_continued = false;
            continue;
        }
        std::string_view const part = text::prefix(line, longest_line);
        bool const is_last = part.size() == line.size() && has_end;
        std::size_t const taken = pipe.format.append(rendered_, part, {pipe.stream, time, pipe.is_continued, is_last});
        bool const is_whole = taken == line.size();
        passed += is_whole ? length : taken;
        pipe.is_continued = !is_whole || !has_end;
    }
    push(pipe);
    return passed;
}

void OutputCapture::push(Pipe& pipe) {
    if (rendered_.empty()) return;
    if (LogFile* const file = pipe.to->file.get()) {
        if (file->is_mid_line()) file->write("\n");
        file->write(rendered_);
    } else if (pipe.to->syslog) {
        pipe.to->syslog->write(rendered_);
    } else {
        console_of(pipe).append(rendered_);
        console_.flush();
    }
    rendered_.clear();
}

log::LogOutput& OutputCapture::console_of(Pipe const& pipe) const {
    config::OwnStream const own = pipe.to->output.own_stream;
    bool const is_out =
        own == config::OwnStream::none ? pipe.stream == OutputStream::out : own == config::OwnStream::out;
    return is_out ? console_.out() : console_.err();
}

bool OutputCapture::has_room(Pipe const& pipe, std::size_t bytes) {
    if (pipe.to->output.kind == config::OutputKind::null) return true;
    if (pipe.to->file) return pipe.to->file->has_room(bytes);
    if (pipe.to->syslog) return pipe.to->syslog->has_room(bytes);
    log::LogOutput const& output = console_of(pipe);
    if (!output.has_room(bytes + room_for_log)) console_.flush();  // perhaps only lines of the log are in the way
    return output.has_room(bytes + room_for_log);
}

// When something is in the way.

/// Reports what there is to report about a destination, and arranges for another attempt.
void OutputCapture::look_after(Destination& to) {
    Error const* const error = to.file ? &to.file->error() : to.syslog ? &to.syslog->error() : nullptr;
    int const code = error ? error->code : 0;
    if (code != 0 && code != to.told_error && callbacks_.failed) callbacks_.failed(to.program->name, *error);
    to.told_error = code;
    bool const waits = to.file ? to.file->pending() > 0 : to.syslog ? to.syslog->needs_retry() : console_.needs_retry();
    if (waits) retry_later();
    if (to.dropped > 0 && is_to_tell_dropped(to, waits)) tell_dropped(to);
}

/// Dropped lines are told when there is room again. A syslog daemon may never make any: then they are told now and
/// then.
bool OutputCapture::is_to_tell_dropped(Destination const& to, bool waits) const {
    if (to.file) return !waits;
    if (!to.syslog) return console_.out().has_room(2 * room_for_log);
    return to.syslog->has_room(2 * longest_piece) || std::chrono::steady_clock::now() >= to.next_telling;
}

void OutputCapture::tell_dropped(Destination& to) {
    to.next_telling = std::chrono::steady_clock::now() + between_tellings;
    if (callbacks_.dropped) callbacks_.dropped(to.program->name, std::exchange(to.dropped, 0));
}

void OutputCapture::retry_later() {
    if (!retry_timer_.is_armed()) retry_timer_.arm(std::chrono::steady_clock::now() + between_retries);
}

void OutputCapture::retry() {
    retry_timer_.disarm();
    for (auto const& [key, to] : destinations_) {
        if (to->file) to->file->flush();
        look_after(*to);
    }
    tend_leaving();
    tend_senders();
    if (console_.needs_retry()) console_.flush();
    if (!retry_timer_.is_armed() && (console_.needs_retry() || !leaving_.empty() || !waiting_.empty())) retry_later();
    resume();
}

void OutputCapture::reopen_files() {
    for (auto const& [key, to] : destinations_) {
        if (!to->file) continue;
        if (Result<> const opened = to->file->open(); !opened && callbacks_.failed)
            callbacks_.failed(to->program->name, opened.error());
        to->file->flush();
        look_after(*to);
    }
    resume();
}

void OutputCapture::let_writers_end() {
    for (auto const& [key, to] : destinations_)
        if (to->file) to->file->let_writer_end();
    for (auto const& destination : waiting_)
        destination->file->let_writer_end();
}

/// Whether a pipe waits for room that a writer may make.
bool OutputCapture::waits_for_writer() const {
    return std::ranges::any_of(paused_, [](Pipe const* pipe) {
        LogFile const* const file = pipe->to->file.get();
        return file && file->has_writer() && file->pending() > 0;
    });
}

void OutputCapture::flush(milliseconds limit) {
    auto const deadline = std::chrono::steady_clock::now() + limit;
    auto const left = [deadline] {
        auto const rest = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
        return std::max(rest, milliseconds(0));
    };
    while (true) {
        for (auto const& [key, to] : destinations_)
            if (to->file) to->file->flush();
        tend_leaving();
        resume();
        each_pipe([this](Pipe& pipe) { drain(pipe); });
        bool const waits_for_writer = this->waits_for_writer();
        if ((!console_.is_blocked() && !waits_for_writer) || left().count() == 0) break;
        if (waits_for_writer) finish_files(left);
        if (!console_.is_blocked()) continue;
        console_.drain(left());
        if (console_.is_blocked()) break;
    }
    finish_files(left);
    for (auto const& [key, to] : destinations_)
        if (to->file) tell_lost(*to->program, to->file->waiting(), 0);
    for (auto const& destination : waiting_)
        give_up(*destination);
    for (auto const& [address, sender] : senders_) {
        sender->drain(left());
        tell_unsent(*sender);
    }
    relay_.finish();
    for (auto const& [key, to] : destinations_)
        if (to->dropped > 0) tell_dropped(*to);
}

void OutputCapture::finish_files(std::function<milliseconds()> const& left) {
    for (auto const& [key, to] : destinations_)
        if (to->file) to->file->drain(left());
    for (auto const& destination : waiting_)
        destination->file->drain(left());
}

// For `ctl logs`.

std::uint64_t OutputCapture::read_log(std::uint32_t program, std::uint64_t sequence,
                                      std::function<bool(LogChunk const&)> const& each) const {
    Program const* const found = find(program);
    return found ? found->ring.read(sequence, each) : sequence;
}

OutputCapture::Kept OutputCapture::kept(std::uint32_t program) const {
    Program const* const found = find(program);
    return found ? Kept{found->ring.first_sequence(), found->ring.next_sequence()} : Kept{};
}

void OutputCapture::follow(std::function<void(std::uint32_t program, LogChunk const&)> on_chunk) {
    follower_ = std::move(on_chunk);
}

// For an upgrade.

OutputState OutputCapture::export_state() {
    OutputState state;
    for (auto const& [key, to] : destinations_) {
        OutputState::Program saved{key.program | (key.stream == OutputStream::err ? error_bit : 0), key.file};
        if (to->file) {
            to->file->flush();
            saved.waiting = to->file->waiting();
            saved.is_mid_line = to->file->is_mid_line();
            auto const [channel, sent] = to->file->handover();
            saved.writer = channel;
            saved.sent = channel < 0 ? 0 : sent;
        }
        saved.dropped = to->dropped;
        state.programs.push_back(std::move(saved));
    }
    for (auto const& [id, program] : programs_) {
        auto const shared = std::ranges::find_if(state.programs, [id = id](OutputState::Program const& one) {
            return one.program == id && one.file.empty();
        });
        OutputState::Program& saved = shared == state.programs.end() ? state.programs.emplace_back(id) : *shared;
        saved.ring = program->ring.save();
    }
    for (auto const& [address, sender] : senders_)
        if (sender->pending() > 0) state.syslog.push_back({address, std::string(sender->waiting())});
    each_pipe([&state](Pipe& pipe) {
        if (pipe.to->program->is_gone) return;  // in the next version its id may be another's
        OutputState::Pipe saved{pipe.key, pipe.stream, pipe.read_end.get(), pipe.write_end.get()};
        saved.begun = pipe.begun;
        saved.held = pipe.held;
        saved.is_continued = pipe.is_continued || pipe.to->mid_line_of == &pipe;
        saved.is_ending = pipe.is_ending;
        saved.until_end = pipe.until_end;
        saved.is_terminal = pipe.modes != nullptr;
        if (pipe.modes) saved.modes = pipe.modes->redo();
        saved.run_begin = pipe.run_begin;
        saved.is_leaving = pipe.is_leaving;
        saved.is_dropping = pipe.is_dropping;
        state.pipes.push_back(std::move(saved));
    });
    return state;
}

void OutputCapture::stop_reading() {
    each_pipe([](Pipe& pipe) { pipe.watch = {}; });
}

void OutputCapture::tell_waiting_as_lost() {
    tend_leaving();
    for (auto const& destination : waiting_)
        give_up(*destination);
    for (auto const& pipe : leaving_) {
        if (!pipe->to->program->is_gone) continue;
        while (pipe->until_end > 0) {  // as much as there was when its process ended
            if (auto const data = read_once(*pipe)) pipe->held += *data;
        }
        std::string lines = pipe->begun + pipe->held;
        if (!lines.empty() && lines.back() != '\n') lines += '\n';
        tell_lost(*pipe->to->program, lines, 0);
    }
}

void OutputCapture::resume_reading() {
    each_pipe([this](Pipe& pipe) {
        if (!pipe.watch && !pipe.is_paused) go_on(pipe);
    });
}

void OutputCapture::offer_writers(OutputState const& state) {
    for (OutputState::Program const& saved : state.programs) {
        if (saved.writer < 0) continue;
        OutputStream const stream = (saved.program & error_bit) != 0 ? OutputStream::err : OutputStream::out;
        (void)::fcntl(saved.writer, F_SETFD, FD_CLOEXEC);
        offered_[{saved.program & ~error_bit, stream, saved.file}] = {UniqueFd{saved.writer}, saved.sent};
    }
}

void OutputCapture::import_state(OutputState state) {
    for (OutputState::Pipe& saved : state.pipes) {
        UniqueFd read_end{saved.read_end};
        UniqueFd write_end{saved.write_end};
        if (!find(saved.key.program)) continue;
        (void)::fcntl(read_end.get(), F_SETFD, FD_CLOEXEC);
        (void)::fcntl(write_end.get(), F_SETFD, FD_CLOEXEC);
        auto pipe = make_pipe(saved.key, saved.stream, destination_again(saved.key, saved.stream));
        pipe->read_end = std::move(read_end);
        pipe->write_end = std::move(write_end);
        pipe->begun = std::move(saved.begun);
        pipe->held = std::move(saved.held);
        bool const is_unchanged = pipe->to->is_unchanged();
        pipe->is_continued = saved.is_continued && !is_unchanged;
        if (saved.is_continued && is_unchanged) pipe->to->mid_line_of = pipe.get();
        pipe->is_dropping = saved.is_dropping;
        pipe->is_ending = saved.is_ending;
        pipe->until_end = saved.until_end;
        pipe->run_begin = saved.run_begin;
        if (saved.is_terminal) {
            pipe->modes = std::make_unique<ScreenModes>();
            pipe->modes->sent(saved.modes);
        }
        take_place(std::move(pipe), saved.is_leaving);
    }
    for (OutputState::Program& saved : state.programs) {
        Program* const program = find(saved.program & ~error_bit);
        if (!program) continue;
        if (!saved.ring.empty()) program->ring.load(saved.ring);
        OutputStream const stream = (saved.program & error_bit) != 0 ? OutputStream::err : OutputStream::out;
        auto const to = known({program->id, stream, saved.file});
        if (!to) {
            tell_lost(*program, saved.waiting, saved.dropped);
            continue;
        }
        if (to->file)
            to->file->restore(saved.waiting, saved.is_mid_line);
        else
            tell_lost(*program, saved.waiting, 0);  // the file could not be opened again
        to->dropped = saved.dropped;
    }
    offered_.clear();
    for (OutputState::Syslog& saved : state.syslog) {
        config::Output output;
        output.syslog = config::Syslog{.address = std::move(saved.address)};
        sender_for(output)->write(saved.waiting);
    }
    paused_.reserve(2 * (2 * processes_.size() + terminals_.size() + leaving_.size()));
    resume_reading();
    resume();  // lets go of pipes that are empty now
    for (auto const& [key, to] : destinations_)
        look_after(*to);  // what waits for room is tried again, even if nobody writes
    tend_senders();
}

}  // namespace triton::launcher
