#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace triton::agent {

/// The cluster's domain in the text of resolv.conf(5), "cluster.local": the search list of a pod has "svc.DOMAIN".
/// Empty: this is no pod, or one that does not use the cluster's DNS.
std::string cluster_domain_of(std::string_view resolv_conf);

/// The names by which browsers may call the agent. A page of another server makes a browser send our address another
/// site's Origin, or, after its name was rebound to our address, that name as Host.
class OwnNames {
public:
    struct Settings {
        bool has_tls = false;
        std::string host_name{};             ///< of the container, which is the pod's
        std::string cluster_domain{};        ///< empty: none
        std::vector<std::string> allowed{};  ///< what --allow-host names
    };

    explicit OwnNames(Settings settings) : settings_(std::move(settings)) {}

    /// Why a request is refused, whatever it is for; nullopt: it is not. Both texts come from the client; an empty one
    /// was not sent, which no browser does with Host.
    [[nodiscard]] std::optional<std::string_view> refusal_of(std::string_view host, std::string_view origin) const;

private:
    [[nodiscard]] bool is_own_host(std::string_view host) const;
    [[nodiscard]] bool is_own_origin(std::string_view origin, std::string_view host) const;

    Settings settings_;
};

}  // namespace triton::agent
