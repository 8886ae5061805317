#include "launcher/control/control_jobs.h"

#include <algorithm>
#include <utility>

#include "launcher/control/control_calls.h"
#include "launcher/control/control_render.h"
#include "lib/base/joined.h"

namespace triton::launcher {

using varlink::Session;

std::optional<ProcessSelection> ControlContext::select(Session& session, std::string_view program,
                                                       std::optional<std::uint32_t> process) const {
    auto const index = backend.find_program(program);
    if (!index) {
        server->fail_call(session, launcher_name("NoSuchProgram"), varlink::one_text("program", program));
        return std::nullopt;
    }
    if (process && *process > backend.program(*index).processes) {
        no_such_process(session, program, *process);
        return std::nullopt;
    }
    return ProcessSelection{*index, process};
}

void ControlContext::no_such_process(Session& session, std::string_view program, std::uint32_t number) const {
    json::Writer out;
    out.open('{').key("program").value(program).key("process").value(std::int64_t{number}).close('}');
    server->fail_call(session, launcher_name("NoSuchProcess"), out.text());
}

bool is_left_over(ProgramStatus const& program, ProcessStatus const& process) {
    return process.number > program.wanted && process.state == ProcessState::down;
}

// List.

/// Where the list goes on: a reload may have moved the program that was written last, or removed it or others.
std::optional<std::size_t> ListJob::next_program() const {
    if (program_) return context_.backend.find_program(*program_);
    if (!name_) return 0;
    bool const is_where_it_was =
        index_ < context_.backend.program_count() && context_.backend.program(index_).name == *name_;
    auto const at = is_where_it_was ? std::optional(index_) : context_.backend.find_program(*name_);
    if (!at) return index_;  // it has left, and the one behind it has its place
    return is_whole_ ? *at + 1 : *at;
}

/// Writes the head of the next program. Returns false when there is none.
bool ListJob::open_next_program() {
    auto const at = next_program();
    if (!at || *at >= context_.backend.program_count()) return false;
    index_ = *at;
    ProgramStatus const program = context_.backend.program(*at);
    if (program.name != name_) next_ = 1;
    open_program(text_, program);
    name_ = program.name;
    is_open_ = true;
    is_whole_ = false;
    return true;
}

/// Writes one process, or the head or the end of a program. Returns false when there is nothing left.
bool ListJob::write_next() {
    if (!is_open_) return open_next_program();
    // The program is almost always where it was. A search for each line would be quadratic in the programs.
    std::optional<std::size_t> at = index_;
    ProgramStatus program =
        index_ < context_.backend.program_count() ? context_.backend.program(index_) : ProgramStatus{};
    if (program.name != name_) {
        at = context_.backend.find_program(*name_);
        program = at ? context_.backend.program(*at) : ProgramStatus{};
        index_ = at.value_or(index_);
    }
    std::uint32_t const last = program.processes;
    if (process_ && next_ < *process_) next_ = *process_;
    if (next_ > (process_ ? std::min(last, *process_) : last)) {
        text_.close(']').close('}');
        is_open_ = false;
        next_ = 1;
        is_whole_ = true;
        return !program_;
    }
    ProcessStatus const process = context_.backend.process(*at, next_);
    if (!is_left_over(program, process)) {
        ProcessPast past;
        if (has_history_) past = context_.backend.past(*at, next_);
        write_process(text_, process, context_.backend.usage(*at, next_), has_history_ ? &past : nullptr);
    }
    ++next_;
    return true;
}

void ListJob::run(Session& session) {
    varlink::Server& server = *context_.server;
    std::size_t const most = server.stream_limit() / 2;
    bool goes_on = true;
    while (goes_on && server.has_work_left() && text_.size() < most) {
        if (!std::exchange(is_begun_, true)) text_.open('{').key("programs").open('[');
        server.charge(has_history_ ? 4 : 1);
        goes_on = write_next();
    }
    if (goes_on && !session.wants_more) {
        if (text_.size() >= most) server.fail_call(session, varlink::service_name("ExpectedMore"), "{}");
        return;
    }
    if (is_open_) text_.close(']').close('}');
    std::string const text = std::exchange(text_, {}).close(']').close('}').text();
    is_begun_ = is_open_ = false;
    if (!goes_on) session.end_job();
    server.reply(session, text, goes_on);
}

// Wait.

namespace {

bool is_command(WaitFor what) { return what == WaitFor::started || what == WaitFor::restarted; }

/// Of a scheduled program: one that the command has not begun a run in.
bool is_free_place(ProcessStatus const& process, std::uint32_t starts_before) {
    using enum ProcessState;
    ProcessState const state = process.state;
    return process.starts == starts_before && (state == down || state == done || state == failed || state == held);
}

}  // namespace

void WaitJob::run(Session& session) {
    auto const which = context_.select(session, program_, std::nullopt);  // it may have left the configuration
    if (!which) return;
    ProgramStatus const program = context_.backend.program(which->program);
    if (program.wanted == 0 && !concerns_unwanted(what_)) {
        // Nothing runs now. A command has been overtaken by that; a wait goes on until something runs again.
        if (is_command(what_)) {
            return context_.server->fail_call(
                session, {ErrorKind::refused, {}, "none of its processes is meant to run any longer", {}});
        }
        seen_ = context_.changes;
        return;
    }
    std::uint32_t const all = concerns_unwanted(what_) ? program.processes : program.wanted;
    if (process_ && *process_ > all) return context_.no_such_process(session, program_, *process_);
    makes_one_run_ = is_command(what_) && !process_ && program.kind == ProgramKind::scheduled;
    look_at_processes(session, which->program, process_.value_or(all));
}

void WaitJob::look_at_processes(Session& session, std::size_t program, std::uint32_t last) {
    std::uint32_t const first = process_.value_or(1);
    for (; next_ <= last; ++next_) {
        if (!context_.server->has_work_left()) return;
        context_.server->charge(1);
        std::size_t const offset = next_ - first;
        std::uint32_t const starts = offset < starts_before_.size() ? starts_before_[offset] : 0;
        ProcessStatus const process = context_.backend.process(program, next_);
        if (makes_one_run_ && is_free_place(process, starts)) continue;
        switch (judge(what_, process, starts)) {
            case WaitAnswer::reached:
                if (what_ == WaitFor::stopped && has_leftovers(session, program)) return;
                has_run_ = true;
                break;
            case WaitAnswer::not_yet:
                if (process.state == ProcessState::waiting && is_held_up(session, program)) return;
                seen_ = context_.changes;
                return;
            case WaitAnswer::never: return not_reached(session, process);
        }
    }
    if (makes_one_run_ && !has_run_) return not_reached(session, context_.backend.process(program, next_ = first));
    session.end_job();
    context_.server->reply(session, "{}");
}

/// Whether what the command has begun waits for what does not start by itself; then the call has been answered.
bool WaitJob::is_held_up(Session& session, std::size_t program) {
    if (!is_command(what_)) return false;
    context_.server->charge(context_.backend.program_count() / 8);
    std::string const names = joined(context_.backend.held_up_by(program), ", ");
    if (names.empty()) return false;
    context_.server->fail_call(session, {ErrorKind::refused, {}, "waits for what is held or has failed: " + names, {}});
    return true;
}

/// Whether what the process has left behind still lives; when it does not die, the call has been answered.
bool WaitJob::has_leftovers(Session& session, std::size_t program) {
    switch (context_.backend.leftovers(program, next_)) {
        case Leftovers::none: return false;
        case Leftovers::ending: seen_ = context_.changes; return true;
        case Leftovers::stuck: break;
    }
    std::string const text = "process " + std::to_string(next_) +
                             " has ended, but not all that it has started: SIGKILL was sent, and processes still live";
    context_.server->fail_call(session, {ErrorKind::timeout, {}, text, {}});
    return true;
}

void WaitJob::not_reached(Session& session, ProcessStatus const& process) {
    json::Writer out;
    out.open('{').key("program").value(std::string_view(program_));
    out.key("process").value(std::int64_t{next_}).key("state").value(name_of(process.state)).close('}');
    context_.server->fail_call(session, launcher_name("NotReached"), out.text());
}

// Logs.

void LogsJob::add(OutputLine const& line) {
    lines_.push_back(
        {line.process, line.is_stderr, line.time, text_.size(), line.text.size(), line.sequence, line.is_partial});
    text_ += line.text;
}

OutputLine LogsJob::at(std::size_t index) const {
    Line const& line = lines_[index];
    return {line.process,  line.is_stderr, line.time, std::string_view(text_).substr(line.begin, line.size),
            line.sequence, line.is_partial};
}

bool LogsJob::take(OutputLine const& line) {
    if (after_ && line.sequence <= *after_) return false;
    bool const is_of_last = line.is_partial && !lines_.empty() && lines_.back().process == line.process &&
                            lines_.back().is_stderr == line.is_stderr;
    is_cut_ = !is_of_last && whole_ == wanted_;
    if (is_cut_) return false;
    add(line);
    if (!is_of_last) ++whole_;
    return true;
}

void LogsJob::compare(ControlBackend::KeptLines const& kept) {
    end_ = kept.end;
    if (after_) is_missing_ = is_cut_ || *after_ + 1 < kept.first;
}

void LogsJob::begin(std::size_t room) {
    std::ranges::reverse(lines_);
    if (room > 0) next_ = first_that_fits(room);
}

/// The first line from which on all the rest fit into one answer.
std::size_t LogsJob::first_that_fits(std::size_t room) const {
    std::size_t first = lines_.size();
    for (; first > 0; --first) {
        json::Writer out;
        write_line(out, at(first - 1));
        if (out.size() + 1 > room) break;
        room -= out.size() + 1;
    }
    return first;
}

bool LogsJob::add_later(OutputLine const& line) {
    std::size_t const bytes = text_.size() + lines_.size() * sizeof(Line);
    if (bytes + line.text.size() >= context_.line_bytes) return false;
    add(line);
    return true;
}

bool LogsJob::concerns(std::string_view program, std::uint32_t process) const {
    return program_ == program && (!process_ || *process_ == process);
}

/// Writes one part in each round. Without "more" there is only one part, which says what is missing before it.
void LogsJob::run(Session& session) {
    json::Writer out;
    out.open('{').key("lines").open('[');
    std::size_t const missing = session.wants_more ? 0 : next_;
    for (; next_ < lines_.size() && out.size() < context_.server->stream_limit() / 2; ++next_)
        write_line(out, at(next_));
    out.close(']');
    if (std::exchange(is_missing_, false)) out.key("missing").value(true);
    if (missing > 0) out.key("lost").value(static_cast<std::int64_t>(missing));
    bool const is_told = next_ == lines_.size();
    if (is_told && follows_ && end_ > 0) out.key("end").value(static_cast<std::int64_t>(end_ - 1));
    if (is_told) session.begin(follows_ ? std::make_unique<FollowJob>(program_, process_) : nullptr);
    context_.server->reply(session, out.close('}').text(), !is_told || follows_);
}

// The configuration.

void ConfigurationJob::run(Session& session) {
    context_.server->charge(1);
    json::Writer out;
    write_configuration(out, context_.backend.active_configuration());
    seen_ = context_.configuration_changes;
    if (!session.wants_more) session.end_job();
    context_.server->reply(session, out.text(), session.wants_more);
}

}  // namespace triton::launcher
