#include "programs/tritoncrid/configuration.h"

#include <array>
#include <span>
#include <utility>

#include <unistd.h>

#include "lib/base/read_file.h"
#include "lib/json/table.h"
#include "lib/json/values.h"

namespace triton::program {

namespace {

using json::as;

constexpr std::size_t largest_configuration = 1 << 20;
constexpr char configuration_path[] = "/etc/triton/triton.json";

constexpr std::array<std::string_view, 3> driver_names{"auto", "systemd", "cgroupfs"};
static_assert(driver_names.size() == static_cast<std::size_t>(CgroupDriver::cgroupfs) + 1);
using DriverName = json::Choice<CgroupDriver, driver_names>;
using PullCount = json::Integer<std::size_t, 1, 64>;

struct CriSection : CriConfiguration {};
std::span<json::Field<CriSection> const> table(json::TableOf<CriSection>) {
    static constexpr std::array<json::Field<CriSection>, 10> rows{{
        {.name = "socket_group",
         .value = as<&CriConfiguration::socket_group, json::Text>,
         .description = "The group that may use the socket beside root."},
        {.name = "cgroup_driver",
         .value = as<&CriConfiguration::cgroup_driver, DriverName>,
         .description = "Who makes control groups."},
        {.name = "network_directory",
         .value = as<&CriConfiguration::network_directory, json::Path>,
         .description = "Where the networks of pods are configured."},
        {.name = "plugin_directories",
         .value = as<&CriConfiguration::plugin_directories, json::Text>,
         .description = "Where network plugins are, separated by colons."},
        {.name = "plugin_timeout",
         .value = as<&CriConfiguration::plugin_timeout, json::DurationAboveZero>,
         .description = "How long one call of a network plugin may take."},
        {.name = "parallel_pulls",
         .value = as<&CriConfiguration::parallel_pulls, PullCount>,
         .description = "How many images are pulled at one time."},
        {.name = "registry_directory",
         .value = as<&CriConfiguration::registry_directory, json::Path>,
         .description = "Where hosts.toml of each registry is, as containerd has it."},
        {.name = "runtime",
         .value = as<&CriConfiguration::runtime, json::Text>,
         .description = "The program that starts containers."},
        {.name = "stray_interval",
         .value = as<&CriConfiguration::stray_interval, json::DurationAboveZero>,
         .description = "How often is searched for what no pod or container knows."},
        {.name = "stream_address",
         .value = as<&CriConfiguration::stream_address, json::Text>,
         .description = "Address of this machine and port for exec, attach and port-forward."},
    }};
    return rows;
}
constexpr json::Shape cri_shape = json::object_shape("Cri");

struct CriKeys {
    CriSection cri;
};
std::span<json::Field<CriKeys> const> table(json::TableOf<CriKeys>) {
    static constexpr std::array<json::Field<CriKeys>, 1> rows{{
        {.name = "cri",
         .value = as<&CriKeys::cri, json::Record<CriSection, cri_shape>>,
         .description = "The container runtime interface."},
    }};
    return rows;
}

}  // namespace

Result<CriConfiguration> parse_cri_configuration(std::string_view text, std::string const& path) {
    json::Reading reading(20);
    std::optional<CriKeys> keys;
    if (auto const node = json::read_json(text, json::Limits{}, reading.problems))
        keys = json::read_object<CriKeys>(*node, json::Where{}, reading);
    Error error{.kind = ErrorKind::invalid, .attempted = {}, .reason = path + " is not a configuration", .details = {}};
    for (json::Problem const& problem : std::move(reading.problems).take())
        error.details.push_back(problem.text());
    // Other keys of the document are for other programs; what is unknown within "cri" is a mistake.
    for (json::Problem const& warning : std::move(reading.warnings).take())
        if (warning.where == "cri") error.details.push_back(warning.text());
    if (!keys || !error.details.empty()) return std::unexpected(std::move(error));
    return std::move(keys->cri);
}

Result<CriConfiguration> read_cri_configuration(std::string const& root) {
    std::string const path = root + configuration_path;
    auto const text = read_file(path, largest_configuration);
    if (!text && text.error().kind == ErrorKind::not_found) return CriConfiguration{};
    if (!text) return std::unexpected(text.error());
    return parse_cri_configuration(*text, path);
}

CgroupDriver settled(CgroupDriver driver, std::string const& root) {
    if (driver != CgroupDriver::automatic) return driver;
    // Source: sd_booted(3).
    bool const has_systemd = ::access((root + "/run/systemd/system").c_str(), F_OK) == 0;
    return has_systemd ? CgroupDriver::systemd : CgroupDriver::cgroupfs;
}

}  // namespace triton::program
