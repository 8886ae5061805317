#include "launcher/rooms/channels.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ranges>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/control/control_backend.h"
#include "launcher/output/rotating_file.h"
#include "launcher/terminal/screen_modes.h"

namespace triton::launcher {

namespace {

NotifyKey notify_key(ProcessId id) {
    return {static_cast<std::uint32_t>(id.program), static_cast<std::uint32_t>(id.number)};
}
OutputKey output_key(ProcessId id) {
    return {static_cast<std::uint32_t>(id.program), static_cast<std::uint32_t>(id.number)};
}
ProcessId process_of(NotifyKey key) { return {ProgramId{key.program}, ProcessNumber{key.process}}; }

std::vector<SocketRequest> all_sockets(Plans const& plans) {
    std::vector<SocketRequest> all;
    for (auto const& plan : plans)
        all.insert(all.end(), plan->sockets.begin(), plan->sockets.end());
    return all;
}

/// The name of the group of a helper command, below that of its process: what the command leaves behind can be told
/// from what the process has started.
std::string group_of(Helper helper) {
    return std::string(process::Cgroup::apart) + std::to_string(static_cast<unsigned>(helper));
}

TerminalKey terminal_key(OutputKey key) { return {key.program, key.process}; }

/// Where captured output goes. The output of a terminal is captured in any case, because somebody has to read it.
config::Output captured_output(ProgramPlan const& plan) {
    config::Output output = plan.settings->output;
    if (plan.needs.has_terminal && output.kind == config::OutputKind::inherit)
        output = {.kind = config::OutputKind::captured, .format = config::OutputFormat::raw};
    return output;
}

std::unexpected<process::SpawnError> failed(process::SpawnStage stage, Error const& error) {
    return std::unexpected(process::SpawnError{stage, error.code != 0 ? error.code : EIO});
}

}  // namespace

Channels::Channels(LaunchOptions const& options, Sys& sys, EventLoop& loop, Console& console, log::Log& log,
                   ProgramTable& table, Supervisor const& supervisor, EventSink& events, ControlLine const& line)
    : options_(options),
      sys_(sys),
      loop_(loop),
      console_(console),
      log_(log),
      table_(table),
      supervisor_(supervisor),
      events_(events),
      line_(line),
      syslog_relay_(loop, [this](std::uint64_t messages) {
          log_.write(log::LogLevel::warning, "syslog-lost",
                     std::to_string(messages) + " messages for syslog lost: the agent did not get rid of them",
                     {{"messages", static_cast<std::int64_t>(messages)}});
      }) {}

// Before a configuration is accepted.

void Channels::set_path_probe(PathProbe& probe) {
    path_probe_ = &probe;
    sockets_.set_paths(
        {.may_touch = [&probe](std::string const& path, auto const& look) { return probe.may_touch(path, look); },
         .change = [&probe](std::string const& path, auto const& change) { probe.change(path, change); }});
}

void Channels::open_groups() {
    if (std::exchange(has_looked_for_groups_, true)) return;
    if (options_.cgroup == CgroupMode::none) {
        groups_error_ = "control groups are turned off (--cgroup none)";
        return;
    }
    auto tree = process::CgroupTree::create();
    if (tree) {
        groups_ = std::move(*tree);
        return;
    }
    groups_error_ = tree.error().text();
    log_.write(log::LogLevel::debug, "cgroup-unavailable", "no control groups for processes: " + groups_error_,
               {{"error", std::string_view(groups_error_)}});
}

void Channels::open() {
    if (output_) return;
    // While a configuration is tried its programs are not in the table yet.
    output_ = std::make_unique<OutputCapture>(
        loop_, console_, syslog_relay_,
        OutputCapture::Callbacks{
            .dropped =
                [this](std::string_view name, std::uint64_t lines) {
                    log_.write(
                        log::LogLevel::warning, "output-dropped",
                        std::to_string(lines) + " lines of " + std::string(name) + " dropped: the reader was too slow",
                        {{"program", name}, {"lines", static_cast<std::int64_t>(lines)}});
                },
            .failed =
                [this](std::string_view name, Error const& error) {
                    log_.write(log::LogLevel::error, "output-failed",
                               "output of " + std::string(name) + ": " + error.text(),
                               {{"program", name}, {"error", std::string_view(error.text())}});
                },
            .lost =
                [this](std::string_view name, std::uint64_t lines) {
                    log_.write(
                        log::LogLevel::warning, "output-lost",
                        std::to_string(lines) + " lines of " + std::string(name) + " lost: its file did not take them",
                        {{"program", name}, {"lines", static_cast<std::int64_t>(lines)}});
                },
            .unsent =
                [this](std::string_view address, std::uint64_t messages) {
                    log_.write(
                        log::LogLevel::warning, "syslog-lost",
                        std::to_string(messages) + " messages for syslog lost: they waited for " + std::string(address),
                        {{"address", address}, {"messages", static_cast<std::int64_t>(messages)}});
                },
            .start_writer =
                [this](LogFile::Settings const& settings) {
                    return start_writer(start_companion_, settings.path, [&](int channel) {
                        RotatingFile file(settings);
                        write_for_other(channel, file);
                    });
                },
            .may_touch =
                [this](std::string const& path, std::function<void()> const& look) {
                    return !path_probe_ || path_probe_->may_touch(path, look);
                }});
    output_->read_terminals_for(*this);
    output_->follow([this](std::uint32_t program, LogChunk const& chunk) { tell_output(program, chunk); });
    lines_ = std::make_unique<LineWatches>(
        *output_,
        LineWatches::Calls{
            .has_room = [this] { return line_.has_room_for_lines(); },
            .send = [this](std::uint64_t id, std::span<std::string_view const> lines) { line_.send_lines(id, lines); },
            .missed = [this](OutputKey key) { tell_missed(key); }});
    notify_ = std::make_unique<NotifyReceiver>(
        loop_, quarantine_, notify_directory(),
        NotifyReceiver::Callbacks{
            .is_allowed = [this](NotifyKey key, NotifySender sender) { return may_notify(key, sender); },
            .notified = [this](NotifyKey key, Notification const& what) { notified(key, what); },
            .pipe_ready =
                [this](NotifyKey key, bool is_ready) {
                    if (is_ready) events_.dispatch(event::Ready{process_of(key)});
                }});
}

/// The directory of the control socket: that place is ours. Without such a socket, names in the file system are not
/// needed.
std::string Channels::notify_directory() const {
    std::size_t const slash = options_.control_socket.rfind('/');
    return slash == std::string::npos || slash == 0 ? "" : options_.control_socket.substr(0, slash) + "/notify";
}

/// Whether the groups can have the limits that the configuration asks for.
Result<> Channels::check_groups(Plans const& plans) const {
    for (auto const& plan : plans) {
        if (!plan->settings->cgroup) continue;
        std::string const place = "programs." + plan->settings->name + ".cgroup: ";
        if (!groups_) return fail(place + groups_error_);
        if (Result<> const possible = groups_->check(*plan->settings->cgroup); !possible)
            return fail(place + possible.error().text());
    }
    return {};
}

/// Whether orphans of programs that go into the background come to us, and can be told from what others have started.
Result<> Channels::check_pid_files(Plans const& plans) const {
    for (auto const& plan : plans) {
        if (!plan->policy.forks) continue;
        std::string const place = "programs." + plan->settings->name + ".pidFile: ";
        if (!sys_.adopts_orphans())
            return fail(place +
                        "the launcher is neither PID 1 nor a subreaper: what goes into the background would be "
                        "somebody else's child");
        if (groups_ || !plan->start) continue;
        auto const is_of_mark = [](process::ResourceLimit const& limit) {
            return limit.resource == RLIMIT_RTTIME || limit.resource == RLIMIT_LOCKS;
        };
        auto const& limits = plan->start->attributes().limits;
        auto const taken = std::ranges::find_if(limits, is_of_mark);
        if (taken != limits.end())
            return fail(place + "whose a process is cannot be told: there are no control groups, and limits." +
                        (taken->resource == RLIMIT_RTTIME ? "rttime" : "locks") + " takes the place of the mark");
    }
    return {};
}

Result<> Channels::check_null_device(Plans const& plans) {
    for (auto const& plan : plans) {
        if (plan->needs.output != StreamTarget::null && plan->needs.error != StreamTarget::null) continue;
        if (auto const device = null_device(); !device)
            return fail("programs." + plan->settings->name + ".output: " + device.error().text());
    }
    return {};
}

Result<> Channels::check_terminals(Plans const& plans) const {
    for (auto const& plan : plans) {
        if (!plan->needs.has_terminal) continue;
        Result<> const found = check_pseudo_terminal();
        if (!found) return fail("programs." + plan->settings->name + ".tty: " + found.error().text());
        break;  // if one can be made, more can
    }
    return {};
}

Result<> Channels::prepare(Plans const& wanted, std::vector<ProgramId> const& ids, Plans const& current) {
    TRY(check_groups(wanted));
    TRY(check_pid_files(wanted));
    TRY(check_null_device(wanted));
    TRY(check_terminals(wanted));
    if (Result<> opened = sockets_.open(all_sockets(wanted)); !opened) {
        sockets_.go_back_to(all_sockets(current));
        return opened;
    }
    std::vector<std::pair<std::uint32_t, std::optional<OutputCapture::Settings>>> before;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        config::Program const& program = wanted[i]->settings;
        if (wanted[i]->needs.output != StreamTarget::captured) continue;
        before.emplace_back(static_cast<std::uint32_t>(ids[i]), output_->settings(static_cast<std::uint32_t>(ids[i])));
        Result<> const opened = output_->configure(static_cast<std::uint32_t>(ids[i]), program.name,
                                                   captured_output(*wanted[i]), wanted[i]->policy.count);
        if (opened) continue;
        for (auto const& [id, settings] : before)
            restore_output(id, settings);
        sockets_.go_back_to(all_sockets(current));
        return fail("programs." + program.name + ".output: " + opened.error().text());
    }
    return {};
}

