#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/base/result.h"
#include "lib/log/log.h"
#include "lib/net/loop.h"
#include "sidecar/control/control_client.h"

namespace triton::kubernetes {

struct KubernetesSettings {
    std::string api_host;       ///< $KUBERNETES_SERVICE_HOST: an address, with or without brackets, or a name
    std::string api_port = {};  ///< $KUBERNETES_SERVICE_PORT; empty: 443
    std::string pod_name;
    std::string pod_namespace;        ///< empty: what the service account's file `namespace` says
    std::string node_name;            ///< empty: what the pod's spec says
    bool watches_node = false;        ///< the node's labels become variables for substitution
    std::string readiness_gate = {};  ///< type of the pod's condition that follows readiness; empty: none
    std::string annotation_prefix = "foundationdb.org/";
    /// `token`, `ca.crt` and perhaps `namespace`. Read again at any time, in start() and after it, as are
    /// `resolver_files` when the host is a name; nothing else is.
    std::string service_account_directory = "/var/run/secrets/kubernetes.io/serviceaccount";
    std::string version = {};  ///< for the User-Agent header and the events' messages
};

/// Tells the cluster what the launcher does, and the launcher what the pod's annotations say: docs/kubernetes.md.
///
/// Reports are the latest state and no queue, so that an API server that is away, slow or hung delays them and nothing
/// else. Calls to the launcher: SetPod, Reload, SetReporter, each only when something has changed.
///
/// One I/O thread; every function is called in it. Needs of the system, once the sandbox has closed: TCP sockets
/// (AF_INET, AF_INET6: socket, connect, getsockopt, setsockopt, shutdown, ioctl FIONBIO), and reading below
/// `service_account_directory`; those of a Resolver when `is_host_name(api_host)`.
class KubernetesReporter {
public:
    /// Begins. `control` and `log` must outlive it. A service account that is not there yet, an API server that cannot
    /// be reached, a name that is not resolved, a missing permission are not errors: SetReporter reports them
    /// and in the log, and tried again. Errors: settings that can never work: no pod name, no namespace, a host that is
    /// neither an address nor a name, no number for a port, a prefix or a gate that Kubernetes would refuse.
    static Result<std::unique_ptr<KubernetesReporter>> start(net::Loop& loop, KubernetesSettings settings,
                                                             sidecar::control::ControlClient& control, log::Log& log);
    ~KubernetesReporter();
    KubernetesReporter(KubernetesReporter const&) = delete;
    KubernetesReporter& operator=(KubernetesReporter const&) = delete;

    /// Before the end: warnings that are due and an unready condition are still sent, within a second, where the API
    /// server answers. Then, or at once when there is nothing of the kind, calls `done`, in the loop, once.
    void finish(std::function<void()> done);

    /// Closes the connections to the API server and all timers, so that the loop can run out of work. The calls to the
    /// launcher end with their connection.
    void stop() noexcept;

private:
    struct State;
    explicit KubernetesReporter(std::shared_ptr<State> state);
    std::shared_ptr<State> state_;
};

}  // namespace triton::kubernetes
