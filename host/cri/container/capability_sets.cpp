#include "host/cri/container/capability_sets.h"

#include <bit>

#include <linux/capability.h>

#include "host/cri/wire/messages.h"
#include "lib/json/text.h"

namespace triton::cri {

namespace {

constexpr process::CapabilitySet bit(int number) { return process::CapabilitySet{1} << static_cast<unsigned>(number); }

constexpr process::CapabilitySet usual = bit(CAP_CHOWN) | bit(CAP_DAC_OVERRIDE) | bit(CAP_FSETID) | bit(CAP_FOWNER) |
                                         bit(CAP_MKNOD) | bit(CAP_NET_RAW) | bit(CAP_SETGID) | bit(CAP_SETUID) |
                                         bit(CAP_SETFCAP) | bit(CAP_SETPCAP) | bit(CAP_NET_BIND_SERVICE) |
                                         bit(CAP_SYS_CHROOT) | bit(CAP_KILL) | bit(CAP_AUDIT_WRITE);

bool is_all(std::string const& name) { return name == "ALL" || name == "all"; }

Result<process::CapabilitySet> parse(std::string const& name, process::CapabilitySet own) {
    if (is_all(name)) return own;
    auto const found = process::parse_capability(name);
    if (!found) return fail(ErrorKind::invalid, json::quoted(name) + " is not a capability");
    return *found;
}

}  // namespace

Result<ContainerCapabilities> find_capabilities(v1::LinuxContainerSecurityContext const& context,
                                                process::CapabilitySet own) {
    if (context.privileged()) return ContainerCapabilities{.bounding = own};
    process::CapabilitySet add = 0;
    process::CapabilitySet drop = 0;
    bool drops_all = false;
    ContainerCapabilities found;
    v1::Capability const& wanted = context.capabilities();
    for (std::string const& name : wanted.add_capabilities())
        add |= TRY(parse(name, own));
    for (std::string const& name : wanted.drop_capabilities()) {
        drops_all = drops_all || is_all(name);
        drop |= TRY(parse(name, own));
    }
    for (std::string const& name : wanted.add_ambient_capabilities())
        found.ambient |= TRY(parse(name, own));
    // "ALL" comes first on either side: one may then drop, or add, single ones.
    bool adds_all = false;
    for (std::string const& name : wanted.add_capabilities())
        adds_all = adds_all || is_all(name);
    process::CapabilitySet const base = drops_all ? 0 : (usual & own);
    found.bounding = adds_all && !drops_all ? add & ~drop : (base & ~drop) | add;
    found.bounding |= found.ambient;
    return found;
}

std::vector<std::string> capability_names(process::CapabilitySet set) {
    std::vector<std::string> names;
    for (; set != 0; set &= set - 1)
        if (int const number = std::countr_zero(set); number <= CAP_LAST_CAP)
            names.push_back(process::capability_name(number));
    return names;
}

}  // namespace triton::cri