/// A program whose output is not captured any more may have processes that go on writing to us.
void Channels::restore_output(std::uint32_t program, std::optional<OutputCapture::Settings> const& before) {
    if (before) {
        // Its files were open a moment ago.
        (void)output_->configure(program, before->name, before->output, before->count);
    } else {
        output_->forget(program);
    }
}

void Channels::close_sockets_but(Plans const& plans) { sockets_.keep_only(all_sockets(plans)); }

std::vector<int> Channels::listening(ProgramPlan const& plan) const {
    std::vector<int> descriptors;
    for (SocketRequest const& socket : plan.sockets)
        descriptors.push_back(sockets_.fd(socket.address));
    return descriptors;
}

void Channels::apply_limits(ProgramTable::Entry& program) {
    for (ProgramTable::Instance& instance : program.instances) {
        if (!instance.cgroup) continue;
        auto const done = instance.cgroup->set_limits(program.plan->needs.limits.value_or(process::CgroupLimits{}));
        if (done) continue;
        std::string const reason = done.error().text();
        log_.write(log::LogLevel::warning, "limits-not-set", reason,
                   {{"program", std::string_view(program.name)}, {"error", std::string_view(reason)}});
    }
}

// For each process.

/// Opens the null device. What is to go nowhere never goes to our own output instead. Errors: "cannot open /dev/null:
/// ..".
Result<int> Channels::null_device() {
    if (!null_device_) null_device_ = TRY(sys_.open_null_device());
    return null_device_.get();
}

