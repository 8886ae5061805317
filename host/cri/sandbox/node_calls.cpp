#include "host/cri/sandbox/node_calls.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "host/cri/core/why.h"
#include "host/cri/sandbox/pods.h"
#include "host/cri/sandbox/stray_search.h"
#include "host/cri/wire/typed.h"
#include "lib/base/duration.h"
#include "lib/http/grpc/status.h"

namespace triton::cri {

namespace {

constexpr std::size_t most_findings = 10'000;

void add_lines(node::Subject& subject, std::vector<std::string> const& lines, std::optional<Duration> work) {
    for (std::string const& line : lines)
        subject.add_why(http::grpc::valid_utf8(line));
    if (!work) return;
    auto const whole = std::chrono::floor<std::chrono::seconds>(*work);
    subject.add_why("That has taken " + format_duration(whole) + " so far.");
}

node::Subject subject_of(Pods const& pods, core::Pod const& pod, PodData const& data) {
    node::Subject subject;
    auto const& metadata = data.record.config().metadata();
    subject.set_id(pod.id);
    subject.set_name(metadata.name());
    subject.set_name_space(metadata.namespace_());
    subject.set_attempt(metadata.attempt());
    subject.set_uid(metadata.uid());
    subject.set_state(std::string(core::state_word(pod)));
    subject.set_is_known(pod.was_run);
    subject.set_created_at(data.record.created_at());
    if (data.link) subject.set_pid(data.link->pid());
    *subject.mutable_addresses() = data.record.network().addresses();
    subject.set_cgroup(pods.facts().cgroups.pod_path(data.record.config().linux().cgroup_parent()));
    subject.set_directory(pods.facts().places.run(pod.id));
    if (pod.wants_network) subject.set_network_namespace(network_namespace_path(pods.facts(), pod.id));
    subject.set_log_path(data.record.config().log_directory());
    add_lines(subject, core::why(pods.core(), pod), pods.work_time(pod.id));
    return subject;
}

node::Subject subject_of(Pods const& pods, core::Container const& container, ContainerData const& data) {
    node::Subject subject;
    record::Container const& record = data.record;
    auto const& metadata = record.config().metadata();
    subject.set_id(container.id);
    subject.set_pod(container.pod);
    subject.set_name(metadata.name());
    subject.set_attempt(metadata.attempt());
    subject.set_state(std::string(core::state_word(container)));
    subject.set_is_known(container.was_created);
    subject.set_created_at(record.created_at());
    subject.set_started_at(record.started_at());
    if (container.phase == core::Phase::exited) {
        subject.set_finished_at(record.finished_at());
        subject.set_exit_code(container.exit_code);
        subject.set_reason(record.reason());
    }
    subject.set_pid(data.pid);
    subject.set_image(record.config().image().image());
    subject.set_log_path(record.log_path());
    subject.set_cgroup(record.cgroup());
    subject.set_directory(pods.facts().places.bundle(container.pod, container.id));
    subject.set_layer(pods.facts().places.layer(container.id));
    add_lines(subject, core::why(pods.core(), container), pods.work_time(container.id));
    return subject;
}

node::Finding finding_of(Belonging const& stray) {
    node::Finding finding;
    finding.set_kind("stray");
    finding.set_id(stray.id);
    finding.set_path(stray.path);
    finding.set_text(std::string(name_of(stray.kind)) + " that does not exist");
    return finding;
}

/// Records that could not be read: what they were of was killed, and nobody else says so.
void add_archive(HostFacts const& facts, node::CheckResponse& response) {
    std::error_code error;
    for (auto const& entry : std::filesystem::directory_iterator(facts.places.archive(), error)) {
        if (static_cast<std::size_t>(response.findings_size()) >= most_findings) return;
        node::Finding& finding = *response.add_findings();
        finding.set_kind("record");
        finding.set_path(http::grpc::valid_utf8(entry.path().string()));
        finding.set_text("record that could not be read, and was put aside; it may be removed");
    }
}

}  // namespace

NodeCalls::NodeCalls(Pods& pods, std::function<void(std::function<void()>)> post)
    : pods_(pods), post_(std::move(post)), worker_(1) {}

node::ReportResponse NodeCalls::report() const {
    node::ReportResponse response;
    for (auto const& [id, pod] : pods_.core().pods())
        if (PodData const* const data = pods_.find_pod(id)) *response.add_pods() = subject_of(pods_, pod, *data);
    for (auto const& [id, container] : pods_.core().containers())
        if (ContainerData const* const data = pods_.find_container(id))
            *response.add_containers() = subject_of(pods_, container, *data);
    return response;
}

/// What the core itself knows of: work that fails, and pods that nothing runs.
void NodeCalls::add_troubles(node::CheckResponse& response, bool repairs) {
    std::vector<core::Id> waiting;
    auto const add = [&](char const* kind, core::Id const& id, std::string text) -> node::Finding& {
        node::Finding& finding = *response.add_findings();
        finding.set_kind(kind);
        finding.set_id(id);
        finding.set_text(http::grpc::valid_utf8(text));
        return finding;
    };
    auto const add_waiting = [&](core::Id const& id, char const* what, std::optional<Error> const& trouble) {
        add("retry", id, std::string(what) + (trouble ? ": " + trouble->text() : "")).set_is_repaired(repairs);
        waiting.push_back(id);
    };
    for (auto const& [id, pod] : pods_.core().pods()) {
        if (pod.waits) add_waiting(id, "pod that cannot be taken down", pod.trouble);
        if (core::state_word(pod) == "not-ready")
            add("monitor", id, "pod whose monitor has ended; kubelet replaces it, `criadm remove` removes it");
    }
    for (auto const& [id, container] : pods_.core().containers())
        if (container.waits) add_waiting(id, "container that cannot be removed", container.trouble);
    if (!repairs) return;
    for (core::Id const& id : waiting)
        pods_.try_again(id);
}

void NodeCalls::check(CallPtr const& call, bool repairs) {
    auto const queued = worker_.run([this, call = CallPtr(call), repairs, parents = parents_of(pods_)]() mutable {
        auto all = std::make_shared<std::vector<Belonging>>(list_belongings(pods_.facts(), parents, Names::ids));
        post_([this, call = std::exchange(call, nullptr), all, repairs] { finish_check(call, *all, repairs); });
    });
    if (!queued) call->finish(http::grpc::status_of(queued.error()));
}

void NodeCalls::finish_check(CallPtr const& call, std::vector<Belonging> const& all, bool repairs) {
    auto const response = std::make_shared<node::CheckResponse>();
    add_troubles(*response, repairs);
    auto const strays = std::make_shared<std::vector<Belonging>>();
    for (Belonging const& one : all)
        if (!is_known(pods_, one) && strays->size() < most_findings) strays->push_back(one);
    auto const queued = worker_.run([this, call = CallPtr(call), response, strays, repairs]() mutable {
        for (Belonging const& stray : *strays) {
            node::Finding& finding = *response->add_findings();
            finding = finding_of(stray);
            if (!repairs) continue;
            auto const removed = remove_stray(pods_.facts(), stray);
            finding.set_is_repaired(removed.has_value());
            if (!removed) finding.set_error(http::grpc::valid_utf8(removed.error().text()));
        }
        add_archive(pods_.facts(), *response);
        post_([call = std::exchange(call, nullptr), response] { call->answer(response->SerializeAsString()); });
    });
    if (!queued) call->finish(http::grpc::status_of(queued.error()));
}

void NodeCalls::add_to(Router& router) {
    router.on(report_method,
              answered<node::ReportRequest>([this](node::ReportRequest const& /*request*/) { return report(); }));
    router.on(check_method, typed<node::CheckRequest>([this](CallPtr const& call, node::CheckRequest const& request) {
                  check(call, request.repairs());
              }));
}

}  // namespace triton::cri
