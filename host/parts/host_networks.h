#pragma once

#include <span>
#include <string>

#include "host/machine/host.h"
#include "host/machine/store.h"

namespace triton::parts {

/// The networks that the host's configuration names, and the kernel's links.
class HostNetworks final : public machine::Networks {
public:
    explicit HostNetworks(machine::Layout const& layout) : configuration_(layout.configuration()) {}
    Result<network::Tags> tags() override;
    Result<std::string> first_program() override;
    Result<> check(std::span<network::Port const> ports) override;
    Result<> guard(std::span<network::Port const> ports) override;
    Result<> lower(std::span<network::Port const> ports) override;

private:
    std::string configuration_;
};

}  // namespace triton::parts