/// Returns an input that is at its end: where there is no null device, a pipe without a writer.
Result<int> Channels::empty_input() {
    if (auto const device = null_device()) return *device;
    if (!ended_pipe_) {
        int ends[2] = {-1, -1};
        if (::pipe2(ends, O_CLOEXEC) != 0) return fail(errno, "make a pipe");
        ended_pipe_ = UniqueFd{ends[0]};
        UniqueFd const writer{ends[1]};
    }
    return ended_pipe_.get();
}

/// Gives the pipes to the process's user, who could not open /dev/stdout otherwise: that looks at the pipe's owner.
void Channels::give_to_user(OutputCapture::WriteEnds const& ends, ProgramPlan const& plan) {
    process::Identity const& identity = plan.start->attributes().identity;
    if (!identity.user && !identity.group) return;
    uid_t const user = identity.user.value_or(static_cast<uid_t>(-1));
    gid_t const group = identity.group.value_or(static_cast<gid_t>(-1));
    // Without the right to give it away we have no right to start somebody else either.
    (void)::fchown(ends.out, user, group);
    if (ends.err >= 0 && ends.err != ends.out) (void)::fchown(ends.err, user, group);
}

/// The write ends of a process's pipes; -1 for a standard error that goes where the launcher's does.
Result<OutputCapture::WriteEnds> Channels::captured_ends(ProcessId id, ProgramPlan const& plan) {
    auto ends = TRY(output_->write_ends(output_key(id)));
    if (plan.start) give_to_user(ends, plan);
    if (plan.needs.error == StreamTarget::null) ends.err = TRY(null_device());
    return ends;
}

