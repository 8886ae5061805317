#include "sidecar/agent/metrics.h"

namespace triton::agent {

namespace {

using Writer = net::MetricsWriter;
using Type = Writer::Type;

std::string number_text(SupervisedProcess const& process) { return std::to_string(process.number); }

/// Writes one family with a sample for each process for which `value` returns something.
template <class Value>
void per_process(Writer& writer, SupervisionStatus const& status, std::string_view name, Type type,
                 std::string_view help, Value const& value) {
    writer.family(name, type, help);
    for (SupervisedProgram const& program : status.programs) {
        for (SupervisedProcess const& process : program.processes) {
            if (std::optional<double> const one = value(process))
                writer.sample(*one, {{"program", program.name}, {"process", number_text(process)}});
        }
    }
}

void add_supervision(Writer& writer, SupervisionStatus const& status) {
    writer.family("triton_launch_info", Type::gauge, "The launcher that supervises.");
    writer.sample(1, {{"version", status.version}});
    writer.family("triton_launch_start_time_seconds", Type::gauge, "When the launcher started, in Unix time.");
    writer.sample(status.started_at);
    writer.family("triton_launch_configuration_rejected", Type::gauge,
                  "1 while the latest configuration is not the one that runs.");
    writer.sample(status.rejection.empty() ? 0 : 1);
    if (status.configuration_changes) {
        writer.family("triton_launch_configuration_changes", Type::counter, "Configurations taken so far.");
        writer.sample(static_cast<double>(*status.configuration_changes));
    }
    if (status.configuration_time) {
        writer.family("triton_launch_configuration_time_seconds", Type::gauge,
                      "When the running configuration was taken, in Unix time.");
        writer.sample(*status.configuration_time);
    }
    writer.family("triton_launch_program_wanted_processes", Type::gauge, "Processes that the configuration asks for.");
    for (SupervisedProgram const& program : status.programs)
        writer.sample(static_cast<double>(program.wanted), {{"program", program.name}});
    writer.family("triton_launch_program_ready", Type::gauge, "1 when all of them are ready.");
    for (SupervisedProgram const& program : status.programs)
        writer.sample(program.is_ready ? 1 : 0, {{"program", program.name}});
}

void add_processes(Writer& writer, SupervisionStatus const& status) {
    using Process = SupervisedProcess const&;
    using Value = std::optional<double>;
    per_process(writer, status, "triton_launch_process_up", Type::gauge, "1 while the process runs.",
                [](Process process) -> Value { return process.uptime_seconds ? 1 : 0; });
    per_process(writer, status, "triton_launch_process_ready", Type::gauge, "1 while it is ready.",
                [](Process process) -> Value { return process.is_ready ? 1 : 0; });
    writer.family("triton_launch_process_state", Type::gauge, "1, with the state the process is in.");
    for (SupervisedProgram const& program : status.programs) {
        for (Process process : program.processes)
            writer.sample(1, {{"program", program.name}, {"process", number_text(process)}, {"state", process.state}});
    }
    per_process(writer, status, "triton_launch_process_starts", Type::counter, "Starts so far, the first included.",
                [](Process process) -> Value { return static_cast<double>(process.starts); });
    per_process(writer, status, "triton_launch_process_start_time_seconds", Type::gauge,
                "When it was started last, in Unix time.", [](Process process) -> Value { return process.started_at; });
    per_process(writer, status, "triton_launch_process_memory_bytes", Type::gauge, "Memory it uses.",
                [](Process process) -> Value {
                    if (!process.memory_bytes) return std::nullopt;
                    return static_cast<double>(*process.memory_bytes);
                });
    per_process(writer, status, "triton_launch_process_cpu_seconds", Type::counter, "Processor time it has used.",
                [](Process process) -> Value { return process.cpu_seconds; });
}

/// Returns "2", or "web:2" where there are several programs.
std::string legacy_process(SupervisedProgram const& program, SupervisedProcess const& process) {
    return program.name.empty() ? number_text(process) : program.name + ":" + number_text(process);
}

/// Each version has a sample in both families, even if it is only desired or only running.
void add_legacy_versions(Writer& writer, SupervisionStatus const& status) {
    struct Use {
        bool is_running = false;
        bool is_desired = false;
    };
    std::map<std::string, Use> versions;
    for (SupervisedProgram const& program : status.programs) {
        if (program.version) versions[*program.version].is_desired = true;
        for (SupervisedProcess const& process : program.processes) {
            if (process.version && process.uptime_seconds) versions[*process.version].is_running = true;
        }
    }
    writer.family("fdbkubernetesmonitor_running_version", Type::gauge, "1 while a process runs this version, else 0.");
    for (auto const& [version, use] : versions)
        writer.sample(use.is_running ? 1 : 0, {{"version", version}});
    writer.family("fdbkubernetesmonitor_desired_version", Type::gauge,
                  "1 while the configuration asks for this version, else 0.");
    for (auto const& [version, use] : versions)
        writer.sample(use.is_desired ? 1 : 0, {{"version", version}});
}

/// Writes what the shipped monitor would report: it has no programs of its own.
void add_legacy(Writer& writer, SupervisionStatus status) {
    std::erase_if(status.programs, [](SupervisedProgram const& program) { return program.is_internal; });
    writer.family("fdbkubernetesmonitor_restart_count", Type::legacy_counter, "Starts so far, the first included.");
    for (SupervisedProgram const& program : status.programs) {
        for (SupervisedProcess const& process : program.processes)
            writer.sample(static_cast<double>(process.starts), {{"process", legacy_process(program, process)}});
    }
    writer.family("fdbkubernetesmonitor_start_timestamp", Type::gauge, "When it was started last, in Unix time.");
    for (SupervisedProgram const& program : status.programs) {
        for (SupervisedProcess const& process : program.processes) {
            if (process.started_at) writer.sample(*process.started_at, {{"process", legacy_process(program, process)}});
        }
    }
    if (status.configuration_changes) {
        writer.family("fdbkubernetesmonitor_configuration_change_count", Type::legacy_counter,
                      "Configurations taken so far.");
        writer.sample(static_cast<double>(*status.configuration_changes));
    }
    if (status.configuration_time) {
        writer.family("fdbkubernetesmonitor_last_applied_configuration_timestamp", Type::gauge,
                      "When the running configuration was taken, in Unix time.");
        writer.sample(*status.configuration_time);
    }
    add_legacy_versions(writer, status);
}

void add_agent(Writer& writer, AgentFigures const& figures, std::string_view version) {
    auto const one = [&writer](std::string_view name, Type type, std::string_view help, std::uint64_t value) {
        writer.family(name, type, help);
        writer.sample(static_cast<double>(value));
    };
    writer.family("triton_agent_info", Type::gauge, "The agent that answers.");
    writer.sample(1, {{"version", std::string(version)}});
    writer.family("triton_agent_requests", Type::counter, "Answers given.");
    for (auto const& [what, count] : figures.requests) {
        writer.sample(static_cast<double>(count),
                      {{"endpoint", std::string(name_of(what.first))}, {"code", std::to_string(what.second)}});
    }
    one("triton_agent_connections", Type::counter, "Connections accepted.", figures.http.connections);
    one("triton_agent_open_connections", Type::gauge, "Connections open now.", figures.http.open_connections);
    one("triton_agent_evicted_connections", Type::counter, "Silent connections that gave way to others.",
        figures.http.evicted_connections);
    one("triton_agent_failed_handshakes", Type::counter, "TLS handshakes that failed.", figures.http.failed_handshakes);
    one("triton_agent_refused_peers", Type::counter, "Requests without a certificate that the rules let in.",
        figures.http.refused_peers);
    one("triton_agent_hash_cache_hits", Type::counter, "Hashes that were known.", figures.hash_hits);
    one("triton_agent_hash_cache_misses", Type::counter, "Hashes that had to be computed.", figures.hash_misses);
    one("triton_agent_hashed_bytes", Type::counter, "Bytes hashed.", figures.hashed_bytes);
    if (!figures.certificate_not_after) return;
    one("triton_agent_certificate_reloads", Type::counter, "New certificates taken.", figures.certificate_reloads);
    one("triton_agent_failed_certificate_reloads", Type::counter, "New certificates that could not be used.",
        figures.failed_certificate_reloads);
    writer.family("triton_agent_certificate_not_after_seconds", Type::gauge,
                  "When the certificate in use ends, in Unix time.");
    writer.sample(static_cast<double>(*figures.certificate_not_after));
}

}  // namespace

std::string render_metrics(SupervisionStatus const* status, AgentFigures const& figures, std::string_view agent_version,
                           MetricsFormat format) {
    Writer writer(format);
    writer.family("triton_launch_reachable", Type::gauge, "1 when the launcher answers.");
    writer.sample(status ? 1 : 0);
    if (status) {
        add_supervision(writer, *status);
        add_processes(writer, *status);
        add_legacy(writer, *status);
    }
    add_agent(writer, figures, agent_version);
    return std::move(writer).take();
}

}  // namespace triton::agent
