#include "programs/criadm/node_client.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "lib/json/text.h"

namespace triton::program {

namespace {

constexpr Duration connect_limit = std::chrono::seconds(10);
constexpr std::size_t most_named = 10;

std::string pod_name(node::Subject const& pod) { return pod.name_space() + "/" + pod.name(); }

node::Subject const* find_pod(node::ReportResponse const& report, std::string const& id) {
    auto const found = std::ranges::find(report.pods(), id, &node::Subject::id);
    return found == report.pods().end() ? nullptr : &*found;
}

/// Those that a name or the beginning of an id means. A name means the newest attempt, and of these the newest one.
std::vector<node::Subject const*> meant_by(node::ReportResponse const& report, std::string_view word) {
    std::vector<node::Subject const*> by_id;
    node::Subject const* by_name = nullptr;
    for (auto const* list : {&report.pods(), &report.containers()})
        for (node::Subject const& one : *list) {
            if (one.id() == word) return {&one};
            if (one.id().starts_with(word)) by_id.push_back(&one);
            if (object_name(report, one) != word) continue;
            auto const age = [](node::Subject const& subject) {
                return std::pair(subject.attempt(), subject.created_at());
            };
            if (!by_name || age(*by_name) < age(one)) by_name = &one;
        }
    if (by_name) return {by_name};
    return by_id;
}

}  // namespace

Result<NodeClient> NodeClient::connect(Options const& options) {
    std::string const path = options.socket.empty() ? options.root + "/run/triton/cri.sock" : options.socket;
    auto connection = http::grpc::Client::connect(path, connect_limit);
    if (connection) return NodeClient(*std::move(connection));
    Error error = connection.error();
    if (error.kind == ErrorKind::unavailable) {
        error.details.emplace_back("systemctl start tritoncrid.socket starts tritoncrid.");
        error.details.emplace_back("Pods go on without it: each has a monitor of its own (triton-pod).");
    }
    if (error.kind == ErrorKind::denied) error.details.emplace_back("Only root may use this socket.");
    return std::unexpected(std::move(error));
}

Result<std::string> NodeClient::call_bytes(cri::Method const& method, std::string message, Duration limit) {
    auto answer = connection_.call(std::string(method.path), std::move(message), limit);
    if (answer) return *std::move(answer);
    return std::unexpected(http::grpc::error_of(answer.error()));
}

Result<> NodeClient::call_each(cri::Method const& method, std::vector<std::string> messages, Duration limit) {
    for (auto const& answer : connection_.call_each(std::string(method.path), std::move(messages), limit))
        if (!answer) return std::unexpected(http::grpc::error_of(answer.error()));
    return {};
}

Result<node::ReportResponse> read_report(Options const& options) {
    auto client = TRY(NodeClient::connect(options));
    auto report = TRY(client.call<node::ReportResponse>(cri::report_method, node::ReportRequest(), look_limit));
    auto const order = [&report](node::Subject const& left, node::Subject const& right) {
        auto const key = [&report](node::Subject const& one) {
            return std::tuple(object_name(report, one), one.attempt(), one.created_at(), one.id());
        };
        return key(left) < key(right);
    };
    std::sort(report.mutable_pods()->begin(), report.mutable_pods()->end(), order);
    std::sort(report.mutable_containers()->begin(), report.mutable_containers()->end(), order);
    return report;
}

std::string object_name(node::ReportResponse const& report, node::Subject const& subject) {
    if (subject.pod().empty()) return pod_name(subject);
    node::Subject const* const pod = find_pod(report, subject.pod());
    return (pod ? pod_name(*pod) : subject.pod()) + "/" + subject.name();
}

Result<node::Subject> find_object(node::ReportResponse const& report, std::string_view word) {
    if (word.empty()) return fail("an OBJECT is not empty");
    auto const found = meant_by(report, word);
    if (found.size() == 1) return *found.front();
    if (found.empty()) return fail(ErrorKind::not_found, "there is no pod and no container " + json::shown(word));
    Error error{
        ErrorKind::invalid, {}, json::shown(word) + " means " + std::to_string(found.size()) + " objects", {}, 0};
    for (node::Subject const* const one : found)
        if (error.details.size() < most_named) error.details.push_back(one->id() + "  " + object_name(report, *one));
    return std::unexpected(std::move(error));
}

}  // namespace triton::program