/// Prepares what a start hands on; a program of the design's form needs none of it.
std::expected<Channels::Hands, process::SpawnError> Channels::for_start(ProcessId id) {
    ProgramTable::Entry& program = table_[id.program];
    ProgramPlan const& plan = *program.plan;
    StartNeeds const& needs = plan.needs;
    drop_former_output(id);
    Hands hands;
    if (needs.is_nothing() && !groups_) return hands;
    if (needs.has_null_input) {
        auto const input = empty_input();
        if (!input) return failed(process::SpawnStage::descriptors, input.error());
        hands.files.in = *input;
    }
    if (needs.input_file) hands.files.input = &*needs.input_file;
    if (needs.has_piped_input) {
        auto const ends = links_.ends(program.name);
        if (!ends) return failed(process::SpawnStage::descriptors, ends.error());
        hands.files.in = ends->read;
    }
    hands.files.listen = program.listen;
    switch (needs.output) {
        case StreamTarget::inherited: break;
        case StreamTarget::console: hands.files.out = options_.log.console; break;
        case StreamTarget::null: {
            auto const device = null_device();
            if (!device) return failed(process::SpawnStage::descriptors, device.error());
            hands.files.out = hands.files.err = *device;
            break;
        }
        case StreamTarget::program:
            if (Result<> const added = add_link(plan, hands.files); !added)
                return failed(process::SpawnStage::descriptors, added.error());
            break;
        case StreamTarget::captured: {
            if (needs.has_terminal) {
                if (Result<> const opened = open_terminal(id, plan, hands.files); !opened)
                    return failed(process::SpawnStage::terminal, opened.error());
                break;
            }
            auto const ends = captured_ends(id, plan);
            if (!ends) return failed(process::SpawnStage::descriptors, ends.error());
            hands.files.out = ends->out;
            hands.files.err = ends->err;
            break;
        }
    }
    if (Result<> const added = add_readiness(id, plan, hands); !added)
        return failed(process::SpawnStage::descriptors, added.error());
    if (groups_) {
        auto group = prepare_group(id, program);
        if (!group) return failed(process::SpawnStage::cgroup, group.error());
        hands.group = std::move(*group);
        hands.files.cgroup = hands.group.get();
    }
    return hands;
}

/// Opens a new terminal for each start: changes that the process before has made to its own must not remain.
Result<> Channels::open_terminal(ProcessId id, ProgramPlan const& plan, process::StartFiles& files) {
    config::Tty const size = plan.settings->tty.value_or(config::Tty{});
    uid_t const owner = plan.user();
    OutputKey const key = output_key(id);
    files.in = files.out = files.err = TRY(output_->open_terminal(key, {size.rows, size.columns}, owner));
    files.has_terminal = true;
    if (attachments_) attachments_->opened(terminal_key(key), output_->terminal(key));
    return {};
}

/// Closes the terminal that was opened for the start. Whoever is attached has been told of it.
void Channels::start_failed(ProcessId id) {
    OutputKey const key = output_key(id);
    if (!output_ || output_->terminal(key) < 0) return;
    output_->process_ended(key);
    if (attachments_) attachments_->ended(terminal_key(key), 127 << 8);  // as of a child that failed before its execve
}

/// Gives the process a pipe to another program as its output.
Result<> Channels::add_link(ProgramPlan const& plan, process::StartFiles& files) {
    auto const ends = TRY(links_.ends(plan.needs.output_to));
    files.out = ends.write;
    if (plan.needs.error == StreamTarget::program) files.err = ends.write;
    if (plan.needs.error == StreamTarget::null) files.err = TRY(null_device());
    return {};
}

/// It reads no longer what programs write that were started before they had another output by their configuration.
void Channels::abandon_link(std::string const& reader) {
    auto const has_writers = links_.abandon(reader);
    if (has_writers && !*has_writers) return;
    std::string const error = has_writers
                                  ? "it reads no longer; what programs still write to it, as those from before a new "
                                    "configuration do, is lost until they are restarted"
                                  : has_writers.error().text() + "; programs that still write to it will wait";
    log_.write(log::LogLevel::warning, "output-failed", "output to " + reader + ": " + error,
               {{"program", std::string_view(reader)}, {"error", std::string_view(error)}});
}

