#include "sidecar/agent/status.h"

#include <algorithm>

#include "config/json_text.h"
#include "sidecar/agent/control_reply.h"

namespace triton::sidecar {

namespace {

using config::JsonArray;
using config::Node;

std::string text(Node const& object, std::string_view name) {
    Node const* const node = member(object, name);
    auto const* const value = node ? node->get<std::string>() : nullptr;
    return value ? *value : std::string();
}

std::optional<std::string> optional_text(Node const& object, std::string_view name) {
    std::string value = text(object, name);
    if (value.empty()) return std::nullopt;
    return value;
}

bool flag(Node const& object, std::string_view name) {
    Node const* const node = member(object, name);
    auto const* const value = node ? node->get<bool>() : nullptr;
    return value && *value;
}

std::optional<double> real(Node const& object, std::string_view name) {
    Node const* const node = member(object, name);
    if (!node) return std::nullopt;
    if (auto const* const whole = node->get<std::int64_t>()) return static_cast<double>(*whole);
    if (auto const* const odd = node->get<config::JsonOddNumber>()) return std::strtod(odd->text.c_str(), nullptr);
    return std::nullopt;
}

std::optional<std::int64_t> whole(Node const& object, std::string_view name) {
    Node const* const node = member(object, name);
    auto const* const value = node ? node->get<std::int64_t>() : nullptr;
    if (!value) return std::nullopt;
    return *value;
}

JsonArray const& array(Node const& object, std::string_view name) {
    static JsonArray const none;
    Node const* const node = member(object, name);
    auto const* const value = node ? node->get<JsonArray>() : nullptr;
    return value ? *value : none;
}

SupervisedProcess process_of(Node const& node) {
    SupervisedProcess process;
    process.number = whole(node, "number").value_or(1);
    process.state = text(node, "state");
    process.is_ready = flag(node, "ready");
    process.starts = whole(node, "starts").value_or(0);
    process.uptime_seconds = real(node, "uptime_seconds");
    process.memory_bytes = whole(node, "memory_bytes");
    process.cpu_seconds = real(node, "cpu_seconds");
    process.version = optional_text(node, "version");
    return process;
}

SupervisedProgram program_of(Node const& node) {
    SupervisedProgram program;
    program.name = text(node, "name");
    program.kind = text(node, "kind");
    program.wanted = whole(node, "wanted").value_or(0);
    program.is_ready = flag(node, "ready");
    program.version = optional_text(node, "version");
    for (Node const& process : array(node, "processes"))
        program.processes.push_back(process_of(process));
    return program;
}

/// A program with many processes goes on in the next reply.
void add_program(std::vector<SupervisedProgram>& programs, SupervisedProgram program) {
    if (programs.empty() || programs.back().name != program.name) return programs.push_back(std::move(program));
    std::ranges::move(program.processes, std::back_inserter(programs.back().processes));
}

bool counts_as_ready(SupervisedProcess const& process) { return process.is_ready || process.state == "done"; }

void append_program(std::string& out, SupervisedProgram const& program, bool is_ready) {
    out.append(is_ready ? "[+]" : "[-]").append(program.name.empty() ? "processes" : program.name);
    out += is_ready ? " ok" : " not ready";
    char const* separator = ": ";
    for (SupervisedProcess const& process : program.processes) {
        if (is_ready || process.number > program.wanted || counts_as_ready(process)) continue;
        out.append(std::exchange(separator, ", ")).append("process ").append(std::to_string(process.number));
        out.append(" ").append(process.state);
    }
    out += '\n';
}

}  // namespace

SupervisionStatus supervision_status(Node const& get_status, std::vector<Node> const& list) {
    SupervisionStatus status;
    if (Node const* const launcher = member(get_status, "launcher")) {
        status.version = text(*launcher, "version");
        status.phase = text(*launcher, "phase");
        status.uptime_seconds = real(*launcher, "uptime_seconds").value_or(0);
        status.has_configuration = flag(*launcher, "has_configuration");
        status.configuration_changes = whole(*launcher, "configuration_changes");
        status.configuration_time = real(*launcher, "configuration_time");
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

Readiness readiness(SupervisionStatus const& status) {
    Readiness result{true, {}};
    if (status.phase != "running") {
        result = {false, "[-]launcher " + (status.phase.empty() ? "unknown" : status.phase) + "\n"};
    } else if (!status.has_configuration) {
        result = {false, "[-]configuration none\n"};
    }
    for (SupervisedProgram const& program : status.programs) {
        if (program.kind == "scheduled") continue;
        append_program(result.text, program, program.is_ready);
        result.is_ready = result.is_ready && program.is_ready;
    }
    result.text += result.is_ready ? "ready\n" : "not ready\n";
    return result;
}

void append_json(std::string& out, Node const& node) {
    if (auto const* const flag = node.get<bool>()) {
        out += *flag ? "true" : "false";
    } else if (auto const* const number = node.get<std::int64_t>()) {
        out += std::to_string(*number);
    } else if (auto const* const odd = node.get<config::JsonOddNumber>()) {
        out += odd->text;
    } else if (auto const* const string = node.get<std::string>()) {
        config::append_json_string(out, *string);
    } else if (auto const* const elements = node.get<JsonArray>()) {
        out += '[';
        for (Node const& element : *elements) {
            if (&element != &elements->front()) out += ',';
            append_json(out, element);
        }
        out += ']';
    } else if (auto const* const members = node.get<config::JsonObject>()) {
        out += '{';
        for (config::Member const& one : *members) {
            if (&one != &members->front()) out += ',';
            config::append_json_string(out, one.key);
            out += ':';
            append_json(out, one.node);
        }
        out += '}';
    } else {
        out += "null";
    }
}

std::string programs_json(std::vector<Node> const& list) {
    std::string out = "[";
    for (Node const& part : list) {
        for (Node const& program : array(part, "programs")) {
            if (out.size() > 1) out += ',';
            append_json(out, program);
        }
    }
    return out += ']';
}

std::expected<std::vector<std::string>, std::string> parse_hashes_request(std::string_view body,
                                                                          std::size_t most_paths) {
    config::ProblemList problems{1};
    auto const document = config::read_json(body, config::Limits{}, problems);
    if (!document || !problems.empty()) {
        auto const taken = std::move(problems).take();
        return std::unexpected("the body is no JSON: " + (taken.empty() ? std::string() : taken.front().text()));
    }
    Node const* const paths = member(*document, "paths");
    auto const* const elements = paths ? paths->get<JsonArray>() : nullptr;
    if (!elements) return std::unexpected("the body is no object with an array \"paths\"");
    if (elements->size() > most_paths)
        return std::unexpected("more than " + std::to_string(most_paths) + " paths in one request");
    std::vector<std::string> result;
    for (Node const& element : *elements) {
        auto const* const path = element.get<std::string>();
        if (!path || path->empty() || path->find('\0') != path->npos)
            return std::unexpected("paths[" + std::to_string(result.size()) + "] is no path");
        result.push_back(*path);
    }
    return result;
}

}  // namespace triton::sidecar
