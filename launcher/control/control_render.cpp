#include "launcher/control/control_render.h"

#include "base/signal_text.h"

namespace triton::launcher {

namespace {

void write_last_exit(JsonWriter& out, LastExit const& last) {
    out.open('{');
    if (last.signal != 0) {
        out.key("signal").value(std::string_view(signal_text(last.signal)));
    } else {
        out.key("code").value(std::int64_t{last.code});
    }
    out.key("oom_killed").value(last.was_oom_killed).close('}');
}

}  // namespace

void open_program(JsonWriter& out, ProgramStatus const& program) {
    out.open('{').key("name").value(std::string_view(program.name));
    out.key("kind").value(program_kind_names[static_cast<std::size_t>(program.kind)]);
    out.key("wanted").value(std::int64_t{program.wanted}).key("ready").value(program.is_ready);
    if (program.next_run_in) out.key("next_run_in_seconds").value(*program.next_run_in);
    out.key("processes").open('[');
}

void write_process(JsonWriter& out, ProcessStatus const& process, ProcessUsage const& usage) {
    out.open('{').key("number").value(std::int64_t{process.number});
    out.key("state").value(name_of(process.state));
    if (process.pid) out.key("pid").value(std::int64_t{*process.pid});
    if (process.uptime) out.key("uptime_seconds").value(*process.uptime);
    out.key("starts").value(std::int64_t{process.starts});
    out.key("restarts").value(std::int64_t{process.starts > 0 ? process.starts - 1 : 0});
    out.key("ready").value(process.state == ProcessState::up);
    if (usage.memory) out.key("memory_bytes").value(static_cast<std::int64_t>(*usage.memory));
    if (usage.cpu_time) out.key("cpu_seconds").value(*usage.cpu_time);
    if (process.last_exit) write_last_exit((out.key("last_exit"), out), *process.last_exit);
    if (process.restart_in) out.key("restart_in_seconds").value(*process.restart_in);
    if (!process.status_text.empty()) out.key("status").value(std::string_view(process.status_text));
    out.close('}');
}

void write_description(JsonWriter& out, ProgramDescription const& description) {
    out.open('{').key("version").value(std::string_view(description.version));
    out.key("command").list(description.command);
    out.key("working_directory").value(std::string_view(description.working_directory));
    out.key("user").value(std::string_view(description.user));
    out.key("restart").value(std::string_view(description.restart));
    out.key("after").list(description.after);
    out.key("requires").list(description.requires_);
    out.key("sockets").list(description.sockets);
    out.key("output").value(std::string_view(description.output)).close('}');
}

void write_launcher(JsonWriter& out, LauncherStatus const& launcher, std::span<std::string const> programs) {
    out.open('{').key("version").value(std::string_view(launcher.version));
    out.key("pid").value(std::int64_t{launcher.pid}).key("uptime_seconds").value(launcher.uptime);
    out.key("phase").value(std::string_view(launcher.phase));
    out.key("configuration").value(std::string_view(launcher.configuration_path));
    out.key("has_configuration").value(launcher.has_configuration).key("ready").value(launcher.is_ready);
    out.key("rejection").list(launcher.rejection);
    out.key("programs").list(programs).close('}');
}

void write_line(JsonWriter& out, OutputLine const& line) {
    out.open('{').key("process").value(std::int64_t{line.process});
    out.key("stream").value(std::string_view(line.is_stderr ? "stderr" : "stdout"));
    if (line.time != 0) out.key("time").value(line.time);
    out.key("text").value(line.text).close('}');
}

}  // namespace triton::launcher