void Channels::end_inputs() {
    if (!links_.is_writing_open()) return;
    std::vector<std::string_view> written;
    for (std::size_t at = 0; at < table_.size(); ++at) {
        ProgramId const id{static_cast<std::uint32_t>(at)};
        if (!table_[id].plan || table_[id].plan->needs.output_to.empty()) continue;
        for (std::uint32_t number = 1; number <= supervisor_.size(id); ++number) {
            if (supervisor_.state({id, ProcessNumber{number}}) == ProcessState::down) continue;
            written.push_back(table_[id].plan->needs.output_to);
            break;
        }
    }
    std::ranges::sort(written);
    links_.close_unwritten(written);
}

Result<> Channels::add_readiness(ProcessId id, ProgramPlan const& plan, Hands& hands) {
    switch (plan.needs.readiness) {
        case ReadyChannel::none: break;
        case ReadyChannel::socket:
            hands.files.notify_socket = TRY(notify_->open_socket(notify_key(id), plan.needs.notify));
            break;
        case ReadyChannel::pipe:
            hands.ready = TRY(notify_->open_pipe(notify_key(id)));
            hands.files.ready = hands.ready.get();
            break;
    }
    return {};
}

/// The directory of the process's control group, with the limits that are configured now.
Result<UniqueFd> Channels::prepare_group(ProcessId id, ProgramTable::Entry& program) {
    ProgramTable::Instance& mine = program.instance(id.number);
    if (!mine.cgroup) mine.cgroup = TRY(groups_->make_group(program.name, static_cast<std::uint32_t>(id.number)));
    TRY(mine.cgroup->set_limits(program.plan->needs.limits.value_or(process::CgroupLimits{})));
    mine.oom_kills = mine.cgroup->oom_kills().value_or(0);
    return mine.cgroup->directory();
}

Result<Channels::Hands> Channels::for_command(ProcessId id, Helper helper) {
    bool const is_probe = helper == Helper::readiness || check_of(helper);
    Hands hands;
    process::StartFiles& files = hands.files;
    if (groups_) {
        ProgramTable::Instance const& mine = table_[id.program].instance(id.number);
        if (!mine.cgroup) (void)TRY(prepare_group(id, table_[id.program]));  // it has yet to be started
        hands.group = TRY(mine.cgroup->directory_below(group_of(helper)));
        files.cgroup = hands.group.get();
    }
    files.in = TRY(empty_input());
    // a probe runs again and again, and its exit code says all there is
    if (is_probe) files.out = files.err = TRY(null_device());
    if (!is_probe && table_[id.program].is_captured()) {
        auto const ends = TRY(captured_ends(id, *table_[id.program].plan));
        files.out = ends.out;
        files.err = ends.err;
    }
    ProgramPlan const* const plan = table_[id.program].plan.get();
    if (!is_probe && plan && plan->needs.output == StreamTarget::program) TRY(add_link(*plan, files));
    return hands;
}

void Channels::command_ended(ProcessId id, Helper helper) {
    ProgramTable::Instance const* const mine = table_.find_instance(id);
    if (mine && mine->cgroup) (void)mine->cgroup->kill_below(group_of(helper));
}

/// What an earlier configuration has captured of a process, when the one of today does not: the next process writes
/// elsewhere.
void Channels::drop_former_output(ProcessId id) {
    if (!output_ || table_[id.program].is_captured()) return;
    output_->remove(output_key(id));
    auto const program = static_cast<std::uint32_t>(id.program);
    if (!output_->has_pipes(program)) output_->forget(program);
}

void Channels::process_ended(ProcessId id, int status) {
    ProgramTable::Entry& program = table_[id.program];
    if (program.name.empty()) return;
    if (program.plan && program.plan->settings->readiness) notify_->process_ended(notify_key(id));
    OutputKey const key = output_key(id);
    if (output_) output_->process_ended(key);
    drop_former_output(id);
    if (attachments_) attachments_->ended(terminal_key(key), status);
    // Only the first can have been the reader: one that has others beside it is none.
    bool const may_have_read = id.number == ProcessNumber{1};
    if (may_have_read && program.plan && !program.plan->needs.has_piped_input) abandon_link(program.name);
    if (ProgramTable::Instance const* const mine = table_.find_instance(id); mine && !mine->status.empty())
        program.instance(id.number).status.clear();
}

