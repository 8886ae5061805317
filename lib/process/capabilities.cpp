#include "lib/process/capabilities.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <vector>

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/nearest.h"
#include "lib/json/limits.h"
#include "lib/json/text.h"

namespace triton::process {

namespace {

using json::Problems;
using json::Where;

constexpr std::string_view prefix = "CAP_";
// By number. libcap has them as well, and would link <stdio.h> with locales and a loader into a static program.
// Source: capabilities(7), linux/capability.h.
constexpr std::array<std::string_view, 41> names{
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
};
static_assert(names.size() > CAP_LAST_CAP, "the kernel's headers have a newer capability");
constexpr int most_capabilities = 64;  // bits of a CapabilitySet

std::string upper_case(std::string text) {
    // std::toupper would ask a locale.
    for (char& letter : text) {
        if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
    }
    return text;
}

CapabilitySet bit(int number) { return CapabilitySet{1} << number; }

std::string unknown_text(std::string const& name) {
    std::string text = "unknown capability " + json::quoted(name);
    bool const has_prefix = upper_case(name).starts_with(prefix);
    auto const meant = nearest(has_prefix ? name : std::string(prefix) + name, names);
    if (meant) text.append("; did you mean ").append(*meant).append("?");
    return text;
}

/// The permitted, effective and inheritable capabilities of this process. Source: capget(2), whose sets are halves of
/// 32 bits.
void read_own_sets(OwnCapabilities& own) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> halves{};
    if (::syscall(SYS_capget, &header, halves.data()) != 0) return;
    own.permitted = CapabilitySet{halves[1].permitted} << 32 | halves[0].permitted;
    own.inheritable = CapabilitySet{halves[1].inheritable} << 32 | halves[0].inheritable;
    own.effective = CapabilitySet{halves[1].effective} << 32 | halves[0].effective;
}

}  // namespace

std::optional<CapabilitySet> parse_capability(std::string const& name) {
    std::string text = upper_case(name);
    if (!text.starts_with(prefix)) text.insert(0, prefix);
    auto const* const known = std::ranges::find(names, text);
    if (known == names.end()) return std::nullopt;
    return bit(static_cast<int>(known - names.begin()));
}

std::string capability_name(int number) {
    auto const index = static_cast<std::size_t>(number);
    return index < names.size() ? std::string(names[index]) : std::to_string(number);
}

OwnCapabilities OwnCapabilities::read() {
    OwnCapabilities own;
    for (int number = 0; number < most_capabilities; ++number) {
        int const is_bounding = ::prctl(PR_CAPBSET_READ, number);
        if (is_bounding < 0) break;  // the kernel has no more
        if (is_bounding == 1) own.bounding |= bit(number);
        if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, number, 0, 0) == 1) own.ambient |= bit(number);
    }
    read_own_sets(own);
    return own;
}

std::expected<CapabilityMasks, Problems> resolve_capabilities(CapabilitySettings const& wanted, Where const& at,
                                                              OwnCapabilities const* own) {
    json::ProblemList problems{
        json::Limits{}.problems};  // whoever writes the document controls how many names there are
    auto const parse = [&](std::optional<std::vector<std::string>> const& names, std::string_view key,
                           std::optional<CapabilitySet> within, bool is_from_us) {
        CapabilitySet set = 0;
        if (!names) return set;
        Where const list{&at, key};
        for (std::size_t i = 0; i < names->size(); ++i) {
            auto const capability = parse_capability((*names)[i]);
            auto const refuse = [&](std::string reason) { problems.add(Where{&list, i}, std::move(reason)); };
            if (!capability) {
                refuse(problems.has_room() ? unknown_text((*names)[i]) : "");
                continue;
            }
            set |= *capability;
            auto const name = [&] { return capability_name(std::countr_zero(*capability)); };
            if (within && !(*capability & *within)) {
                refuse(name() + " is not in bounding");
            } else if (is_from_us && own && !(*capability & own->permitted & own->bounding)) {
                refuse("the launcher itself does not have " + name());
            }
        }
        return set;
    };
    // A bounding set only limits: it may name capabilities that we do not have ourselves.
    CapabilitySet const listed = parse(wanted.bounding, "bounding", std::nullopt, false);
    std::optional<CapabilitySet> const within = wanted.bounding ? std::optional(listed) : std::nullopt;
    CapabilitySet const ambient = parse(wanted.ambient, "ambient", within, true);
    CapabilitySet const inheritable = parse(wanted.inheritable, "inheritable", within, true);
    if (!problems.empty()) return std::unexpected(std::move(problems).take());

    CapabilityMasks masks;
    if (!own) return masks;
    CapabilitySet const bounding = within.value_or(own->bounding);
    masks.drop = own->bounding & ~bounding;
    // A set that is not mentioned stays, but within the bounding set: root gets all that is inheritable, too.
    masks.ambient = (wanted.ambient ? ambient : own->ambient) & bounding;
    masks.inheritable = ((wanted.inheritable ? inheritable : own->inheritable) & bounding) | masks.ambient;
    return masks;
}

}  // namespace triton::process
