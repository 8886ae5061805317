#include "host/cri/container/apparmor.h"

#include <cerrno>
#include <chrono>

#include <sys/mman.h>
#include <unistd.h>

#include "host/cri/wire/messages.h"
#include "lib/base/read_file.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/process/run_command.h"

namespace triton::cri {

namespace {

constexpr char default_name[] = "triton-default";
constexpr auto parser_limit = std::chrono::seconds(30);
constexpr std::size_t most_profile_bytes = 16U << 20U;

/// Everything that the other walls of a container allow, but mounts, and what is of the kernel in /proc and /sys. What
/// is read-only in most containers anyway is denied where a pod mounts it once more.
constexpr char default_rules[] = R"(#include <tunables/global>

profile triton-default flags=(attach_disconnected, mediate_deleted) {
  #include <abstractions/base>
  capability,
  network,
  file,
  umount,
  signal (receive) peer={unconfined,crun,runc},
  signal (send, receive) peer=triton-default,
  ptrace peer=triton-default,
  deny mount,
  deny @{PROC}/sys/** wkl,
  deny @{PROC}/{sysrq-trigger,timer_list,keys} wkl,
  deny @{PROC}/{kcore,kmsg,kallsyms} rwkl,
  deny @{PROC}/{acpi,asound,bus,driver,fs,irq,scsi}/** wkl,
  deny /sys/{block,bus,class,dev,devices,hypervisor,kernel,module,power}/** wkl,
  deny /sys/fs/{bpf,btrfs,ext4,pstore,selinux,xfs}/** wkl,
  deny /sys/firmware/** rwkl,
  deny /sys/kernel/security/** rwkl,
  deny /sys/devices/virtual/powercap/** rwkl,
}
)";

struct Wanted {
    bool is_default = false;
    bool must_be = false;  ///< it was asked for
    std::string name = {};
};

Wanted wanted_by(v1::LinuxContainerSecurityContext const& context) {
    constexpr std::string_view by_name = "localhost/";
    std::string const& old = context.apparmor_profile();
    if (context.has_apparmor()) {
        switch (context.apparmor().profile_type()) {
            case v1::SecurityProfile::RuntimeDefault: return {.is_default = true, .must_be = true};
            case v1::SecurityProfile::Localhost: return {.must_be = true, .name = context.apparmor().localhost_ref()};
            default: return {};
        }
    }
    if (old.starts_with(by_name)) return {.must_be = true, .name = old.substr(by_name.size())};
    if (old == "runtime/default") return {.is_default = true, .must_be = true};
    return {.is_default = old.empty()};
}

}  // namespace

bool AppArmor::is_enabled() const {
    auto const enabled = read_file(places_.enabled, 16);
    return enabled && enabled->starts_with('Y');
}

bool AppArmor::is_loaded(std::string const& name) const {
    auto const profiles = read_file(places_.profiles, most_profile_bytes);
    return profiles && ("\n" + *profiles).find("\n" + name + " (") != std::string::npos;
}

Result<> AppArmor::load() const {
    UniqueFd const text{::memfd_create("profile", MFD_CLOEXEC)};
    if (!text || !write_all(text.get(), default_rules) || ::lseek(text.get(), 0, SEEK_SET) != 0)
        return fail(errno, "write an AppArmor profile");
    auto const ended = TRY(process::run_command(
        {.arguments = {places_.parser, "--replace", "--skip-cache"}, .in = text.get(), .timeout = parser_limit}));
    if (ended.is_ok()) return {};
    return fail(ErrorKind::internal, std::string("load AppArmor profile ") + default_name,
                ended.errors.empty() ? places_.parser + " ended with " + std::to_string(ended.exit_code)
                                     : ended.errors.substr(0, 1024));
}

Result<std::string> AppArmor::profile_for(v1::LinuxContainerSecurityContext const& context) const {
    Wanted const wanted = wanted_by(context);
    if (wanted.is_default) {
        if (context.privileged() || !is_enabled()) return std::string();
        if (is_loaded(default_name)) return std::string(default_name);
        auto const loaded = load();
        if (loaded) return std::string(default_name);
        if (wanted.must_be) return std::unexpected(loaded.error());
        return std::string();
    }
    if (wanted.name.empty()) return std::string();
    if (!is_enabled())
        return fail(ErrorKind::unsupported,
                    "AppArmor profile " + wanted.name + " cannot be applied: this kernel has no AppArmor");
    if (!is_loaded(wanted.name))
        return fail(ErrorKind::not_found, "AppArmor profile " + wanted.name + " is not loaded");
    return wanted.name;
}

}  // namespace triton::cri
