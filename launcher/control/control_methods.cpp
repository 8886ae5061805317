#include "launcher/control/control_methods.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "launcher/control/control_render.h"
#include "lib/base/signal_text.h"

namespace triton::launcher {

using varlink::Session;

namespace {
/// Whether a connection is our agent's, whatever it may do.
bool is_agent(varlink::Role role) {
    return role == static_cast<varlink::Role>(ControlRole::agent) ||
           role == static_cast<varlink::Role>(ControlRole::steward);
}

/// "start web:2", for the log.
std::string command_text(std::string_view verb, CallParameters const& parameters) {
    std::string text(verb);
    text += parameters.program->empty() ? "-" : *parameters.program;
    if (parameters.process) text += ":" + std::to_string(*parameters.process);
    return text;
}
}  // namespace

varlink::ServiceInfo ControlMethods::info() const {
    return {.vendor = "Triton", .product = "triton-launch", .version = backend_.launcher().version, .url = ""};
}

std::expected<varlink::Role, std::string> ControlMethods::admit(varlink::Peer const& peer, bool is_by_uid) const {
    auto const role = rights_.role_of(peer, is_by_uid);
    if (!role) return std::unexpected(role.error());
    return static_cast<varlink::Role>(*role);
}

void ControlMethods::call(Session& session, varlink::Call const& call) {
    varlink::dispatch(*context_.server, *this, control_methods(), session, call);
}

// What there is.

void ControlMethods::get_status(Session& session, CallParameters const&) {
    std::vector<std::string> names(backend_.program_count());
    for (std::size_t i = 0; i < names.size(); ++i)
        names[i] = backend_.program(i).name;
    context_.server->charge(names.size() / 4);
    json::Writer out;
    write_launcher((out.open('{').key("launcher"), out), backend_.launcher(), names);
    reply(session, out.close('}').text());
}

void ControlMethods::list(Session& session, CallParameters const& parameters) {
    if (session.is_oneway) return;
    if (parameters.program) {
        auto const which = context_.select(session, *parameters.program, parameters.process);
        if (!which) return;
        std::uint32_t const number = which->number.value_or(0);
        if (number > 0 && is_left_over(backend_.program(which->program), backend_.process(which->program, number)))
            return context_.no_such_process(session, *parameters.program, number);
    }
    session.begin(std::make_unique<ListJob>(context_, parameters.program, parameters.process, parameters.has_history));
}

void ControlMethods::describe(Session& session, CallParameters const& parameters) {
    auto const which = context_.select(session, *parameters.program, std::nullopt);
    if (!which) return;
    json::Writer out;
    open_program((out.open('{').key("program"), out), backend_.program(which->program));
    out.close(']').close('}').key("description");
    write_description(out, backend_.describe(which->program));
    reply(session, out.close('}').text());
}

void ControlMethods::wait(Session& session, CallParameters const& parameters) {
    static constexpr std::array conditions{WaitFor::ready, WaitFor::up, WaitFor::down, WaitFor::done};
    WaitFor const what = conditions[static_cast<std::size_t>(parameters.condition)];
    if (concerns_unwanted(what) && !context_.select(session, *parameters.program, parameters.process)) return;
    if (session.is_oneway) return;
    session.begin(std::make_unique<WaitJob>(context_, *parameters.program, parameters.process, what));
}

void ControlMethods::logs(Session& session, CallParameters const& parameters) {
    if (parameters.follows && !session.wants_more)
        return context_.server->fail_call(session, varlink::service_name("ExpectedMore"), "{}");
    auto const which = context_.select(session, *parameters.program, parameters.process);
    if (!which || session.is_oneway) return;
    auto const make_job = [&](std::optional<std::uint64_t> after) {
        return std::make_unique<LogsJob>(context_, *parameters.program, which->number, parameters.lines, after,
                                         parameters.follows);
    };
    auto job = make_job(parameters.after);
    auto found = backend_.output_lines(*which, *job);
    if (found && parameters.after && *parameters.after >= found->end) {
        // No line has that number yet: the caller has it from another launcher, and everything is new to it.
        job = make_job(0);
        found = backend_.output_lines(*which, *job);
    }
    if (!found) return context_.server->fail_call(session, found.error());
    job->compare(*found);
    job->begin(session.wants_more ? 0 : context_.server->stream_limit() / 2);
    session.begin(std::move(job));
}

/// The one process of a program that is meant without its number; nullopt: there are several.
std::optional<std::uint32_t> ControlMethods::only_process(std::size_t index) {
    ProgramStatus const program = backend_.program(index);
    std::optional<std::uint32_t> only;
    context_.server->charge(program.processes / 8);
    for (std::uint32_t number = 1; number <= program.processes; ++number) {
        if (is_left_over(program, backend_.process(index, number))) continue;
        if (only) return std::nullopt;
        only = number;
    }
    return only.value_or(1);
}

/// Hands the connection over to the terminal's client once the reply has been written.
void ControlMethods::attach(Session& session, CallParameters const& parameters) {
    auto const which = context_.select(session, *parameters.program, parameters.process);
    if (!which || session.is_oneway) return;
    ProgramStatus const program = backend_.program(which->program);
    if (program.processes == 0)
        return context_.no_such_process(session, *parameters.program, which->number.value_or(1));
    auto const number = which->number ? which->number : only_process(which->program);
    if (!number) {
        std::string const name(shown_name(program.name));
        return context_.server->fail_call(
            session, {ErrorKind::refused, {}, name + " has several processes: name one, as " + name + ":1", {}});
    }
    ControlBackend::Attachment const wanted{
        {which->program, *number}, parameters.lines, parameters.is_read_only, parameters.follows};
    if (auto const checked = backend_.check_attachment(wanted.which, wanted.follows); !checked)
        return context_.server->fail_call(session, checked.error());
    CallParameters named = parameters;
    named.process = wanted.which.number;
    backend_.command_given(command_text(wanted.is_read_only ? "watch " : "attach ", named), session.peer());
    json::Writer out;
    out.open('{').key("program").value(std::string_view(program.name));
    reply(session, out.key("process").value(std::int64_t{*wanted.which.number}).close('}').text());
    if (UniqueFd connection = context_.server->release(session)) backend_.attach(wanted, std::move(connection));
}

void ControlMethods::watch_configuration(Session& session, CallParameters const&) {
    if (!session.is_oneway) session.begin(std::make_unique<ConfigurationJob>(context_));
}

// Commands.

/// What a command for processes does, and what a caller that waits for it waits for.
struct ControlMethods::Command {
    std::string_view verb;
    Result<> (ControlBackend::*act)(ProcessSelection const& which);
    WaitFor what;
    std::vector<std::string> (ControlBackend::*others)(std::size_t index) const;  ///< whom it concerns, too
};

void ControlMethods::start(Session& session, CallParameters const& parameters) {
    command(session, parameters, {"start ", &ControlBackend::start, WaitFor::started, &ControlBackend::missing_for});
}

void ControlMethods::stop(Session& session, CallParameters const& parameters) {
    command(session, parameters, {"stop ", &ControlBackend::stop, WaitFor::stopped, &ControlBackend::running_on});
}

void ControlMethods::restart(Session& session, CallParameters const& parameters) {
    command(session, parameters,
            {"restart ", &ControlBackend::restart, WaitFor::restarted, &ControlBackend::missing_for});
}

std::vector<std::uint32_t> ControlMethods::starts_of(ProcessSelection const& which) {
    std::vector<std::uint32_t> starts;
    std::uint32_t const last = which.number.value_or(backend_.program(which.program).processes);
    for (std::uint32_t number = which.number.value_or(1); number <= last; ++number)
        starts.push_back(backend_.process(which.program, number).starts);
    context_.server->charge(starts.size() / 8);
    return starts;
}

/// Returns whether nobody else is concerned; else an error that names the others has answered the call. A command for
/// one process of several concerns no other program.
bool ControlMethods::is_alone(Session& session, ProcessSelection const& which, Command const& command) {
    if (which.number && command.what == WaitFor::stopped) return true;
    std::vector<std::string> const others = (backend_.*command.others)(which.program);
    context_.server->charge(backend_.program_count() / 8);
    if (others.empty()) return true;
    json::Writer out;
    out.open('{').key("program").value(std::string_view(backend_.program(which.program).name));
    out.key("programs").open('[');
    for (std::string const& name : others)
        out.value(std::string_view(name));
    context_.server->fail_call(session, launcher_name("NotAlone"), out.close(']').close('}').text());
    return false;
}

void ControlMethods::command(Session& session, CallParameters const& parameters, Command const& command) {
    auto const which = context_.select(session, *parameters.program, parameters.process);
    if (!which) return;
    std::uint32_t const wanted = backend_.program(which->program).wanted;
    bool const is_to_run = command.what != WaitFor::stopped;
    if (is_to_run && which->number && wanted > 0 && *which->number > wanted)
        return context_.no_such_process(session, *parameters.program, *which->number);
    if (parameters.is_alone && !is_alone(session, *which, command)) return;
    bool const waits = parameters.waits && !session.is_oneway;
    std::vector<std::uint32_t> starts_before;
    if (waits && is_to_run) starts_before = starts_of(*which);
    backend_.command_given(command_text(command.verb, parameters), session.peer());
    if (auto const done = (backend_.*command.act)(*which); !done)
        return context_.server->fail_call(session, done.error());
    if (!waits) return reply(session, "{}");
    session.begin(std::make_unique<WaitJob>(context_, *parameters.program, which->number, command.what,
                                            std::move(starts_before)));
}

void ControlMethods::signal(Session& session, CallParameters const& parameters) {
    auto const which = context_.select(session, *parameters.program, parameters.process);
    if (!which) return;
    backend_.command_given(command_text("signal " + signal_text(parameters.signo) + " ", parameters), session.peer());
    auto const done = backend_.signal(*which, parameters.signo);
    done ? reply(session, "{}") : context_.server->fail_call(session, done.error());
}

void ControlMethods::reload(Session& session, CallParameters const&) {
    backend_.command_given("reload", session.peer());
    auto const done = backend_.reload();
    if (!done) return context_.server->fail_call(session, done.error());
    switch (*done) {
        case Reloaded::now: return reply(session, "{}");
        case Reloaded::later:
            // The agent's calls share one connection: the verdicts of its probes would wait behind this one.
            if (is_agent(session.role())) return reply(session, "{}");
            if (!session.is_oneway) session.begin(std::make_unique<ReloadJob>());
            return;
    }
    std::unreachable();
}

void ControlMethods::answer_reload(Result<> const& answer) {
    context_.server->each<ReloadJob>([&](Session& session, ReloadJob&) {
        if (!answer) return context_.server->fail_call(session, answer.error());
        session.end_job();
        context_.server->reply(session, "{}", false);
    });
}

void ControlMethods::upgrade(Session& session, CallParameters const& parameters) {
    backend_.command_given("upgrade " + parameters.path, session.peer());
    if (!session.is_oneway) session.begin(std::make_unique<UpgradeJob>());  // first: the answer may come from inside
    if (auto const begun = backend_.upgrade(parameters.path); !begun)
        context_.server->fail_call(session, begun.error());
}

void ControlMethods::answer_upgrade(Result<UpgradeVersions> const& answer) {
    context_.server->each<UpgradeJob>([&](Session& session, UpgradeJob&) {
        if (!answer) {
            context_.server->fail_call(session, answer.error());
        } else {
            json::Writer out;
            out.open('{').key("from").value(std::string_view(answer->from));
            out.key("to").value(std::string_view(answer->to)).close('}');
            if (!session.wants_more) session.end_job();
            context_.server->reply(session, out.text(), session.wants_more);
        }
        context_.server->flush(session);  // after an execve nobody would do it
    });
}

void ControlMethods::stage(Session& session, CallParameters const& parameters) {
    std::string command = "stage ";
    backend_.command_given(command.append(staging_kind_names[static_cast<std::size_t>(parameters.what)]),
                           session.peer());
    std::uint64_t const ticket = ++last_ticket_;
    if (!session.is_oneway) session.begin(std::make_unique<StageJob>(ticket));  // first: as above
    if (auto const begun = backend_.stage(parameters.what, ticket); !begun)
        context_.server->fail_call(session, begun.error());
}

void ControlMethods::answer_stage(std::uint64_t ticket, Result<StagingAnswer> const& answer) {
    context_.server->each<StageJob>([&](Session& session, StageJob& job) {
        if (job.ticket != ticket) return;
        if (!answer) return context_.server->fail_call(session, answer.error());
        json::Writer out;
        write_staging(out, *answer, context_.server->stream_limit() / 2);
        session.end_job();
        reply(session, out.text());
    });
}

// Records and lines, as they come.

void KeptRecords::keep(std::string_view message) {
    if (message.size() > most_bytes_) {
        ++lost_;
        return;
    }
    std::size_t room_made = 0;
    while (messages_.size() - room_made + message.size() > most_bytes_) {
        room_made = messages_.find('\0', room_made) + 1;
        ++lost_;
    }
    messages_.erase(0, room_made).append(message);
}

void KeptRecords::hand_over(varlink::Server& server, Session& session) {
    if (std::uint64_t const lost = std::exchange(lost_, 0)) {
        json::Writer out;
        out.open('{').key("lost").value(static_cast<std::int64_t>(lost)).close('}');
        server.reply(session, out.text(), true);
    }
    if (!messages_.empty()) session.output(server.now()) += std::exchange(messages_, {});
}

void ControlMethods::subscribe(Session& session, CallParameters const& parameters) {
    session.begin(std::make_unique<SubscribeJob>(is_agent(session.role()) && !parameters.is_live));
    context_.server->reply(session, "{}", true);
    if (is_agent(session.role()) && !parameters.is_live) kept_.hand_over(*context_.server, session);
}

bool ControlMethods::is_agent_subscribed() {
    bool is_subscribed = false;
    context_.server->each<SubscribeJob>([&](Session&, SubscribeJob& job) { is_subscribed |= job.takes_kept; });
    return is_subscribed;
}

void ControlMethods::publish(std::string_view record, bool is_of_note) {
    bool const is_kept = is_of_note && keeps_for_agent_ && !is_agent_subscribed();
    if (!is_kept && !context_.server->has<SubscribeJob>()) return;
    scratch_.clear();
    varlink::append_reply(scratch_, std::string(R"({"event":)").append(record).append("}"), true);
    context_.server->each<SubscribeJob>(
        [&](Session& session, SubscribeJob&) { context_.server->stream(session, scratch_); });
    if (is_kept) kept_.keep(scratch_);
}

bool ControlMethods::wants_records() const { return keeps_for_agent_ || context_.server->has<SubscribeJob>(); }

void ControlMethods::publish_output(std::string_view program, OutputLine const& line) {
    context_.server->each<LogsJob>([&](Session& session, LogsJob& job) {
        if (!job.follows() || !job.concerns(program, line.process)) return;
        if (session.lost > 0 || !job.add_later(line)) ++session.lost;
    });
    scratch_.clear();
    context_.server->each<FollowJob>([&](Session& session, FollowJob& job) {
        if (!job.concerns(program, line.process)) return;
        if (scratch_.empty()) {
            json::Writer out;
            out.open('{').key("lines").open('[');
            write_line(out, line);
            varlink::append_reply(scratch_, out.close(']').close('}').text(), true);
        }
        context_.server->stream(session, scratch_);
    });
}

bool ControlMethods::has_followers() const {
    if (context_.server->has<FollowJob>()) return true;
    return std::ranges::any_of(context_.server->sessions(), [](auto const& session) {
        varlink::Job const* const job = session->job();
        return job && job->tag == LogsJob::tag && static_cast<LogsJob const*>(job)->follows();
    });
}

// What the agent is there for.

Duration ControlMethods::agent_deaf_for() const {
    Duration longest{};
    for (auto const& session : context_.server->sessions()) {
        if (is_agent(session->role()) && session->job() && session->job()->tag == ConfigurationJob::tag)
            longest = std::max(longest, session->deaf_for(context_.server->now()));
    }
    return longest;
}

void ControlMethods::probes(Session& session, CallParameters const&) {
    if (session.is_oneway) return;
    context_.server->each<ProbesJob>([](Session& other, ProbesJob&) { other.end(); });
    do_deferred();
    session.begin(std::make_unique<ProbesJob>());
    context_.server->reply(session, "{}", true);
    is_prober_known_ = true;
    backend_.probes_wanted(true);
}

bool ControlMethods::has_lost_prober() const { return is_prober_known_ && !context_.server->has<ProbesJob>(); }

void ControlMethods::do_deferred() {
    if (!has_lost_prober()) return;
    is_prober_known_ = false;
    backend_.probes_wanted(false);
}

void ControlMethods::send_to_prober(json::Writer const& parameters) {
    context_.server->each<ProbesJob>([&](Session& session, ProbesJob&) {
        if (!session.has_room(parameters.size() + 64, context_.server->stream_limit())) return session.end();
        varlink::append_reply(session.output(context_.server->now()), parameters.text(), true);
    });
}

/// Whether lines may be sent now. Probes, which share the connection, keep their room in any case.
bool ControlMethods::has_room_for_lines() const {
    constexpr std::size_t most_unread_lines = 64 * 1024;
    bool has_room = false;
    context_.server->each<ProbesJob>(
        [&](Session& session, ProbesJob&) { has_room = session.pending() < most_unread_lines; });
    return has_room;
}

void ControlMethods::probe_result(Session& session, CallParameters const& parameters) {
    backend_.probe_result(parameters.id, parameters.is_ok, parameters.detail);
    reply(session, "{}");
}

void ControlMethods::set_pod(Session& session, CallParameters const& parameters) {
    backend_.set_pod(parameters.pod);
    reply(session, "{}");
}

void ControlMethods::set_reporter(Session& session, CallParameters const& parameters) {
    backend_.set_reporter(parameters.reporter);
    reply(session, "{}");
}

}  // namespace triton::launcher
