#include "host/machine/unit_texts.h"

#include <algorithm>
#include <set>

#include "host/machine/metadata_links.h"
#include "host/machine/nic.h"
#include "lib/base/signal_text.h"
#include "lib/json/writer.h"

namespace triton::machine {

namespace {

constexpr std::uint64_t mebibyte = 1 << 20;
constexpr std::size_t longest_variable = 4096;

/// Adds a key of an .nspawn file with its value. The value is one line: properties of machines have no control
/// characters.
void add(std::string& text, std::string_view key, std::string_view value) {
    text.append(key).append("=").append(value).append("\n");
}

/// Quotes a word, whatever it contains. systemd has quotes there but no escapes, so a single quote goes into double
/// quotes.
std::string quoted_word(std::string_view word) {
    std::string text = "'";
    for (char const c : word) {
        if (c == '\'')
            text += R"('"'"')";
        else
            text += c;
    }
    return text + "'";
}

/// Escapes a path for Bind=, where ":" separates.
std::string bind_path(std::string_view path) {
    std::string text;
    for (char const c : path) {
        if (c == ':' || c == '\\') text += '\\';
        text += c;
    }
    return text;
}

void add_bind(std::string& text, bool is_read_only, std::string_view source, std::string_view target,
              bool is_mapped = false) {
    add(text, is_read_only ? "BindReadOnly" : "Bind",
        bind_path(source) + ":" + bind_path(target) + (is_mapped ? ":idmap" : ""));
}

/// The command line of a machine's PID 1; empty: the init of its image.
std::string first_program(Machine const& machine) {
    if (machine.launch)
        return std::string(launcher_inside) + " --input-dir " + std::string(launch_directory_inside) +
               " --input-monitor-conf " + std::string(launch_file_name) + " --control-socket " +
               std::string(control_socket_inside);
    return machine.init_name ? quoted_word(*machine.init_name) : std::string();
}

void add_first_program(std::string& text, Machine const& machine, MachinePaths const& paths, Init const& init) {
    std::string program = first_program(machine);
    if (program.empty()) program = paths.init;
    std::string words;
    if (!paths.network.empty())  // it connects the machine and becomes the program after it
        words = std::string(first_program_inside) + " " + std::string(network_inside);
    if (!program.empty()) words += (words.empty() ? "" : " ") + program;
    add(text, "Boot", words.empty() ? "yes" : "no");
    if (!words.empty()) add(text, "Parameters", words);
    add(text, "KillSignal", signal_text(init.kill_signal));
}

std::string variable_name(std::string_view key) {
    std::string name = "TRITON_METADATA_";
    for (char const c : key) {
        bool const is_letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
        bool const is_digit = c >= '0' && c <= '9';
        name += is_letter ? static_cast<char>(c & ~0x20) : is_digit ? c : '_';
    }
    return name;
}

std::string scalar_text(json::Node const& node) {
    if (auto const* const text = node.get<std::string>()) return *text;
    json::Writer out;
    out.value(node);
    return std::move(out).text();
}

/// A weight in the range that systemd takes.
std::uint64_t weight(std::optional<std::int64_t> wanted) {
    constexpr std::int64_t highest = 10'000;
    return static_cast<std::uint64_t>(std::clamp<std::int64_t>(wanted.value_or(100), 1, highest));
}

bool fits(std::string_view value) {
    return value.size() <= longest_variable &&
           std::ranges::none_of(value, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace

std::string nspawn_text(Machine const& machine, MachinePaths const& paths, Init const& init) {
    std::string text = "# Made by vmadm from the properties of the machine, again at each start.\n[Exec]\n";
    add_first_program(text, machine, paths, init);
    std::string const range = ":" + std::to_string(uids_of_machine);
    if (machine.first_uid) add(text, "PrivateUsers", std::to_string(*machine.first_uid) + range);
    add(text, "MachineID", machine.uuid.digits());
    if (machine.hostname) add(text, "Hostname", *machine.hostname);
    add(text, "NotifyReady", init.has_container_interface ? "yes" : "no");
    add(text, "LinkJournal", "no");
    add(text, "ResolvConf", "off");
    add(text, "Timezone", "off");
    if (machine.max_locked_memory) add(text, "LimitMEMLOCK", std::to_string(*machine.max_locked_memory) + "M");
    if (machine.launch) {
        for (std::string const& variable : launch_environment(machine))
            add(text, "Environment", quoted_word(variable));
    }
    text += "\n[Files]\n";
    // What was given to uids of the host, as by a ZFS without idmapped mounts, would belong to nobody in such a mount.
    add(text, "PrivateUsersOwnership", paths.has_shifted_files ? "chown" : "auto");
    if (machine.tmpfs.value_or(0) > 0)
        add(text, "TemporaryFileSystem", "/tmp:mode=1777,size=" + std::to_string(*machine.tmpfs) + "M");
    if (machine.launch) {
        add_bind(text, true, paths.launcher, launcher_inside);
        add_bind(text, true, paths.launch, launch_directory_inside);
    }
    if (!paths.network.empty()) {
        add_bind(text, true, paths.first_program, first_program_inside);
        add_bind(text, true, paths.network, network_inside);
    }
    if (!paths.metadata.empty()) add_bind(text, true, paths.metadata, metadata_inside);
    if (!paths.metadata.empty() && !paths.metadata_client.empty())
        add_bind(text, true, paths.metadata_client,
                 std::string(metadata_inside) + "/" + std::string(MetadataPlaces::program));
    for (Filesystem const& filesystem : machine.filesystems) {
        if (is_volume(filesystem))
            add_bind(text, is_read_only(filesystem), paths.volume_links + "/" + filesystem.source, filesystem.target,
                     !paths.unmapped_volumes.contains(filesystem.source));
        else
            add_bind(text, is_read_only(filesystem), filesystem.source, filesystem.target, is_mapped(filesystem));
    }
    text += "\n[Network]\n";
    add(text, "Private", "yes");
    add(text, "VirtualEthernet", "no");
    for (std::string const& link : paths.links)
        text.append(link).append("\n");
    return text;
}

std::string nspawn_environment(Machine const& machine, bool has_unified_cgroups) {
    std::string text;
    if (machine.launch && has_unified_cgroups) text += "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1\n";
    // Otherwise its /tmp is a tmpfs of a tenth of the host's memory.
    if (machine.tmpfs.value_or(0) == 0) text += "SYSTEMD_NSPAWN_TMPFS_TMP=0\n";
    return text;
}

std::vector<std::string> launch_environment(Machine const& machine) {
    std::vector<std::string> variables;
    std::set<std::string> names;
    auto const add_variable = [&](std::string name, std::string_view value) {
        if (fits(value) && names.insert(name).second) variables.push_back(name + "=" + std::string(value));
    };
    add_variable("TRITON_UUID", machine.uuid.text());
    if (machine.alias) add_variable("TRITON_ALIAS", *machine.alias);
    if (machine.hostname) add_variable("TRITON_HOSTNAME", *machine.hostname);
    if (machine.dns_domain) add_variable("TRITON_DNS_DOMAIN", *machine.dns_domain);
    if (machine.owner_uuid) add_variable("TRITON_OWNER_UUID", machine.owner_uuid->text());
    if (machine.image_uuid) add_variable("TRITON_IMAGE_UUID", machine.image_uuid->text());
    if (machine.max_physical_memory) add_variable("TRITON_MEMORY_MIB", std::to_string(*machine.max_physical_memory));
    for (std::size_t i = 0; i < machine.nics.size(); ++i) {
        Nic const& nic = machine.nics[i];
        std::string const prefix = "TRITON_NIC" + std::to_string(i) + "_";
        bool const is_primary = nic.primary == std::optional(true);
        bool const has_address = nic.ip && parse_address(*nic.ip);
        if (has_address && is_primary) add_variable("TRITON_IP", *nic.ip);
        if (nic.gateway && is_primary) add_variable("TRITON_GATEWAY", *nic.gateway);
        if (nic.interface) add_variable(prefix + "INTERFACE", *nic.interface);
        if (has_address) add_variable(prefix + "IP", *nic.ip);
        if (has_address && nic.netmask) add_variable(prefix + "NETMASK", *nic.netmask);
        if (nic.gateway) add_variable(prefix + "GATEWAY", *nic.gateway);
        add_variable(prefix + "MAC", nic.mac);
        add_variable(prefix + "TAG", nic.nic_tag);
        if (nic.vlan_id) add_variable(prefix + "VLAN", std::to_string(*nic.vlan_id));
    }
    for (json::Member const& member : machine.customer_metadata)
        add_variable(variable_name(member.key), scalar_text(member.node));
    return variables;
}

std::string unit_of(Uuid const& uuid) { return "systemd-nspawn@" + uuid.text() + ".service"; }

std::optional<Uuid> uuid_of_unit(std::string_view unit) {
    static constexpr std::string_view head = "systemd-nspawn@";
    static constexpr std::string_view tail = ".service";
    if (!unit.starts_with(head) || !unit.ends_with(tail) || unit.size() < head.size() + tail.size())
        return std::nullopt;
    return Uuid::parse(unit.substr(head.size(), unit.size() - head.size() - tail.size()));
}

std::vector<UnitProperty> unit_properties(Machine const& machine) {
    constexpr std::uint64_t microseconds_per_percent = 10'000;
    auto const bytes = [](std::int64_t mebibytes) { return static_cast<std::uint64_t>(mebibytes) * mebibyte; };
    std::int64_t const memory = machine.max_physical_memory.value_or(0);
    std::int64_t const swap = std::max<std::int64_t>(0, machine.max_swap.value_or(memory) - memory);
    std::int64_t const cap = machine.cpu_cap.value_or(0);
    return {
        {"CPUQuotaPerSecUSec", cap > 0 ? static_cast<std::uint64_t>(cap) * microseconds_per_percent : unlimited},
        {"CPUWeight", weight(machine.cpu_shares)},
        {"IOWeight", weight(machine.zfs_io_priority)},
        // The design asks for MemoryHigh, which throttles and never kills. But a machine that leaks would be throttled
        // for ever, and cgroup v1 does not have it. So the same limit is also a hard one.
        {"MemoryHigh", memory > 0 ? bytes(memory) : unlimited},
        {"MemoryMax", memory > 0 ? bytes(memory) : unlimited},
        // max_swap counts memory and swap, the kernel swap only
        {"MemorySwapMax", memory > 0 ? bytes(swap) : unlimited},
        {"TasksMax", static_cast<std::uint64_t>(machine.max_lwps.value_or(2000))},
    };
}

}  // namespace triton::machine