bool Channels::has_died_of_memory(ProcessId id) {
    ProgramTable::Instance const* const mine = table_.find_instance(id);
    if (!mine || !mine->cgroup) return false;
    ProgramTable::Instance& known = table_[id.program].instance(id.number);
    std::uint64_t const before = std::exchange(known.oom_kills, known.cgroup->oom_kills().value_or(known.oom_kills));
    known.was_oom_killed = known.oom_kills > before;
    return known.was_oom_killed;
}

void Channels::kill_group(ProcessId id) {
    ProgramTable::Instance const* const mine = table_.find_instance(id);
    if (mine && mine->cgroup) (void)mine->cgroup->kill();
}

bool Channels::has_group_members(ProcessId id) const {
    ProgramTable::Instance const* const mine = table_.find_instance(id);
    return mine && mine->cgroup && mine->cgroup->has_processes();
}

bool Channels::is_in_group(ProcessId id, pid_t pid) const {
    ProgramTable::Instance const* const mine = table_.find_instance(id);
    return mine && mine->cgroup && mine->cgroup->contains(pid);
}

bool Channels::is_group_populated(ProcessId id) const {
    ProgramTable::Instance const* const mine = table_.find_instance(id);
    return mine && mine->cgroup && mine->cgroup->is_populated().value_or(false);
}

process::SignalledGroup Channels::signal_group(ProcessId id, pid_t pid, int signo) {
    ProgramTable::Instance const* const mine = table_.find_instance(id);
    return mine && mine->cgroup ? mine->cgroup->signal(signo, pid).value_or(process::SignalledGroup{})
                                : process::SignalledGroup{};
}

void Channels::close(ProcessId id) {
    ProgramTable::Entry& program = table_[id.program];
    notify_->close(notify_key(id));
    if (output_) output_->remove(output_key(id));
    if (attachments_) attachments_->removed(terminal_key(output_key(id)));
    auto const number = static_cast<std::size_t>(id.number);
    if (number <= program.instances.size()) program.instances[number - 1] = {};
}

void Channels::forget(ProgramId id) {
    output_->forget(static_cast<std::uint32_t>(id));
    if (attachments_) attachments_->forget(static_cast<std::uint32_t>(id));
    abandon_link(table_[id].name);
}

// Who sits at a terminal.

Result<> Channels::check_attachment(ProcessId id, bool follows) {
    ProgramTable::Entry const& program = table_[id.program];
    int const master = output_ ? output_->terminal(output_key(id)) : -1;
    std::string const name =
        std::string(shown_name(program.name)) + ":" + std::to_string(static_cast<std::uint32_t>(id.number));
    if (master < 0 && !(program.plan && program.plan->needs.has_terminal))
        return fail(ErrorKind::refused, name + " has no terminal: its configuration does not have \"tty\"");
    if (master < 0 && !follows)
        return fail(ErrorKind::refused, name + " does not run; with --follow you are attached when it starts");
    if (attachments_ && !attachments_->make_place())
        return fail(ErrorKind::busy, "too many are attached to terminals already");
    return {};
}

/// The last lines that are kept of a process, as a terminal shows them.
std::string Channels::last_lines(OutputKey key, std::uint32_t lines) const {
    if (lines == 0) return {};
    std::string text;
    (void)output_->read_log(key.program, 0, [&](LogChunk const& chunk) {
        if (chunk.process == key.process) text += chunk.text;
        return true;
    });
    if (!text.empty() && text.back() != '\n') text += '\n';
    std::size_t begin = text.size();
    for (std::uint32_t left = lines; left > 0 && begin > 0; --left) {
        std::size_t const newline = begin < 2 ? std::string::npos : text.rfind('\n', begin - 2);
        begin = newline == std::string::npos ? 0 : newline + 1;
    }
    std::string shown;
    for (char const c : std::string_view(text).substr(begin))
        shown.append(c == '\n' ? "\r\n" : std::string_view(&c, 1));
    return shown;
}

