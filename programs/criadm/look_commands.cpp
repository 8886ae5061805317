// Commands that change nothing.

#include <algorithm>
#include <array>
#include <optional>

#include <unistd.h>

#include "lib/base/rfc3339.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "programs/criadm/command_line.h"
#include "programs/criadm/findings.h"
#include "programs/criadm/node_client.h"
#include "programs/frame/columns.h"

namespace triton::program {

namespace {

constexpr std::int64_t nanoseconds_a_second = 1'000'000'000;
constexpr std::size_t short_id = 13;  // as crictl shows it

using SubjectColumn = Column<node::ReportResponse, node::Subject>;

std::string or_dash(std::string text) { return text.empty() ? "-" : text; }

std::string age_of(std::int64_t nanoseconds) {
    if (nanoseconds == 0) return "-";
    std::int64_t const seconds =
        std::max<std::int64_t>(wall_microseconds() / 1'000'000 - nanoseconds / nanoseconds_a_second, 0);
    struct Unit {
        std::int64_t seconds;
        char letter;
    };
    for (Unit const unit : {Unit{86'400, 'd'}, Unit{3'600, 'h'}, Unit{60, 'm'}})
        if (seconds >= 2 * unit.seconds) return std::to_string(seconds / unit.seconds) + unit.letter;
    return std::to_string(seconds) + "s";
}

std::string joined_addresses(node::Subject const& one) {
    std::string text;
    for (std::string const& address : one.addresses())
        text += (text.empty() ? "" : ",") + address;
    return text;
}

std::size_t containers_of(node::ReportResponse const& report, node::Subject const& pod) {
    return static_cast<std::size_t>(std::ranges::count(report.containers(), pod.id(), &node::Subject::pod));
}

std::string exit_of(node::Subject const& one) {
    return one.state() == "exited" ? std::to_string(one.exit_code()) : "-";
}

using Report = node::ReportResponse;
using Subject = node::Subject;
constexpr auto subject_columns = std::to_array<SubjectColumn>({
    {"id", "ID", [](Report const&, Subject const& one) { return one.id().substr(0, short_id); }},
    {"full-id", "ID", [](Report const&, Subject const& one) { return one.id(); }},
    {"object", "OBJECT", [](Report const& report, Subject const& one) { return object_name(report, one); }},
    {"namespace", "NAMESPACE", [](Report const&, Subject const& one) { return or_dash(one.name_space()); }},
    {"name", "NAME", [](Report const&, Subject const& one) { return one.name(); }},
    {"attempt", "ATTEMPT", [](Report const&, Subject const& one) { return std::to_string(one.attempt()); }},
    {"state", "STATE", [](Report const&, Subject const& one) { return one.state(); }},
    {"age", "AGE", [](Report const&, Subject const& one) { return age_of(one.created_at()); }},
    {"containers", "CONTAINERS",
     [](Report const& report, Subject const& one) { return std::to_string(containers_of(report, one)); }},
    {"addresses", "ADDRESSES", [](Report const&, Subject const& one) { return or_dash(joined_addresses(one)); }},
    {"pid", "PID", [](Report const&, Subject const& one) { return one.pid() == 0 ? "-" : std::to_string(one.pid()); }},
    {"exit", "EXIT", [](Report const&, Subject const& one) { return exit_of(one); }},
    {"reason", "REASON", [](Report const&, Subject const& one) { return or_dash(one.reason()); }},
    {"image", "IMAGE", [](Report const&, Subject const& one) { return or_dash(one.image()); }},
    {"pod", "POD", [](Report const&, Subject const& one) { return or_dash(one.pod().substr(0, short_id)); }},
    {"why", "WHY", [](Report const&, Subject const& one) { return one.why().empty() ? std::string("-") : one.why(0); }},
});
constexpr std::string_view usual_pod_columns = "id,object,attempt,state,age,containers,addresses";
constexpr std::string_view usual_container_columns = "id,object,attempt,state,age,pid,exit,reason,image";

/// A time as people and programs read it. One that has not come is left out.
void add_time(json::Writer& out, std::string_view name, std::int64_t nanoseconds) {
    if (nanoseconds == 0) return;
    TimeText text;
    out.member(name, text.at(nanoseconds / 1000));
}

void add_texts(json::Writer& out, std::initializer_list<std::pair<char const*, std::string const*>> members) {
    for (auto const& [name, text] : members)
        if (!text->empty()) out.member(name, *text);
}

void write_subject(json::Writer& out, Report const& report, Subject const& one) {
    std::string const object = object_name(report, one);
    out.open('{').member("id", one.id()).member("object", object).member("name", one.name());
    add_texts(out, {{"namespace", &one.name_space()}, {"uid", &one.uid()}, {"pod", &one.pod()}});
    out.member("attempt", one.attempt()).member("state", one.state()).key("why").list(one.why());
    out.member("knownToKubelet", one.is_known());
    add_time(out, "createdAt", one.created_at());
    add_time(out, "startedAt", one.started_at());
    add_time(out, "finishedAt", one.finished_at());
    if (one.state() == "exited") out.member("exitCode", one.exit_code());
    if (one.pid() != 0) out.member("pid", one.pid());
    if (one.pod().empty()) out.key("addresses").list(one.addresses());
    add_texts(out, {{"reason", &one.reason()},
                    {"image", &one.image()},
                    {"logPath", &one.log_path()},
                    {"cgroup", &one.cgroup()},
                    {"directory", &one.directory()},
                    {"layer", &one.layer()},
                    {"networkNamespace", &one.network_namespace()}});
    if (one.pod().empty()) {
        out.key("containers").open('[');
        for (Subject const& container : report.containers())
            if (container.pod() == one.id()) write_subject(out, report, container);
        out.close(']');
    }
    out.close('}');
}

void add_list_options(CLI::App& app, Options& options) {
    app.add_flag("-c,--containers", options.is_of_containers, "Containers instead of pods.");
    app.add_flag("-j,--json", options.as_json, "JSON instead of a table.");
    app.add_flag("-H", options.without_header, "Without the header.");
    app.add_option("-o", options.fields, "Columns, with commas between them.");
}

Outcome run_list(Options const& options) {
    TRY(expect_words(options, "list", 0, 0));
    auto const columns = TRY(choose_columns(std::span<SubjectColumn const>(subject_columns),
                                            !options.fields.empty()    ? std::string_view(options.fields)
                                            : options.is_of_containers ? usual_container_columns
                                                                       : usual_pod_columns));
    Report const report = TRY(read_report(options));
    auto const& subjects = options.is_of_containers ? report.containers() : report.pods();
    if (options.as_json) {
        json::Writer out;
        out.open('[');
        for (Subject const& one : subjects)
            write_subject(out, report, one);
        TRY(print(text::printable_json(std::move(out.close(']')).text()) + "\n"));
        return {};
    }
    TableRows table(columns, !options.without_header);
    for (Subject const& one : subjects)
        table.add(report, one);
    TRY(print(table.text()));
    return {};
}

Outcome run_show(Options const& options) {
    TRY(expect_words(options, "show", 1, 1));
    Report const report = TRY(read_report(options));
    Subject const subject = TRY(find_object(report, options.words.front()));
    json::Writer out;
    write_subject(out, report, subject);
    TRY(print(text::printable_json(std::move(out).text()) + "\n"));
    return {};
}

Outcome run_why(Options const& options) {
    TRY(expect_words(options, "why", 1, 1));
    Report const report = TRY(read_report(options));
    Subject const subject = TRY(find_object(report, options.words.front()));
    std::string text = object_name(report, subject) + "  " + subject.id() + "  " + subject.state() + "\n";
    for (std::string const& line : subject.why())
        text += "  " + text::printable(line) + "\n";
    for (Subject const& container : report.containers())
        if (container.pod() == subject.id() && !container.why().empty())
            text += "  " + text::printable(container.name()) + ": " + text::printable(container.why(0)) + "\n";
    TRY(print(text));
    return {};
}

/// The conditions of the node, as kubelet sees them.
Outcome run_status(Options const& options) {
    TRY(expect_words(options, "status", 0, 0));
    auto client = TRY(NodeClient::connect(options));
    auto const version =
        TRY(client.call<v1::VersionResponse>(cri::method("Version"), v1::VersionRequest(), look_limit));
    auto const status = TRY(client.call<v1::StatusResponse>(cri::method("Status"), v1::StatusRequest(), look_limit));
    if (options.as_json) {
        json::Writer out;
        out.open('{').member("version", version.runtime_version()).key("conditions").open('[');
        for (auto const& one : status.status().conditions())
            out.open('{')
                .member("type", one.type())
                .member("status", one.status())
                .member("reason", one.reason())
                .member("message", one.message())
                .close('}');
        TRY(print(text::printable_json(std::move(out.close(']').close('}')).text()) + "\n"));
        return {};
    }
    std::string text = "tritoncrid " + version.runtime_version() + "\n";
    for (auto const& one : status.status().conditions())
        text += text::printable(one.type() + (one.status() ? " yes" : " no: " + one.reason() + ": " + one.message())) +
                "\n";
    TRY(print(text));
    return {};
}

char const* event_name(v1::ContainerEventType type) {
    switch (type) {
        case v1::CONTAINER_CREATED_EVENT: return "created";
        case v1::CONTAINER_STARTED_EVENT: return "started";
        case v1::CONTAINER_STOPPED_EVENT: return "stopped";
        case v1::CONTAINER_DELETED_EVENT: return "deleted";
        default: return "unknown";
    }
}

/// A line about what has happened to a container, or to a pod itself.
std::string event_line(v1::ContainerEventResponse const& event, bool as_json) {
    auto const& pod = event.pod_sandbox_status().metadata();
    bool const is_of_pod = event.container_id() == event.pod_sandbox_status().id();
    std::string object = pod.name().empty() ? "" : pod.namespace_() + "/" + pod.name();
    v1::ContainerStatus const* status = nullptr;
    for (auto const& one : event.containers_statuses())
        if (one.id() == event.container_id()) status = &one;
    if (status) object += "/" + status->metadata().name();
    bool const has_exited = status && status->state() == v1::CONTAINER_EXITED;
    TimeText time;
    std::string_view const when = time.at(event.created_at() / 1000);
    if (as_json) {
        json::Writer out;
        out.open('{').member("time", when).member("event", event_name(event.container_event_type()));
        out.member("id", event.container_id()).member("object", object).member("isPod", is_of_pod);
        if (has_exited) out.member("exitCode", status->exit_code()).member("reason", status->reason());
        return text::printable_json(std::move(out.close('}')).text()) + "\n";
    }
    std::string line = std::string(when) + "  " + event_name(event.container_event_type()) + "  " +
                       event.container_id().substr(0, short_id) + "  " + or_dash(object);
    if (has_exited) line += "  exit " + std::to_string(status->exit_code()) + " " + status->reason();
    return text::printable(line) + "\n";
}

void add_events_options(CLI::App& app, Options& options) {
    app.add_flag("-j,--json", options.as_json, "Each event as a JSON object in one line.");
    app.add_option("--timeout", options.timeout, "Ends after so many seconds.")->check(CLI::Range(0.001, 1e9));
}

Outcome run_events(Options const& options) {
    TRY(expect_words(options, "events", 0, 0));
    auto client = TRY(NodeClient::connect(options));
    http::grpc::Client::Following following{.deadline = {}, .reader = STDOUT_FILENO};
    if (options.timeout > 0)
        following.deadline =
            steady_now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.timeout));
    Outcome outcome;
    auto const take = [&](std::string const& bytes) {
        v1::ContainerEventResponse event;
        if (!event.ParseFromString(bytes)) {
            outcome = fail(ErrorKind::corrupt, "read an event of tritoncrid", "it is not a valid message");
            return false;
        }
        auto const printed = print(event_line(event, options.as_json));
        if (!printed) outcome = std::unexpected(printed.error());
        return printed && *printed;
    };
    using http::grpc::Code;
    auto const status = client.connection().follow(std::string(cri::method("GetContainerEvents").path),
                                                   v1::GetEventsRequest().SerializeAsString(), following, take);
    bool const has_ended =
        status.code == Code::cancelled || (status.code == Code::deadline_exceeded && following.deadline);
    if (!outcome || has_ended) return outcome;
    if (status.code == Code::ok) return fail(ErrorKind::unavailable, "tritoncrid has ended");
    return std::unexpected(http::grpc::error_of(status));
}

Outcome run_check(Options const& options) {
    TRY(expect_words(options, "check", 0, 0));
    return check_node(options, false);
}

void add_json_option(CLI::App& app, Options& options) {
    app.add_flag("-j,--json", options.as_json, "JSON instead of text.");
}

}  // namespace

std::span<Command const> look_commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"list", "[-c] [-j] [-H] [-o COLUMNS]", "lists pods, or containers", "criadm list -c -o object,state,why",
         add_list_options, run_list},
        {"show", "OBJECT", "prints all that is known of a pod or container as JSON", "criadm show default/web",
         add_words, run_show},
        {"why", "OBJECT", "says why it is as it is, and what would help", "criadm why default/web", add_words, run_why},
        {"status", "[-j]", "says whether the node can run pods", "criadm status", add_json_option, run_status},
        {"events", "[-j] [--timeout SECONDS]", "prints what happens to containers", "criadm events -j",
         add_events_options, run_events},
        {"check", "[-j]", "looks for what is left over or fails", "criadm check", add_json_option, run_check},
    });
    return rows;
}

}  // namespace triton::program
