#include "programs/tritoncrid/runtime_calls.h"

#include <algorithm>
#include <utility>

#include "host/cri/cni/network_configuration.h"
#include "host/cri/cni/plugins.h"
#include "host/cri/sandbox/user_namespace.h"
#include "host/cri/wire/typed.h"
#include "lib/http/grpc/status.h"

namespace triton::program {

namespace v1 = cri::v1;
using cri::answered;
using cri::method;
using cri::typed;

namespace {

constexpr milliseconds status_limit{10'000};
constexpr char runtime_name[] = "triton";  // the scheme of container ids in Kubernetes' API

v1::VersionResponse version_response() {
    v1::VersionResponse response;
    response.set_version("0.1.0");  // of the interface, ever since
    response.set_runtime_name(runtime_name);
    response.set_runtime_version(TRITON_VERSION);
    response.set_runtime_api_version("v1");
    return response;
}

/// A condition of the node. `problem`: nullopt: it holds.
void add_condition(v1::StatusResponse& response, char const* type, char const* reason,
                   std::optional<Error> const& problem) {
    v1::RuntimeCondition& condition = *response.mutable_status()->add_conditions();
    condition.set_type(type);
    condition.set_status(!problem);
    if (!problem) return;
    condition.set_reason(reason);
    condition.set_message(http::grpc::valid_utf8(problem->text()));
}

v1::StatusResponse status_response(std::optional<Error> const& images, std::optional<Error> const& programs,
                                   std::optional<Error> const& network) {
    v1::StatusResponse response;
    if (images)
        add_condition(response, "RuntimeReady", "ImagesUnavailable", images);
    else
        add_condition(response, "RuntimeReady", "ProgramsMissing", programs);
    add_condition(response, "NetworkReady", "NetworkNotConfigured", network);
    v1::RuntimeHandlerFeatures& handler = *response.add_runtime_handlers()->mutable_features();  // the default one
    handler.set_recursive_read_only_mounts(true);
    handler.set_user_namespaces(cri::has_user_namespaces());
    response.mutable_features()->set_supplemental_groups_policy(true);
    response.mutable_features()->set_mount_options(true);
    response.mutable_features()->set_cgroup_mount_mode(true);
    return response;
}

v1::RuntimeConfigResponse configuration_response(CgroupDriver driver) {
    v1::RuntimeConfigResponse response;
    response.mutable_linux()->set_cgroup_driver(driver == CgroupDriver::systemd ? v1::SYSTEMD : v1::CGROUPFS);
    return response;
}

/// Whether pods can have a network now. Its plugins are asked, where they know that question.
Result<> find_usable_network(std::string const& directory, CriConfiguration const& configuration) {
    cri::NetworkFile const file = TRY(cri::find_network(directory));
    // The next question comes in five seconds.
    cri::Plugins const plugins(configuration.plugin_directories, std::min(configuration.plugin_timeout, status_limit));
    return plugins.status(file.list);
}

}  // namespace

RuntimeCalls::RuntimeCalls(Surroundings around)
    : around_(std::move(around)),
      driver_(settled(around_.configuration.cgroup_driver, around_.root)),
      images_(Error{
          .kind = ErrorKind::unavailable, .attempted = {}, .reason = "images are being recovered", .details = {}}) {}

RuntimeCalls::~RuntimeCalls() = default;

void RuntimeCalls::recover(std::function<void(Result<> const&)> done) {
    if (std::exchange(is_recovering_, true)) return;
    auto const queued = worker_.run([this, done = std::move(done)] {
        auto result = std::make_shared<Result<>>(around_.library.recover());
        around_.post([this, result, done] {
            is_recovering_ = false;
            images_ = *result ? std::nullopt : std::optional(result->error());
            done(*result);
        });
    });
    if (queued) return;
    is_recovering_ = false;
    images_ = queued.error();
}

/// The directory of networks may be on a file system that hangs.
void RuntimeCalls::answer_status(CallPtr const& call) {
    if (images_) recover([](Result<> const&) {});
    auto const directory = around_.root + around_.configuration.network_directory;
    auto const queued = worker_.run([this, call = CallPtr(call), directory]() mutable {
        auto const usable = find_usable_network(directory, around_.configuration);
        auto const network = usable ? std::nullopt : std::optional(usable.error());
        auto const programs = around_.pods.missing();
        around_.post([this, call = std::exchange(call, nullptr), programs, network] {
            call->answer(status_response(images_, programs, network).SerializeAsString());
        });
    });
    if (!queued) call->finish(http::grpc::status_of(queued.error()));
}

void RuntimeCalls::add_to(cri::Router& router) {
    router.on(method("Version"),
              answered<v1::VersionRequest>([](v1::VersionRequest const& /*request*/) { return version_response(); }));
    router.on(method("Status"),
              typed<v1::StatusRequest>([this](CallPtr const& call, auto const& /*request*/) { answer_status(call); }));
    router.on(method("RuntimeConfig"),
              answered<v1::RuntimeConfigRequest>(
                  [this](v1::RuntimeConfigRequest const& /*request*/) { return configuration_response(driver_); }));
}

}  // namespace triton::program