/// What somebody sees first who is attached: lines, and the one that is not ended yet; on a terminal that is switched
/// as the program takes its own to be, whose beginning nobody has seen who comes late.
std::string Channels::first_view(OutputKey key, std::uint32_t lines) const {
    constexpr std::size_t most_of_begun = 4096;  // of a program that draws, and never ends a line
    ScreenModes const modes = output_->terminal_modes(key);
    std::string shown = modes.screen() + last_lines(key, lines);
    ScreenModes as_shown;
    auto const switch_back = [&] {
        std::string const switches = as_shown.undo() + modes.redo();
        as_shown.sent(switches);
        shown += switches;
    };
    as_shown.sent(shown);
    switch_back();
    std::string_view const begun = lines > 0 ? output_->begun_line(key) : std::string_view();
    std::string_view const its_end = begun.substr(begun.size() - std::min(begun.size(), most_of_begun));
    as_shown.sent(its_end);
    shown += its_end;
    if (as_shown.redo() != modes.redo()) switch_back();  // it holds switches of its own, or is cut off among them
    return shown;
}

void Channels::attach(ProcessId id, std::uint32_t lines, Attachments::Client client) {
    if (!attachments_) {
        attachments_ = std::make_unique<Attachments>(
            loop_, Attachments::Callbacks{.close = [this](UniqueFd fd) { quarantine_.close(std::move(fd)); },
                                          .has_room = [this] { output_->resume(); }});
    }
    OutputKey const key = output_key(id);
    attachments_->add(terminal_key(key), output_->terminal(key), std::move(client), first_view(key, lines));
}

void Channels::send_attached_away() {
    if (attachments_) attachments_->upgrading();
}

void Channels::shown(OutputKey key, std::string_view bytes) {
    if (attachments_) attachments_->written(terminal_key(key), bytes);
}

bool Channels::is_to_wait(OutputKey key) const { return attachments_ && attachments_->is_behind(terminal_key(key)); }

// What processes say.

void Channels::tell_missed(OutputKey key) {
    std::string_view const name = table_.name(key.program);
    log_.write(log::LogLevel::warning, "readiness-lines-missed",
               "lines of " + std::string(name) + "[" + std::to_string(key.process) +
                   "] have come faster than the agent has looked at them: one that says that it is ready may be among "
                   "those that are gone",
               {{"program", name}, {"process", static_cast<std::int64_t>(key.process)}});
}

void Channels::tell_output(std::uint32_t program, LogChunk const& chunk) {
    lines_->take(program, chunk);
    if (!line_.has_followers()) return;
    for_each_output_line(chunk, [&](OutputLine const& line) { line_.publish_output(table_.name(program), line); });
}

/// Whether the sender may speak for this process. Source: systemd.service(5), NotifyAccess=.
bool Channels::may_notify(NotifyKey key, NotifySender sender) const {
    ProcessId const id = process_of(key);
    if (key.program >= table_.size() || !table_[id.program].plan) return false;
    ProgramPlan const& plan = *table_[id.program].plan;
    ProcessView const view = supervisor_.view(id);
    if (sender.pid <= 0) return false;
    if (view.is_main_awaited && is_own_ && is_own_(id, sender.pid)) return true;
    auto const pid = view.pid;
    if (!pid) return false;
    if (static_cast<pid_t>(*pid) == sender.pid) return true;
    auto const& readiness = plan.settings->readiness;
    if (!readiness || readiness->notify_access != config::NotifyAccess::all) return false;
    ProgramTable::Instance const* const mine = table_.find_instance(id);
    if (mine && mine->cgroup && mine->cgroup->contains(sender.pid)) return true;
    pid_t const group = sys_.group_of(sender.pid);
    // The sender is gone already, as a script's helper that speaks for it may be. Only its user is still known, so no
    // other program may have that user: it could speak for this one.
    if (group < 0) return plan.start && sender.user == plan.user() && is_only_program_of(id.program, sender.user);
    return group == static_cast<pid_t>(*pid);
}

bool Channels::is_only_program_of(ProgramId program, uid_t user) const {
    for (std::uint32_t at = 0; at < table_.size(); ++at) {
        ProgramTable::Entry const& other = table_[ProgramId{at}];
        if (ProgramId{at} != program && other.plan && other.plan->start && other.plan->user() == user) return false;
    }
    return true;
}

