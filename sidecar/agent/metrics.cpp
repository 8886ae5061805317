#include "sidecar/agent/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>

namespace triton::agent {

namespace {

/// Built family by family: OpenMetrics wants all samples of one together.
class Writer {
public:
    explicit Writer(MetricsFormat format) : is_open_metrics_(format == MetricsFormat::open_metrics) {}

    enum class Type : std::uint8_t { counter, gauge, legacy_counter };
    struct Label {
        std::string_view name;
        std::string value;
    };
    using Labels = std::initializer_list<Label>;

    /// Of a counter `name` has no "_total"; its samples have. A legacy counter has none either: OpenMetrics knows no
    /// such counter, and whoever graphs it wants the name it always had.
    void family(std::string_view name, Type type, std::string_view help) {
        name_ = name;
        suffix_ = type == Type::counter ? "_total" : "";
        // In the older format the family of a counter is called like its samples.
        std::string const shown = is_open_metrics_ ? name_ : name_ + suffix_;
        std::string_view kind = type == Type::gauge ? "gauge" : "counter";
        if (type == Type::legacy_counter && is_open_metrics_) kind = "unknown";
        out_.append("# TYPE ").append(shown).append(" ").append(kind).append("\n");
        out_.append("# HELP ").append(shown).append(" ").append(help).append("\n");
    }

    void sample(double value, Labels labels = {}) {
        out_.append(name_).append(suffix_);
        char separator = '{';
        for (Label const& label : labels) {
            out_ += std::exchange(separator, ',');
            out_.append(label.name).append("=\"");
            append_escaped(label.value);
            out_ += '"';
        }
        if (separator == ',') out_ += '}';
        out_ += ' ';
        append_number(value);
        out_ += '\n';
    }

    std::string take() && {
        if (is_open_metrics_) out_ += "# EOF\n";
        return std::move(out_);
    }

private:
    void append_escaped(std::string_view text) {
        for (char const c : text) {
            if (c == '\n') {
                out_ += "\\n";
                continue;
            }
            if (c == '"' || c == '\\') out_ += '\\';
            out_ += c;
        }
    }

    void append_number(double value) {
        std::array<char, 32> digits{};
        bool const is_whole = std::abs(value) < 1e15 && value == std::trunc(value);
        auto const end =
            is_whole ? std::to_chars(digits.data(), digits.data() + digits.size(), static_cast<std::int64_t>(value))
                     : std::to_chars(digits.data(), digits.data() + digits.size(), value);
        out_.append(digits.data(), end.ptr);
    }

