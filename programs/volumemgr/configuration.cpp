#include "programs/volumemgr/configuration.h"

#include <array>
#include <span>
#include <utility>

#include "lib/base/read_file.h"
#include "lib/json/table.h"
#include "lib/json/values.h"

namespace triton::program {

namespace {

using json::as;

constexpr std::size_t largest_configuration = 1 << 20;
constexpr char configuration_path[] = "/etc/triton/triton.json";

using WorkerCount = json::Integer<std::size_t, 1, 32>;

std::optional<double> read_factor(json::Node const& node, json::Where const& at, json::Reading& reading) {
    return json::read_number_within(node, at, 0.1, 100, "0.1 to 100", reading);
}
constexpr json::Shape factor_shape{.types = "number"};
using Factor = json::Kind<read_factor, factor_shape>;

std::optional<bool> read_vault(json::Node const& node, json::Where const& at, json::Reading& reading) {
    if (node.get<json::Object>()) return true;
    reading.problems.add(at, "expected an object");
    return std::nullopt;
}
constexpr json::Shape vault_shape{.types = "object"};
using Vault = json::Kind<read_vault, vault_shape>;

struct VolumesSection : VolumesConfiguration {};
std::span<json::Field<VolumesSection> const> table(json::TableOf<VolumesSection>) {
    static constexpr std::array<json::Field<VolumesSection>, 9> rows{{
        {.name = "idle",
         .value = as<&VolumesConfiguration::idle, json::DurationText>,
         .description = "How long it stays when there is nothing to do."},
        {.name = "collect_after",
         .value = as<&VolumesConfiguration::collect_after, json::DurationText>,
         .description = "How long a volume that nobody claims stays."},
        {.name = "keep_content_for",
         .value = as<&VolumesConfiguration::keep_content_for, json::DurationText>,
         .description = "How long content that nobody wants stays."},
        {.name = "retry_after",
         .value = as<&VolumesConfiguration::retry_after, json::DurationAboveZero>,
         .description = "When a server that has refused is asked again."},
        {.name = "workers",
         .value = as<&VolumesConfiguration::workers, WorkerCount>,
         .description = "How many jobs run at one time."},
        {.name = "stuck_after",
         .value = as<&VolumesConfiguration::stuck_after, json::DurationAboveZero>,
         .description = "After which time without a sign a worker is replaced."},
        {.name = "reserve",
         .value = as<&VolumesConfiguration::reserve, json::Size>,
         .description = "Bytes of the pool's file system that stay free."},
        {.name = "overcommit",
         .value = as<&VolumesConfiguration::overcommit, Factor>,
         .description = "How many times the free space is promised."},
        {.name = "vault",
         .value = as<&VolumesConfiguration::has_vault, Vault>,
         .description = "The pool of encrypted volumes."},
    }};
    return rows;
}
constexpr json::Shape volumes_shape = json::object_shape("Volumes");

struct VolumesKeys {
    VolumesSection volumes;
};
std::span<json::Field<VolumesKeys> const> table(json::TableOf<VolumesKeys>) {
    static constexpr std::array<json::Field<VolumesKeys>, 1> rows{{
        {.name = "volumes",
         .value = as<&VolumesKeys::volumes, json::Record<VolumesSection, volumes_shape>>,
         .description = "The volume manager."},
    }};
    return rows;
}

}  // namespace

Result<VolumesConfiguration> parse_volumes_configuration(std::string_view text, std::string const& path) {
    json::Reading reading(20);
    std::optional<VolumesKeys> keys;
    if (auto const node = json::read_json(text, json::Limits{}, reading.problems))
        keys = json::read_object<VolumesKeys>(*node, json::Where{}, reading);
    Error error{.kind = ErrorKind::invalid, .attempted = {}, .reason = path + " is not a configuration", .details = {}};
    for (json::Problem const& problem : std::move(reading.problems).take())
        error.details.push_back(problem.text());
    // Other keys of the document are for other programs; what is unknown within "volumes" is a mistake.
    for (json::Problem const& warning : std::move(reading.warnings).take())
        if (warning.where == "volumes") error.details.push_back(warning.text());
    if (!keys || !error.details.empty()) return std::unexpected(std::move(error));
    return std::move(keys->volumes);
}

Result<VolumesConfiguration> read_volumes_configuration(std::string const& root) {
    std::string const path = root + configuration_path;
    auto const text = read_file(path, largest_configuration);
    if (!text && text.error().kind == ErrorKind::not_found) return VolumesConfiguration{};
    if (!text) return std::unexpected(text.error());
    return parse_volumes_configuration(*text, path);
}

}  // namespace triton::program
