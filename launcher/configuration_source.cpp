#include "launcher/configuration_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/read_file.h"
#include "config/environment_file.h"

namespace triton::launcher {

namespace {

// They speak of the launcher's own start, by systemd or a socket activator. A child that believed them would answer for
// us or take descriptors that it does not have.
constexpr std::array<std::string_view, 8> own_variables{"NOTIFY_SOCKET",  "WATCHDOG_USEC", "WATCHDOG_PID",
                                                        "LISTEN_PID",     "LISTEN_FDS",    "LISTEN_FDNAMES",
                                                        "LISTEN_PIDFDID", "FDSTORE"};

void add_texts(std::vector<std::string>& texts, config::Problems const& problems, std::string_view prefix = {}) {
    for (config::Problem const& problem : problems)
        texts.push_back(std::string(prefix) + problem.text());
}

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

/// The environment of the processes: ours, and the file's values when they are to be exported.
std::vector<std::string> process_environment(char const* const* environment,
                                             std::vector<config::EnvironmentVariable> const& exported) {
    std::vector<std::string> entries;
    for (; *environment; ++environment) {
        std::string_view const name = name_of(*environment);
        bool const is_replaced =
            std::ranges::find(exported, name, &config::EnvironmentVariable::name) != exported.end();
        bool const is_own = std::ranges::find(own_variables, name) != own_variables.end();
        if (!is_replaced && !is_own) entries.emplace_back(*environment);
    }
    for (config::EnvironmentVariable const& variable : exported)
        entries.push_back(variable.name + "=" + variable.value);
    return entries;
}

/// What is wrong with a binary; nothing when it can be executed.
std::optional<std::string> check_binary(std::string const& path) {
    struct stat status;
    if (::stat(path.c_str(), &status) != 0) return "binary " + path + ": " + errno_text(errno);
    if (!S_ISREG(status.st_mode)) return "binary " + path + ": is not a file";
    if (status.st_size == 0) return "binary " + path + ": is empty";
    if (::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) != 0)
        return "binary " + path + ": cannot be executed: " + errno_text(errno);
    return std::nullopt;
}

/// Whether something is wrong there already: at that place, inside it, or with what it is part of.
bool is_known(config::Problems const& problems, std::string_view where) {
    return std::ranges::any_of(problems, [where](config::Problem const& problem) {
        return problem.where.starts_with(where) || where.starts_with(problem.where);
    });
}

bool exists(std::string const& path) {
    struct stat status;
    return ::stat(path.c_str(), &status) == 0;
}

/// The binary that the version means. Problems go to `rejected`.
std::string find_binary(SourceOptions const& options, std::string const& version, BinaryCheck check,
                        Rejected& rejected) {
    config::BinaryRule rule = options.binary;
    if (rule.container_version.empty()) rule.container_version = version;
    auto const candidates = config::choose_binary(rule, version);
    if (!candidates) {
        rejected.errors.push_back(candidates.error().text());
        return {};
    }
    auto const found = std::ranges::find_if(*candidates, exists);
    if (check == BinaryCheck::skipped) return found == candidates->end() ? candidates->front() : *found;
    if (found == candidates->end()) {
        std::string reason = "binary " + candidates->front() + ": " + errno_text(ENOENT);
        if (candidates->size() > 1) reason += " (nor " + candidates->back() + ")";
        rejected.errors.push_back(std::move(reason));
        rejected.missing_binaries = *candidates;
        return {};
    }
    if (auto reason = check_binary(*found)) {
        rejected.errors.push_back(std::move(*reason));
        rejected.missing_binaries = *candidates;
    }
    return *found;
}

std::vector<config::EnvironmentVariable> read_environment_file(std::string const& path, Rejected& rejected) {
    if (path.empty()) return {};
    config::Limits const limits;
    auto const text = read_file(path, limits.document_bytes);
    if (!text) {
        rejected.errors.push_back("additional environment file: " + text.error().text);
        return {};
    }
    config::EnvironmentFile file = config::parse_environment_file(*text, limits);
    add_texts(rejected.errors, file.problems, path + ": ");
    return std::move(file.values);
}

}  // namespace

std::expected<Accepted, Rejected> load_configuration(Result<std::string> const& text, SourceOptions const& options,
                                                     char const* const* environment, BinaryCheck binary_check) {
    Rejected rejected;
    auto const values = read_environment_file(options.environment_file, rejected);
    if (!text) {
        rejected.errors.push_back(text.error().text);
        return std::unexpected(std::move(rejected));
    }
    config::Draft draft = config::read(*text);
    add_texts(rejected.errors, draft.problems);
    add_texts(rejected.warnings, draft.warnings);
    if (!draft.is_object) return std::unexpected(std::move(rejected));

    // With problems too: the rest of what is wrong is worth to be told at once.
    config::ProcessConfiguration& configuration = draft.configuration;
    std::string const binary = is_known(draft.problems, "version")
                                   ? std::string()
                                   : find_binary(options, configuration.version, binary_check, rejected);
    std::uint32_t const count = configuration.count.value_or(options.server_count);
    config::Variables const variables(values, environment);
    auto command = config::CommandTemplate::create(configuration, variables, count);
    if (!command) {
        for (config::Problem const& problem : command.error()) {
            if (!is_known(draft.problems, problem.where)) rejected.errors.push_back(problem.text());
        }
    }
    if (!rejected.errors.empty() || !command) return std::unexpected(std::move(rejected));

    Accepted accepted;
    accepted.count = configuration.run_servers ? count : 0;
    accepted.variables = config::referenced_variables(configuration, variables);
    accepted.plan = std::make_shared<StartPlan const>(
        binary,
        process_environment(environment,
                            options.export_environment_file ? values : std::vector<config::EnvironmentVariable>{}),
        std::move(*command));
    accepted.warnings = std::move(rejected.warnings);
    accepted.configuration = std::move(configuration);
    return accepted;
}

}  // namespace triton::launcher