void Channels::notified(NotifyKey key, Notification const& notification) {
    ProcessId const id = process_of(key);
    if (notification.status) {
        table_[id.program].instance(id.number).status = *notification.status;
        line_.state_changed();
    }
    if (notification.extend_timeout) events_.dispatch(event::ExtendTimeout{id, *notification.extend_timeout});
    if (notification.is_watchdog_ping) events_.dispatch(event::WatchdogPing{id});
    if (notification.is_ready) events_.dispatch(event::Ready{id});
    if (notification.is_watchdog_trigger)
        events_.dispatch(event::Command{event::Verb::signal, id.program, id.number, SIGABRT});
}

// For an upgrade.

void Channels::save(UpgradeState& state) const {
    state.sockets = sockets_.export_state();
    state.links = links_.export_state();
    state.syslog_relay = syslog_relay_.export_state();
    if (notify_) state.notify = notify_->export_state();
    if (groups_) state.cgroup_tree = groups_->path();
    if (!output_) return;
    state.output = output_->export_state();
    // Where no program waits for a line, the beginning of a run is left out: so an older version can take over.
    for (OutputState::Pipe& pipe : state.output.pipes) {
        auto const& plan = table_[ProgramId{pipe.key.program}].plan;
        if (!plan || !plan->settings->readiness || plan->settings->readiness->type != config::ReadinessType::log)
            pipe.run_begin = 0;
    }
}

void Channels::restore_groups(UpgradeState const& state) {
    if (state.cgroup_tree.empty()) return;
    has_looked_for_groups_ = true;
    if (auto tree = process::CgroupTree::open(state.cgroup_tree)) groups_ = std::move(*tree);
}

void Channels::capture_again(ProgramId id) {
    ProgramTable::Entry const& program = table_[id];
    auto const at = static_cast<std::uint32_t>(id);
    config::Output const wanted = captured_output(*program.plan);
    Result<> const configured = output_->configure(at, program.name, wanted, program.plan->policy.count);
    if (configured) return;
    log_.write(log::LogLevel::error, "output-failed", "output of " + program.name + ": " + configured.error().text(),
               {{"program", std::string_view(program.name)}, {"error", std::string_view(configured.error().text())}});
    without_file_.push_back(id);
    config::Output plain{.kind = wanted.kind, .when_full = wanted.when_full};
    for (config::Output const& error : wanted.error)
        plain.error.push_back({.kind = error.kind, .when_full = error.when_full});
    (void)output_->configure(at, program.name, plain);  // opens nothing
}

void Channels::reopen_files() {
    if (!output_) return;
    for (ProgramId const id : std::exchange(without_file_, {})) {
        if (table_[id].is_captured()) capture_again(id);  // no change where a configuration has opened it meanwhile
    }
    output_->reopen_files();
}

/// Keeps reading what the configuration no longer captures: without a reader the process would be hung up, or be ended
/// by its next line.
void Channels::keep_reading(std::uint32_t program) {
    if (program >= table_.size()) return;
    ProgramTable::Entry const& entry = table_[ProgramId{program}];
    if (!entry.plan || entry.is_captured()) return;  // without a plan, nothing of the program is left
    (void)output_->configure(program, entry.name, {.kind = config::OutputKind::captured});  // opens nothing
}

void Channels::restore_writers(UpgradeState const& state) {
    bool const is_any = std::ranges::any_of(state.output.programs, [](auto const& one) { return one.writer >= 0; });
    if (!is_any) return;
    open();
    output_->offer_writers(state.output);
}

void Channels::restore_instances(UpgradeState const& state) {
    for (UpgradeState::Instance const& one : state.instances) {
        if (one.program >= table_.size()) continue;
        ProgramTable::Entry& program = table_[ProgramId{one.program}];
        ProgramTable::Instance& mine = program.instance(ProcessNumber{one.number});
        mine.oom_kills = one.oom_kills;
        mine.was_oom_killed = one.was_oom_killed;
        mine.status = one.status;
        if (!groups_) continue;
        if (auto group = groups_->make_group(program.name, one.number)) mine.cgroup = std::move(*group);
    }
}

void Channels::restore(UpgradeState& state) {
    for (OutputState::Pipe const& pipe : state.output.pipes)
        keep_reading(pipe.key.program);
    if (output_) output_->import_state(std::move(state.output));
    if (notify_) (void)notify_->import_state(std::move(state.notify));  // one that cannot be watched is kept, but deaf
}

}  // namespace triton::launcher
