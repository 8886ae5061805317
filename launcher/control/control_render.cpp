#include "launcher/control/control_render.h"

#include "lib/base/signal_text.h"

namespace triton::launcher {

namespace {

/// The members of a LastExit, without its brackets.
void write_exit(json::Writer& out, LastExit const& last) {
    if (!last.error.empty()) {
        out.key("error").value(std::string_view(last.error));
    } else if (last.signal != 0) {
        out.key("signal").value(std::string_view(signal_text(last.signal)));
    } else {
        out.key("code").value(std::int64_t{last.code});
    }
    out.key("oom_killed").value(last.was_oom_killed);
}

void write_past(json::Writer& out, ProcessPast const& past) {
    out.key("ends").open('[');
    for (PastEnd const& end : past.ends) {
        out.open('{').key("time").seconds(end.time).key("run_seconds").value(end.run);
        write_exit(out, end.exit);
        if (!end.reason.empty()) out.key("reason").value(end.reason);
        out.close('}');
    }
    out.close(']').key("checks").open('[');
    for (PastCheck const& check : past.checks) {
        out.open('{').key("check").value(std::string_view(check.check)).key("time").seconds(check.time);
        out.key("ok").value(check.is_ok);
        if (!check.why.empty()) out.key("why").value(check.why);
        if (!check.output.empty()) out.key("output").value(check.output);
        out.close('}');
    }
    out.close(']');
}

void write_reporter(json::Writer& out, ReporterStatus const& reporter) {
    out.open('{').key("state").value(std::string_view(reporter.state));
    out.key("detail").value(std::string_view(reporter.detail));
    if (reporter.last_success) out.key("last_success").seconds(*reporter.last_success);
    out.close('}');
}

}  // namespace

void open_program(json::Writer& out, ProgramStatus const& program) {
    out.open('{').key("name").value(std::string_view(program.name));
    out.key("kind").value(program_kind_names[static_cast<std::size_t>(program.kind)]);
    if (!program.version.empty()) out.key("version").value(std::string_view(program.version));
    out.key("internal").value(program.is_internal);
    out.key("wanted").value(std::int64_t{program.wanted}).key("ready").value(program.is_ready);
    if (program.next_run_in) out.key("next_run_in_seconds").value(*program.next_run_in);
    if (!program.groups.empty()) out.key("groups").list(program.groups);
    out.key("processes").open('[');
}

void write_process(json::Writer& out, ProcessStatus const& process, ProcessUsage const& usage,
                   ProcessPast const* past) {
    out.open('{').key("number").value(std::int64_t{process.number});
    out.key("state").value(name_of(process.state));
    if (!process.version.empty()) out.key("version").value(std::string_view(process.version));
    if (process.pid) out.key("pid").value(std::int64_t{*process.pid});
    if (process.uptime) out.key("uptime_seconds").value(*process.uptime);
    if (process.since_start) out.key("started_seconds_ago").value(*process.since_start);
    out.key("starts").value(std::int64_t{process.starts});
    out.key("restarts").value(std::int64_t{process.starts > 0 ? process.starts - 1 : 0});
    out.key("ready").value(process.state == ProcessState::up && !process.is_unwell);
    if (usage.memory) out.key("memory_bytes").value(static_cast<std::int64_t>(*usage.memory));
    if (usage.cpu_time) out.key("cpu_seconds").value(*usage.cpu_time);
    if (process.last_exit) {
        write_exit(out.key("last_exit").open('{'), *process.last_exit);
        out.close('}');
    }
    if (process.since_end) out.key("ended_seconds_ago").value(*process.since_end);
    if (process.restart_in) out.key("restart_in_seconds").value(*process.restart_in);
    if (!process.status_text.empty()) out.key("status").value(std::string_view(process.status_text));
    if (past) write_past(out, *past);
    out.close('}');
}

void write_description(json::Writer& out, ProgramDescription const& description) {
    out.open('{').key("version").value(std::string_view(description.version));
    out.key("command").list(description.command);
    out.key("working_directory").value(std::string_view(description.working_directory));
    out.key("user").value(std::string_view(description.user));
    out.key("restart").value(std::string_view(description.restart));
    out.key("after").list(description.after);
    out.key("requires").list(description.requires_);
    out.key("binds_to").list(description.binds_to);
    out.key("sockets").list(description.sockets);
    out.key("output").value(std::string_view(description.output)).close('}');
}

void write_launcher(json::Writer& out, LauncherStatus const& launcher, std::span<std::string const> programs) {
    out.open('{').key("version").value(std::string_view(launcher.version));
    out.key("pid").value(std::int64_t{launcher.pid}).key("uptime_seconds").value(launcher.uptime);
    out.key("phase").value(std::string_view(launcher.phase));
    out.key("configuration").value(std::string_view(launcher.configuration_path));
    out.key("has_configuration").value(launcher.has_configuration).key("ready").value(launcher.is_ready);
    out.key("rejection").list(launcher.rejection);
    out.key("configuration_changes").value(static_cast<std::int64_t>(launcher.configuration_changes));
    if (launcher.configuration_time) out.key("configuration_time").seconds(*launcher.configuration_time);
    out.key("isolated").value(launcher.is_isolated);
    if (launcher.reporter) write_reporter((out.key("reporter"), out), *launcher.reporter);
    out.key("programs").list(programs).close('}');
}

void write_configuration(json::Writer& out, ActiveConfiguration const& configuration) {
    out.open('{').key("sequence").value(static_cast<std::int64_t>(configuration.sequence));
    if (configuration.text) out.key("configuration").value(*configuration.text);
    out.key("environment").open('{');
    for (auto const& [name, value] : configuration.environment)
        out.name(name).value(std::string_view(value));
    out.close('}');
    if (configuration.accepted_at) out.key("accepted_at").seconds(*configuration.accepted_at);
    out.key("rejection").list(configuration.rejection);
    if (configuration.rejected_at) out.key("rejected_at").seconds(*configuration.rejected_at);
    out.close('}');
}

void write_staging(json::Writer& out, StagingAnswer const& answer, std::size_t limit) {
    std::size_t lost = 0;
    auto const write = [&](std::string_view name, std::vector<std::string> const& texts, std::size_t room) {
        out.key(name).open('[');
        for (std::string const& text : texts) {
            if (out.size() < room) {
                out.value(std::string_view(text));
            } else {
                ++lost;
            }
        }
        out.close(']');
    };
    out.open('{');
    write("files", answer.files, limit / 2);  // so that there is room for the errors
    write("errors", answer.errors, limit);
    if (lost > 0) out.key("lost").value(static_cast<std::int64_t>(lost));
    out.close('}');
}

void write_probe(json::Writer& out, ProbeRequest const& request) {
    out.open('{').key("id").value(static_cast<std::int64_t>(request.id)).key("kind").value(name_of(request.kind));
    out.key("target").value(request.target).key("timeout_seconds").value(request.timeout);
    if (!request.headers.empty()) {
        out.key("headers").open('[');
        for (std::string const& header : request.headers) {
            std::size_t const equals = header.find('=');
            out.open('{').key("name").value(std::string_view(header).substr(0, equals));
            out.key("value").value(std::string_view(header).substr(equals + 1)).close('}');
        }
        out.close(']');
    }
    if (!request.status.empty()) {
        out.key("status").open('[');
        for (config::StatusRange const& range : request.status)
            out.open('{')
                .key("first")
                .value(std::int64_t{range.first})
                .key("last")
                .value(std::int64_t{range.last})
                .close('}');
        out.close(']');
    }
    if (!request.service.empty()) out.key("service").value(request.service);
    out.close('}');
}

void write_line(json::Writer& out, OutputLine const& line) {
    out.open('{').key("process").value(std::int64_t{line.process});
    out.key("stream").value(std::string_view(line.is_stderr ? "stderr" : "stdout"));
    if (line.time != 0) out.key("time").value(line.time);
    if (line.sequence != 0) out.key("sequence").value(static_cast<std::int64_t>(line.sequence));
    out.key("text").value(line.text);
    if (line.is_partial) out.key("partial").value(true);
    out.close('}');
}

}  // namespace triton::launcher
