#include "sidecar/agent/status.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/json/writer.h"
#include "sidecar/control/control_reply.h"

namespace triton::agent {

namespace {

using json::Array;
using json::Node;

std::optional<std::string> optional_text(Node const& object, std::string_view name) {
    std::string value = json::text_of(object, name);
    if (value.empty()) return std::nullopt;
    return value;
}

bool flag(Node const& object, std::string_view name) {
    auto const* const value = json::value_of<bool>(object, name);
    return value && *value;
}

std::optional<std::int64_t> whole(Node const& object, std::string_view name) {
    auto const* const value = json::value_of<std::int64_t>(object, name);
    if (!value) return std::nullopt;
    return *value;
}

json::Array const& array(Node const& object, std::string_view name) {
    static json::Array const none;
    auto const* const value = json::value_of<json::Array>(object, name);
    return value ? *value : none;
}

SupervisedProcess process_of(Node const& node) {
    SupervisedProcess process;
    process.number = whole(node, "number").value_or(1);
    process.state = json::text_of(node, "state");
    process.is_ready = flag(node, "ready");
    process.starts = whole(node, "starts").value_or(0);
    process.uptime_seconds = json::real_of(node, "uptime_seconds");
    process.started_seconds_ago = json::real_of(node, "started_seconds_ago");
    if (!process.started_seconds_ago) process.started_seconds_ago = process.uptime_seconds;
    process.memory_bytes = whole(node, "memory_bytes");
    process.cpu_seconds = json::real_of(node, "cpu_seconds");
    process.version = optional_text(node, "version");
    return process;
}

SupervisedProgram program_of(Node const& node) {
    SupervisedProgram program;
    program.name = json::text_of(node, "name");
    program.kind = json::text_of(node, "kind");
    program.wanted = whole(node, "wanted").value_or(0);
    program.is_ready = flag(node, "ready");
    program.is_internal = flag(node, "internal");
    program.version = optional_text(node, "version");
    for (Node const& process : array(node, "processes"))
        program.processes.push_back(process_of(process));
    return program;
}

/// Adds a program; one with many processes continues in the next reply.
void add_program(std::vector<SupervisedProgram>& programs, SupervisedProgram program) {
    if (programs.empty() || programs.back().name != program.name) return programs.push_back(std::move(program));
    std::ranges::move(program.processes, std::back_inserter(programs.back().processes));
}

bool continues(Node const& program, Node const& next) {
    return json::text_of(program, "name") == json::text_of(next, "name");
}

void append_processes(Node& program, Node const& next) {
    auto* const members = std::get_if<json::Object>(&program.value);
    if (!members) return;
    auto const place = std::ranges::find(*members, "processes", &json::Member::key);
    auto* const processes = place != members->end() ? std::get_if<Array>(&place->node.value) : nullptr;
    if (!processes) return;
    Array const& more = array(next, "processes");
    processes->insert(processes->end(), more.begin(), more.end());
}

constexpr double most_deviation = 2;  // seconds: rounding, and how long an answer takes

double settled(double before, double at) { return std::abs(at - before) < most_deviation ? before : at; }

bool counts_as_ready(SupervisedProcess const& process) { return process.is_ready || process.state == "done"; }

void append_program(std::string& out, SupervisedProgram const& program, bool is_ready) {
    out.append(is_ready ? "[+]" : "[-]").append(program.name.empty() ? "processes" : program.name);
    out += is_ready ? " ok" : " not ready";
    char const* separator = ": ";
    for (SupervisedProcess const& process : program.processes) {
        if (is_ready || process.number > program.wanted || counts_as_ready(process)) continue;
        out.append(std::exchange(separator, ", ")).append("process ").append(std::to_string(process.number));
        out.append(" ").append(process.state);
        if (process.state == "up") out += ", but a check fails";
    }
    out += '\n';
}

}  // namespace

SupervisionStatus supervision_status(Node const& get_status, std::vector<Node> const& list) {
    SupervisionStatus status;
    if (Node const* const launcher = json::member(get_status, "launcher")) {
        status.version = json::text_of(*launcher, "version");
        status.phase = json::text_of(*launcher, "phase");
        status.uptime_seconds = json::real_of(*launcher, "uptime_seconds").value_or(0);
        status.has_configuration = flag(*launcher, "has_configuration");
        status.configuration_changes = whole(*launcher, "configuration_changes");
        status.configuration_time = json::real_of(*launcher, "configuration_time");
        for (Node const& reason : array(*launcher, "rejection")) {
            if (auto const* const value = reason.get<std::string>()) status.rejection.push_back(*value);
        }
    }
    for (Node const& part : list) {
        for (Node const& program : array(part, "programs"))
            add_program(status.programs, program_of(program));
    }
    return status;
}

void StartTimes::settle(SupervisionStatus& status, double now) {
    launcher_ = status.started_at = settled(launcher_, std::floor(now - status.uptime_seconds));
    auto const before = std::exchange(processes_, {});
    for (SupervisedProgram& program : status.programs) {
        for (SupervisedProcess& process : program.processes) {
            if (!process.started_seconds_ago) continue;
            std::pair const key(program.name, process.number);
            auto const known = before.find(key);
            double at = std::floor(now - *process.started_seconds_ago);
            if (known != before.end() && known->second.number == process.starts) at = settled(known->second.at, at);
            process.started_at = at;
            processes_[key] = {process.starts, at};
        }
    }
}

Readiness readiness(SupervisionStatus const& status) {
    Readiness result{true, {}};
    if (status.phase != "running") {
        result = {false, "[-]launcher " + (status.phase.empty() ? "unknown" : status.phase) + "\n"};
    } else if (!status.has_configuration) {
        result = {false, "[-]configuration none\n"};
    }
    for (SupervisedProgram const& program : status.programs) {
        if (program.kind == "scheduled" || program.is_internal) continue;
        append_program(result.text, program, program.is_ready);
        result.is_ready = result.is_ready && program.is_ready;
    }
    result.text += result.is_ready ? "ready\n" : "not ready\n";
    return result;
}

std::string programs_json(std::vector<Node> const& list) {
    json::Writer out;
    out.open('[');
    std::optional<Node> unfinished;  // the last program of a part, which the next one may continue
    for (Node const& part : list) {
        Array const& programs = array(part, "programs");
        for (Node const& program : programs) {
            if (unfinished && continues(*unfinished, program)) {
                append_processes(*unfinished, program);
                continue;
            }
            if (unfinished) out.value(*unfinished);
            unfinished.reset();
            if (&program == &programs.back())
                unfinished = program;
            else
                out.value(program);
        }
    }
    if (unfinished) out.value(*unfinished);
    return out.close(']').text();
}

std::expected<std::vector<std::string>, std::string> parse_hashes_request(std::string_view body,
                                                                          std::size_t most_paths) {
    json::ProblemList problems{1};
    auto const document = json::read_json(body, json::Limits{}, problems);
    if (!document || !problems.empty()) {
        auto const taken = std::move(problems).take();
        return std::unexpected("the body is not JSON: " + (taken.empty() ? std::string() : taken.front().text()));
    }
    Node const* const paths = json::member(*document, "paths");
    auto const* const elements = paths ? paths->get<json::Array>() : nullptr;
    if (!elements) return std::unexpected("the body is not an object with an array \"paths\"");
    if (elements->size() > most_paths)
        return std::unexpected("more than " + std::to_string(most_paths) + " paths in one request");
    std::vector<std::string> result;
    for (Node const& element : *elements) {
        auto const* const path = element.get<std::string>();
        if (!path || path->empty() || path->find('\0') != path->npos)
            return std::unexpected("paths[" + std::to_string(result.size()) + "] is not a path");
        result.push_back(*path);
    }
    return result;
}

std::expected<std::string, std::string> parse_stage_request(std::string_view body) {
    constexpr std::array<std::string_view, 5> known{"all", "files", "binaries", "libraries", "monitor_conf"};
    if (body.empty()) return "all";
    json::ProblemList problems{1};
    auto const document = json::read_json(body, json::Limits{}, problems);
    if (!document || !document->get<json::Object>()) return std::unexpected("the body is not a JSON object");
    if (!json::member(*document, "what")) return "all";
    std::string what = json::text_of(*document, "what");
    if (std::ranges::find(known, what) == known.end())
        return std::unexpected("\"what\" is not one of all, files, binaries, libraries, monitor_conf");
    return what;
}

StagingReply staging_reply(std::vector<Node> const& replies) {
    StagingReply result;
    auto const collect = [](std::vector<std::string>& into, json::Array const& from) {
        for (Node const& element : from) {
            if (auto const* const text = element.get<std::string>()) into.push_back(*text);
        }
    };
    for (Node const& reply : replies) {
        collect(result.files, array(reply, "files"));
        collect(result.errors, array(reply, "errors"));
    }
    return result;
}

std::string staging_json(StagingReply const& reply) {
    json::Writer out;
    out.open('{').key("files").list(reply.files).key("errors").list(reply.errors).close('}');
    return out.text() + "\n";
}

}  // namespace triton::agent
