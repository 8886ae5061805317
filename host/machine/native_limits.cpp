#include "host/machine/native_limits.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

#include <sys/stat.h>

#include "lib/base/read_file.h"

namespace triton::machine {

namespace {

constexpr std::size_t most_limit_bytes = 1 << 16;
constexpr std::uint64_t bytes_per_mebibyte = 1 << 20;
constexpr std::uint64_t microseconds_per_cpu_percent = 10'000;
constexpr std::uint64_t bytes_per_gibibyte = std::uint64_t{1} << 30;  // of Machine::quota

/// A setting in a file of systemd, and the property of the unit that it is.
struct Setting {
    std::string_view name;
    std::string_view property;
    bool is_percentage = false;
};
constexpr std::array<Setting, 6> settings{{
    {"CPUQuota", "CPUQuotaPerSecUSec", true},
    {"CPUWeight", "CPUWeight"},
    {"IOWeight", "IOWeight"},
    {"MemoryMax", "MemoryMax"},
    {"MemorySwapMax", "MemorySwapMax"},
    {"TasksMax", "TasksMax"},
}};

std::optional<std::uint64_t> read_value(Setting const& setting, std::string_view text) {
    if (text == "infinity" || (setting.is_percentage && text.empty())) return unlimited;
    bool const has_percent = text.ends_with('%');
    if (has_percent != setting.is_percentage) return std::nullopt;
    if (has_percent) text.remove_suffix(1);
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    std::string_view const rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
    if (error != std::errc() || (!rest.empty() && !rest.starts_with(".0"))) return std::nullopt;
    constexpr std::uint64_t most_percent = 1'000'000;
    if (!setting.is_percentage) return value;
    return value <= most_percent ? std::optional(value * microseconds_per_cpu_percent) : std::nullopt;
}

std::optional<std::uint64_t> native_value(std::vector<UnitProperty> const& limits, std::string_view name) {
    auto const found = std::ranges::find(limits, name, &UnitProperty::name);
    return found == limits.end() ? std::nullopt : std::optional(found->value);
}

std::optional<std::int64_t> number(std::uint64_t value) {
    return value == unlimited ? std::nullopt : std::optional(static_cast<std::int64_t>(value));
}

/// Which members limits are made from.
constexpr std::array limited{&Machine::cpu_cap,  &Machine::cpu_shares,          &Machine::zfs_io_priority,
                             &Machine::max_swap, &Machine::max_physical_memory, &Machine::max_lwps,
                             &Machine::quota};

/// -1: there is no such file.
std::int64_t modified_at(std::string const& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return -1;
    return status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace

std::vector<UnitProperty> read_limit(std::string_view name, std::string_view text) {
    auto const setting = std::ranges::find(settings, name, &Setting::name);
    if (setting == settings.end()) return {};
    std::optional<std::uint64_t> value;
    while (!text.empty()) {  // the last line counts
        std::size_t const end = std::min(text.find('\n'), text.size());
        std::string_view const line = text.substr(0, end);
        if (line.starts_with(name) && line.substr(name.size()).starts_with('='))
            value = read_value(*setting, line.substr(name.size() + 1));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (!value) return {};
    return {{std::string(setting->property), *value}};
}

std::vector<UnitProperty> native_limits(Layout const& layout, Uuid const& uuid) {
    std::vector<UnitProperty> limits;
    std::string const directory = "/systemd/system.control/" + unit_of(uuid) + ".d/50-";
    for (Setting const& setting : settings) {
        std::string const file = directory + std::string(setting.name) + ".conf";
        std::string const lasting = layout.root + "/etc" + file;
        std::string const passing = layout.root + "/run" + file;  // of set-property --runtime
        auto const text = read_file(modified_at(passing) > modified_at(lasting) ? passing : lasting, most_limit_bytes);
        if (!text) continue;
        for (UnitProperty& limit : read_limit(setting.name, *text))
            limits.push_back(std::move(limit));
    }
    return limits;
}

void observe_limits(Machine& machine, std::vector<UnitProperty> const& limits) {
    auto const wanted = unit_properties(machine);
    auto const other = [&](std::string_view name) {
        auto const value = native_value(limits, name);
        return value && value != native_value(wanted, name) ? value : std::nullopt;
    };
    if (auto const quota = other("CPUQuotaPerSecUSec"))
        machine.cpu_cap = number(*quota == unlimited ? unlimited : *quota / microseconds_per_cpu_percent);
    if (auto const weight = other("CPUWeight")) machine.cpu_shares = number(*weight);
    if (auto const weight = other("IOWeight")) machine.zfs_io_priority = number(*weight);
    if (auto const tasks = other("TasksMax")) machine.max_lwps = number(*tasks);
    if (auto const memory = other("MemoryMax"))
        machine.max_physical_memory =
            *memory == unlimited ? 0 : static_cast<std::int64_t>(*memory / bytes_per_mebibyte);
    auto const swap = native_value(limits, "MemorySwapMax");
    bool const is_swap_new = other("MemorySwapMax") || other("MemoryMax");
    if (swap && is_swap_new)
        machine.max_swap = *swap == unlimited ? std::nullopt
                                              : std::optional(machine.max_physical_memory.value_or(0) +
                                                              static_cast<std::int64_t>(*swap / bytes_per_mebibyte));
}

void observe_quota(Machine& machine, std::uint64_t limit) {
    auto const requested =
        static_cast<std::uint64_t>(std::max<std::int64_t>(machine.quota.value_or(0), 0)) * bytes_per_gibibyte;
    if (limit == requested) return;
    // Rounded up, because 0 means that there is none.
    machine.quota = static_cast<std::int64_t>(limit / bytes_per_gibibyte + (limit % bytes_per_gibibyte == 0 ? 0 : 1));
}

void keep_stored_limits(Machine& machine, Machine const& before, Machine const& stored) {
    for (auto const member : limited)
        if (machine.*member == before.*member) machine.*member = stored.*member;
}

std::vector<UnitProperty> changed_limits(Machine const& before, Machine const& after) {
    auto changed = unit_properties(after);
    auto const old = unit_properties(before);
    std::erase_if(changed, [&old](UnitProperty const& limit) { return std::ranges::find(old, limit) != old.end(); });
    return changed;
}

}  // namespace triton::machine
