// Commands that stop, remove and repair.

#include <algorithm>
#include <array>

#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "programs/criadm/command_line.h"
#include "programs/criadm/findings.h"
#include "programs/criadm/node_client.h"

namespace triton::program {

namespace {

// What a stop or a removal may take beside the grace: plugins have a minute each.
constexpr Duration change_limit = std::chrono::minutes(10);
constexpr Duration check_limit = std::chrono::minutes(5);

Outcome stop_containers(NodeClient& client, std::vector<std::string> const& ids, double grace) {
    std::vector<std::string> requests;
    for (std::string const& id : ids) {
        v1::StopContainerRequest request;
        request.set_container_id(id);
        request.set_timeout(static_cast<std::int64_t>(grace));
        requests.push_back(request.SerializeAsString());
    }
    auto const limit = change_limit + std::chrono::seconds(static_cast<std::int64_t>(grace));
    return client.call_each(cri::method("StopContainer"), std::move(requests), limit);
}

/// The containers first, each with the whole grace at the same time: StopPodSandbox kills what is left.
Outcome stop_object(NodeClient& client, node::ReportResponse const& report, node::Subject const& subject,
                    double grace) {
    if (!subject.pod().empty()) return stop_containers(client, {subject.id()}, grace);
    std::vector<std::string> ids;
    for (node::Subject const& container : report.containers())
        if (container.pod() == subject.id()) ids.push_back(container.id());
    TRY(stop_containers(client, ids, grace));
    v1::StopPodSandboxRequest request;
    request.set_pod_sandbox_id(subject.id());
    TRY(client.call<v1::StopPodSandboxResponse>(cri::method("StopPodSandbox"), request, change_limit));
    return {};
}

Outcome remove_object(NodeClient& client, node::Subject const& subject) {
    if (!subject.pod().empty()) {
        v1::RemoveContainerRequest request;
        request.set_container_id(subject.id());
        TRY(client.call<v1::RemoveContainerResponse>(cri::method("RemoveContainer"), request, change_limit));
        return {};
    }
    v1::RemovePodSandboxRequest request;
    request.set_pod_sandbox_id(subject.id());
    TRY(client.call<v1::RemovePodSandboxResponse>(cri::method("RemovePodSandbox"), request, change_limit));
    return {};
}

Outcome run_stop(Options const& options) {
    TRY(expect_words(options, "stop", 1, 1));
    auto const report = TRY(read_report(options));
    auto const subject = TRY(find_object(report, options.words.front()));
    auto client = TRY(NodeClient::connect(options));
    return stop_object(client, report, subject, options.grace);
}

Outcome run_remove(Options const& options) {
    TRY(expect_words(options, "remove", 1, 1));
    auto const report = TRY(read_report(options));
    auto const subject = TRY(find_object(report, options.words.front()));
    auto client = TRY(NodeClient::connect(options));
    TRY(stop_object(client, report, subject, options.grace));
    return remove_object(client, subject);
}

Outcome run_recover(Options const& options) {
    TRY(expect_words(options, "recover", 0, 0));
    return check_node(options, true);
}

void add_stop_options(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_option("--grace", options.grace, "Seconds between the stop signal and SIGKILL (10).")
        ->check(CLI::Range(0.0, 86'400.0));
}

void add_recover_options(CLI::App& app, Options& options) {
    app.add_flag("-j,--json", options.as_json, "JSON instead of text.");
}

std::string finding_text(node::Finding const& finding) {
    std::string line = finding.path().empty() ? finding.id() : finding.path();
    line += ": " + finding.text();
    if (finding.is_repaired()) line += finding.kind() == "retry" ? " (tried again)" : " (removed)";
    if (!finding.error().empty()) line += " (not removed: " + finding.error() + ")";
    return text::printable(line) + "\n";
}

void write_finding(json::Writer& out, node::Finding const& finding) {
    out.open('{').member("kind", finding.kind()).member("id", finding.id()).member("path", finding.path());
    out.member("text", finding.text()).member("repaired", finding.is_repaired());
    if (!finding.error().empty()) out.member("error", finding.error());
    out.close('}');
}

}  // namespace

Outcome check_node(Options const& options, bool repairs) {
    auto client = TRY(NodeClient::connect(options));
    node::CheckRequest request;
    request.set_repairs(repairs);
    auto const response = TRY(client.call<node::CheckResponse>(cri::check_method, request, check_limit));
    if (options.as_json) {
        json::Writer out;
        out.open('[');
        for (node::Finding const& finding : response.findings())
            write_finding(out, finding);
        TRY(print(text::printable_json(std::move(out.close(']')).text()) + "\n"));
    } else {
        std::string text;
        for (node::Finding const& finding : response.findings())
            text += finding_text(finding);
        TRY(print(text));
    }
    auto const left = std::ranges::count(response.findings(), false, &node::Finding::is_repaired);
    if (left == 0) return {};
    return fail(ErrorKind::refused, std::to_string(left) + (left == 1 ? " thing is" : " things are") +
                                        (repairs ? " still left over, or failing"
                                                 : " left over, or failing; `criadm recover` repairs what can be"));
}

std::span<Command const> change_commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"stop", "OBJECT [--grace SECONDS]", "stops a pod or container, and waits for that",
         "criadm stop --grace 30 default/web", add_stop_options, run_stop},
        {"remove", "OBJECT [--grace SECONDS]", "stops and removes a pod or container", "criadm remove default/web",
         add_stop_options, run_remove},
        {"recover", "[-j]", "tries again what fails, and removes what is left over", "criadm recover",
         add_recover_options, run_recover},
    });
    return rows;
}

}  // namespace triton::program