    bool is_open_metrics_;
    std::string name_;
    std::string suffix_;
    std::string out_;
};

using Type = Writer::Type;

std::string number_text(SupervisedProcess const& process) { return std::to_string(process.number); }

/// One family with a sample for each process for which `value` has something.
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

void add_supervision(Writer& writer, SupervisionStatus const& status, double now) {
    writer.family("triton_launch_info", Type::gauge, "The launcher that supervises.");
    writer.sample(1, {{"version", status.version}});
    writer.family("triton_launch_start_time_seconds", Type::gauge, "When the launcher started, in Unix time.");
    writer.sample(std::floor(now - status.uptime_seconds));
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

void add_processes(Writer& writer, SupervisionStatus const& status, double now) {
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
                "When it was started last, in Unix time.", [now](Process process) -> Value {
                    if (!process.started_seconds_ago) return std::nullopt;
                    return std::floor(now - *process.started_seconds_ago);
                });
    per_process(writer, status, "triton_launch_process_memory_bytes", Type::gauge, "Memory it uses.",
                [](Process process) -> Value {
                    if (!process.memory_bytes) return std::nullopt;
                    return static_cast<double>(*process.memory_bytes);
                });
    per_process(writer, status, "triton_launch_process_cpu_seconds", Type::counter, "Processor time it has used.",
                [](Process process) -> Value { return process.cpu_seconds; });
}

/// "2", or "web:2" where there are several programs.
std::string legacy_process(SupervisedProgram const& program, SupervisedProcess const& process) {
    return program.name.empty() ? number_text(process) : program.name + ":" + number_text(process);
}

/// A version that is only desired has a sample in the other family too, and the other way round.
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

/// What the shipped monitor would tell: it has no program of its own.
void add_legacy(Writer& writer, SupervisionStatus status, double now) {
    std::erase_if(status.programs, [](SupervisedProgram const& program) { return program.is_internal; });
    writer.family("fdbkubernetesmonitor_restart_count", Type::legacy_counter, "Starts so far, the first included.");
    for (SupervisedProgram const& program : status.programs) {
        for (SupervisedProcess const& process : program.processes)
            writer.sample(static_cast<double>(process.starts), {{"process", legacy_process(program, process)}});
    }
    writer.family("fdbkubernetesmonitor_start_timestamp", Type::gauge, "When it was started last, in Unix time.");
    for (SupervisedProgram const& program : status.programs) {
        for (SupervisedProcess const& process : program.processes) {
            if (process.started_seconds_ago) {
                writer.sample(std::floor(now - *process.started_seconds_ago),
                              {{"process", legacy_process(program, process)}});
            }
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
    one("triton_agent_failed_certificate_reloads", Type::counter, "New certificates that were no good.",
        figures.failed_certificate_reloads);
    writer.family("triton_agent_certificate_not_after_seconds", Type::gauge,
                  "When the certificate in use ends, in Unix time.");
    writer.sample(static_cast<double>(*figures.certificate_not_after));
}

// --- which format is asked for

/// What is before the separator; `rest` becomes what is after it.
std::string_view take_until(std::string_view& rest, char separator) {
    std::string_view const taken = rest.substr(0, rest.find(separator));
    rest.remove_prefix(std::min(rest.size(), taken.size() + 1));
    return taken;
}

std::string_view trimmed(std::string_view text) {
    std::size_t const first = text.find_first_not_of(" \t");
    return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// But for their case.
bool has_same_letters(std::string_view left, std::string_view right) {
    constexpr auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return std::ranges::equal(left, right, {}, lower, lower);
}

struct MediaRange {
    std::string_view type;
    double weight = 1;  // 0: not wanted; what cannot be read is not wanted either
};

/// One of an Accept field. Source: RFC 9110, 12.4.2 and 12.5.1.
MediaRange parse_media_range(std::string_view text) {
    MediaRange range{.type = trimmed(take_until(text, ';'))};
    while (!text.empty()) {
        std::string_view value = take_until(text, ';');
        if (!has_same_letters(trimmed(take_until(value, '=')), "q")) continue;
        value = trimmed(value);
        auto const [end, error] = std::from_chars(value.data(), value.data() + value.size(), range.weight);
        if (error != std::errc() || end != value.data() + value.size()) range.weight = 0;
    }
    return range;
}

}  // namespace

MetricsFormat metrics_format(std::string_view accept) {
    double open_metrics = 0;
    double text = 0;
    for (std::string_view rest = accept; !rest.empty();) {
        MediaRange const range = parse_media_range(take_until(rest, ','));
        if (has_same_letters(range.type, "application/openmetrics-text")) open_metrics = range.weight;
        if (has_same_letters(range.type, "text/plain")) text = range.weight;
    }
    return open_metrics > 0 && open_metrics >= text ? MetricsFormat::open_metrics : MetricsFormat::prometheus_text;
}

std::string_view content_type(MetricsFormat format) {
    return format == MetricsFormat::open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                                 : "text/plain; version=0.0.4; charset=utf-8";
}

std::string render_metrics(SupervisionStatus const* status, AgentFigures const& figures, std::string_view agent_version,
                           double now, MetricsFormat format) {
    Writer writer(format);
    writer.family("triton_launch_reachable", Type::gauge, "1 when the launcher answers.");
    writer.sample(status ? 1 : 0);
    if (status) {
        add_supervision(writer, *status, now);
        add_processes(writer, *status, now);
        add_legacy(writer, *status, now);
    }
    add_agent(writer, figures, agent_version);
    return std::move(writer).take();
}

}  // namespace triton::agent
