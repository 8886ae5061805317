#pragma once

#include <string>

#include "lib/base/result.h"

namespace runtime::v1 {
class LinuxContainerSecurityContext;
}

namespace triton::cri {

/// The AppArmor profiles of this host, which it may have none of.
class AppArmor {
public:
    struct Places {
        std::string enabled = "/sys/module/apparmor/parameters/enabled";
        std::string profiles = "/sys/kernel/security/apparmor/profiles";  ///< those that are loaded
        std::string parser = "apparmor_parser";  ///< what loads one: a path, or a name that PATH has
    };
    AppArmor() = default;
    explicit AppArmor(Places places) : places_(std::move(places)) {}

    /// The name of the profile of a container; empty: none. RuntimeDefault is a profile of ours, which is loaded when
    /// it is not; a host without AppArmor passes it over, as the interface has it. A container that asks for nothing
    /// has it too, where it can be had. It blocks. Errors: `unsupported`: a profile by name, and no AppArmor;
    /// `not_found`: it is not loaded; those of the parser.
    [[nodiscard]] Result<std::string> profile_for(runtime::v1::LinuxContainerSecurityContext const& context) const;

private:
    [[nodiscard]] bool is_enabled() const;
    [[nodiscard]] bool is_loaded(std::string const& name) const;
    [[nodiscard]] Result<> load() const;

    Places places_ = {};
};

}  // namespace triton::cri
