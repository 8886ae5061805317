#include "launcher/plan/configuration_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/environment_file.h"
#include "config/probe_target.h"
#include "launcher/plan/pattern_check.h"
#include "launcher/plan/probe_check.h"
#include "launcher/plan/program_attributes.h"
#include "lib/base/new_calls.h"
#include "lib/base/read_file.h"
#include "lib/files/confined_path.h"
#include "lib/json/text.h"

namespace triton::launcher {

namespace {

// These variables are about the launcher's own start, by systemd or a socket activator. A child that believed them
// would answer for us, or take descriptors that it does not have.
constexpr std::array<std::string_view, 10> own_variables{"NOTIFY_SOCKET",
                                                         "WATCHDOG_USEC",
                                                         "WATCHDOG_PID",
                                                         "LISTEN_PID",
                                                         "LISTEN_FDS",
                                                         "LISTEN_FDNAMES",
                                                         "LISTEN_PIDFDID",
                                                         "FDSTORE",
                                                         "TRITON_LAUNCH_STATE_FD",
                                                         "TRITON_LAUNCH_FILTERS_FD"};

void add_texts(std::vector<std::string>& texts, json::Problems const& problems, std::string_view prefix = {}) {
    for (json::Problem const& problem : problems)
        texts.push_back(std::string(prefix) + problem.text());
}

std::string_view file_name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

/// What processes inherit: our environment, and the file's values when they are to be exported.
std::vector<std::string> inherited_environment(char const* const* environment,
                                               std::vector<config::EnvironmentVariable> const& exported) {
    std::vector<std::string> entries;
    std::size_t size = exported.size();
    for (char const* const* entry = environment; *entry; ++entry)
        ++size;
    entries.reserve(size);
    for (; *environment; ++environment) {
        std::string_view const name = file_name_of(*environment);
        bool const is_replaced =
            std::ranges::find(exported, name, &config::EnvironmentVariable::name) != exported.end();
        bool const is_own = std::ranges::find(own_variables, name) != own_variables.end();
        if (!is_replaced && !is_own) entries.emplace_back(*environment);
    }
    for (config::EnvironmentVariable const& variable : exported)
        entries.push_back(variable.name + "=" + variable.value);
    return entries;
}

/// What is wrong with a binary; nothing if it can be executed.
std::optional<std::string> check_binary(std::string const& path) {
    struct stat status;
    if (::stat(path.c_str(), &status) != 0) return "binary " + path + ": " + errno_text(errno);
    if (!S_ISREG(status.st_mode)) return "binary " + path + ": is not a file";
    if (status.st_size == 0) return "binary " + path + ": is empty";
    if (check_access(AT_FDCWD, path.c_str(), X_OK) != 0)
        return "binary " + path + ": cannot be executed: " + errno_text(errno);
    return std::nullopt;
}

/// Whether a problem is known already: at that place, inside it, or with something that contains it.
bool is_known(json::Problems const& problems, std::string_view where) {
    return std::ranges::any_of(problems, [where](json::Problem const& problem) {
        return problem.where.starts_with(where) || where.starts_with(problem.where);
    });
}

bool exists(std::string const& path) {
    struct stat status;
    return ::stat(path.c_str(), &status) == 0;
}

/// The path of the version's binary. Problems go to `rejected`, with `prefix` before them.
std::string find_binary(SourceOptions const& options, std::string const& version, BinaryCheck check, Rejected& rejected,
                        std::string const& prefix = {}) {
    if (!options.missing_version.empty() && check == BinaryCheck::required) {
        rejected.errors.push_back(prefix + options.missing_version);
        return {};
    }
    config::BinaryRule rule = options.binary;
    if (rule.container_version.empty()) rule.container_version = version;
    auto const candidates = config::choose_binary(rule, version);
    if (!candidates) {
        rejected.errors.push_back(prefix + candidates.error().text());
        return {};
    }
    auto const& paths = candidates->paths;
    auto const found = std::ranges::find_if(paths, exists);
    if (check == BinaryCheck::skipped) {
        if (found != paths.end()) return *found;
        return candidates->ends_with_stand_in ? paths.back() : paths.front();
    }
    if (found == paths.end()) {
        std::string reason = prefix + "binary " + paths.front() + ": " + errno_text(ENOENT);
        if (paths.size() > 1) reason += " (nor " + paths.back() + ")";
        rejected.errors.push_back(std::move(reason));
        rejected.missing_binaries.insert(rejected.missing_binaries.end(), paths.begin(), paths.end());
        return {};
    }
    if (auto reason = check_binary(*found)) {
        rejected.errors.push_back(prefix + *reason);
        rejected.missing_binaries.insert(rejected.missing_binaries.end(), paths.begin(), paths.end());
    } else if (candidates->ends_with_stand_in && found == paths.end() - 1) {
        rejected.remarks.push_back(prefix + "version " + version + " is not in " + rule.shared_directory + " yet; " +
                                   *found + " of version " + rule.container_version + " speaks the same protocol");
        rejected.missing_binaries.insert(rejected.missing_binaries.end(), paths.begin(), found);
    }
    return *found;
}

std::vector<config::EnvironmentVariable> parse_environment_file(std::string const& path,
                                                                Result<std::string> const& text, Rejected& rejected) {
    if (path.empty()) return {};
    config::Limits const limits;
    if (!text) {
        rejected.errors.push_back("additional environment file: " + text.error().text());
        return {};
    }
    config::EnvironmentFile file = config::parse_environment_file(*text, limits);
    // A line of another form is skipped with a warning, as fdb-kubernetes-monitor does. A problem without a line is
    // about the file, and an error.
    for (json::Problem const& problem : file.problems)
        (problem.where.empty() ? rejected.errors : rejected.warnings).push_back(path + ": " + problem.text());
    return std::move(file.values);
}

constexpr std::size_t most_environment_file = 64 << 10;
constexpr std::size_t most_environment_files = 1 << 20;  // of all programs, together
static_assert(config::most_health_checks == most_checks, "each check of a program has its helper");
constexpr Duration time_to_read = std::chrono::seconds(1);
constexpr std::string_view zone_directory = "/usr/share/zoneinfo";
// An agent that cannot look at lines says so at once, and would say the same a moment later.
constexpr Duration between_log_watches = std::chrono::minutes(1);
// How long a program may take to go into the background by default: what systemd allows (TimeoutStartSec=).
constexpr Duration time_to_fork = std::chrono::seconds(90);
constexpr std::size_t most_numbered_files = 2048;  // of all programs; PID 1 opens each in 10 microseconds or so
constexpr std::size_t most_environments_of_each = 16 << 20;  // bytes, of all programs
constexpr std::uint64_t most_rendered_bytes = 16 << 20;      // 65,535 ordinary addresses or URLs, several times

/// The limits of a load that PID 1 makes without a helper. The author of the document controls how many programs,
/// filters, trials and targets there are.
struct LoadBounds {
    std::size_t document;      // bytes
    std::size_t environment;   // bytes, with those of the additional file
    std::size_t preparations;  // filters, which take 3 ms to compile, and trials, which take 0.5
    std::uint64_t copies;      // bytes of the environment, once for each program
    std::uint64_t rendering;   // bytes; a MiB that is substituted takes 2 ms
    std::size_t looks;         // files that a command may be, and others; a thousand take 2 to 10 ms
};
// The worst document takes about 50 ms: 16 KiB of JSON are parsed in less than one.
constexpr LoadBounds small_bounds{16 << 10, 64 << 10, 8, 256 << 10, 256 << 10, 2000};
// The first load keeps only somebody waiting who stops the container meanwhile: for a few tenths of a second.
constexpr LoadBounds first_bounds{256 << 10, 64 << 10, 8, 8 << 20, 1 << 20, 20'000};

/// The bounds of a load; null: it has none.
LoadBounds const* bounds_of(LoadKind kind) {
    switch (kind) {
        case LoadKind::small: return &small_bounds;
        case LoadKind::first: return &first_bounds;
        case LoadKind::whole:
        case LoadKind::follow:
        case LoadKind::again: break;
    }
    return nullptr;
}

/// Keeps as many errors or warnings as anybody reads, and counts the rest.
void shorten(std::vector<std::string>& texts) {
    std::size_t const most = json::Limits{}.problems;
    if (texts.size() <= most + 1) return;  // the last one may already be such a count
    std::string rest = "and " + std::to_string(texts.size() - most) + " more";
    texts.resize(most);
    texts.push_back(std::move(rest));
}

/// Turns the programs of a document into plans.
class Planner {
public:
    Planner(SourceOptions const& options, config::ProcessConfiguration const& configuration,
            config::Variables const& variables, std::vector<std::string> inherited, BinaryCheck check,
            config::Draft const& draft, LoadKind kind, Findings* findings, Rejected& rejected)
        : options_(options),
          configuration_(configuration),
          variables_(variables),
          inherited_(std::move(inherited)),
          check_(check),
          draft_(draft),
          kind_(kind),
          bounds_(bounds_of(kind)),
          findings_(findings),
          rejected_(rejected) {
        for (config::Program const& program : configuration.programs)
            if (program.output.kind == config::OutputKind::program) readers_.insert(program.output.to);
        for (std::string_view const entry : inherited_.entries())
            inherited_bytes_ += entry.size();
        if (kind_ == LoadKind::follow) memory_.prepared = std::move(findings_->filters);
        memory_.is_tried = kind_ == LoadKind::follow || kind_ == LoadKind::again;
    }

    /// Records what has been found out, for LoadKind::follow.
    void record(Findings& findings);

    /// Both return null when something is wrong; `rejected` has the error then.
    std::shared_ptr<ProgramPlan const> unnamed();
    std::shared_ptr<ProgramPlan const> named(Box<config::Program>&& said);
    /// To be called after all programs.
    void check_patterns();
    /// The bad lines of environment files. Likewise, and once.
    json::Problems odd_lines() { return std::move(odd_lines_).take(); }

private:
    using Entries = std::vector<std::string>;  // NAME=value
    struct Environment {
        process::SharedEnvironment fixed;                      // most programs share our environment
        std::vector<process::SharedEnvironment> of_each = {};  // instead of it: for process 1, 2 and so on
        std::vector<process::CommandTemplate> numbered = {};
        std::optional<process::CommandTemplate> directory = {};  // when each process has its own
    };

    void add(json::Problems const& problems);
    void add(json::Where const& at, std::string reason);
    Environment environment(config::Program const& program, json::Where const& at, std::uint32_t count);
    process::SharedEnvironment environment_of(config::Program const& program, json::Where const& at,
                                              Entries const& configured, ProcessNumber number, std::uint32_t count);
    void add_entries_of_each(config::Program const& program, json::Where const& at, Entries const& configured,
                             std::uint32_t count, Environment& all);
    std::optional<process::CommandTemplate> directory(config::Program const& program, json::Where const& at,
                                                      std::uint32_t count);
    process::NumberedParts numbered_parts(Environment const& environment);
    process::SharedEnvironment shared(process::SharedEnvironment const& environment);
    process::SharedAttributes shared(process::Attributes const& attributes);
    std::optional<std::string> path_of(config::Argument const& argument, json::Where const& at,
                                       ProcessNumber number = ProcessNumber{1}, std::uint32_t count = 1);
    std::optional<process::CommandTemplate> paths_of(config::Argument const& argument, json::Where const& at,
                                                     std::uint32_t count);
    void add_files(config::Program const& program, json::Where const& at, ProcessNumber number, std::uint32_t count,
                   std::vector<std::string>& entries);
    std::optional<process::CommandTemplate> checked(std::expected<process::CommandTemplate, json::Problems> made);
    [[nodiscard]] bool is_too_much();
    [[nodiscard]] bool looks_too_often(std::size_t places = 1);
    Result<std::string> find_program(std::string const& word, Environment const& environment,
                                     process::Attributes const& attributes);
    std::optional<std::string> fault_of(NetworkProbe const& probe, bool is_numbered);
    void add_headers(config::Headers const& headers, json::Where const& at, std::uint32_t count, NetworkProbe& probe);
    void add_files(config::Program const& program, json::Where const& at, ProgramPlan& plan);
    void settle_files(config::Program& settings, json::Where const& at, std::uint32_t count);
    template <class Stream>
    void settle_file(Stream& stream, json::Where const& at, std::uint32_t count);
    std::shared_ptr<process::StartPlan const> command(config::Program const& program, json::Where const& at,
                                                      Environment const& environment,
                                                      process::SharedAttributes const& attributes, std::uint32_t count);
    HelperPlan helper(std::vector<config::Argument> const& command, json::Where const& at, Duration timeout,
                      config::Program const& program, Environment environment, process::Attributes attributes,
                      std::uint32_t count);
    HelperPlan log_helper(config::Readiness const& readiness, json::Where const& at, std::uint32_t count);
    template <class Probe>
    HelperPlan network_helper(config::ProbeKind kind, Probe const& probe, json::Where const& at, std::uint32_t count);
    std::string find_command(std::string const& word, json::Where const& at, Environment const& environment,
                             process::Attributes const& attributes);
    process::SharedAttributes attributes(config::Program const& program, json::Where const& at,
                                         std::optional<process::CommandTemplate> const& directory);
    std::vector<SocketRequest> sockets(config::Program const& program, json::Where const& at);
    std::shared_ptr<config::TimeZone const> time_zone(std::string const& name, json::Where const& at);
    [[nodiscard]] ProgramPolicy policy(config::Program const& program) const;

    SourceOptions const& options_;
    config::ProcessConfiguration const& configuration_;
    config::Variables const& variables_;
    process::SharedEnvironment inherited_;
    std::uint64_t inherited_bytes_ = 0;
    std::vector<process::SharedEnvironment> environments_;  // the one used last comes first
    std::vector<process::SharedAttributes> attributes_;     // likewise
    /// What the latest program got that has nothing but settings: most programs have the same.
    struct Resolved {
        process::Settings settings;
        process::SharedAttributes attributes;
    };
    std::optional<Resolved> latest_;
    BinaryCheck check_;
    config::Draft const& draft_;
    LoadKind kind_;
    LoadBounds const* bounds_;
    Findings* findings_;
    std::vector<std::string> commands_;  // those that were found, where there are findings
    /// Each search is made once for a load: by word, PATH, root directory and working directory.
    using Searches = std::map<std::array<std::string, 4>, Result<std::string>>;
    Searches searches_;
    Searches::value_type const* latest_search_ = nullptr;  // most programs repeat it
    std::set<std::string> readers_;                        // of the output of others, by their names
    std::size_t environment_room_ = most_environment_files;
    std::size_t environments_of_each_ = 0;
    std::size_t bytes_of_each_ = 0;
    std::uint64_t copies_ = 0;  // bytes of the environment, for all programs so far
    std::size_t looks_ = 0;     // places where commands, time zones and environment files were looked for
    std::set<std::string> environment_files_;  // many programs may name one
    json::ProblemList odd_lines_{json::Limits{}.problems};
    std::map<std::string, std::shared_ptr<config::TimeZone const>> zones_;
    Rejected& rejected_;
    process::LoadMemory memory_;
    std::uint64_t rendered_ = most_rendered_bytes;  // how much more may be rendered to check the requests of probes
    std::vector<PatternToCheck> patterns_;
};

void Planner::add(json::Problems const& problems) {
    for (json::Problem problem : problems) {
        if (is_known(draft_.problems, problem.where)) continue;
        if (draft_.layers) problem.file = draft_.layers->file_of(problem.where);
        rejected_.errors.push_back(problem.text());
    }
}

void Planner::add(json::Where const& at, std::string reason) { add({json::Problem{at.text(), std::move(reason)}}); }

std::optional<process::CommandTemplate> Planner::checked(std::expected<process::CommandTemplate, json::Problems> made) {
    if (made) return std::move(*made);
    add(made.error());
    return std::nullopt;
}

/// For named programs that came before.
bool is_descriptor_limit_raised(SourceOptions const& options) {
    rlimit now{};
    return options.descriptor_limit && ::getrlimit(RLIMIT_NOFILE, &now) == 0 &&
           now.rlim_cur != options.descriptor_limit->soft;
}

std::shared_ptr<ProgramPlan const> Planner::unnamed() {
    std::string const binary = is_known(draft_.problems, "version")
                                   ? std::string()
                                   : find_binary(options_, configuration_.version, check_, rejected_);
    std::uint32_t const count = configuration_.count.value_or(options_.server_count);
    auto command = checked(config::substitute(configuration_, variables_, count));
    if (!command) return nullptr;
    auto plan = std::make_shared<ProgramPlan>();
    plan->settings->version = configuration_.version;
    plan->policy = options_.defaults;
    plan->policy.count = configuration_.run_servers ? count : 0;
    process::Attributes attributes;
    if (is_descriptor_limit_raised(options_)) attributes.limits.push_back(*options_.descriptor_limit);
    plan->start = std::make_shared<process::StartPlan const>(binary, inherited_, std::move(*command),
                                                             process::NumberedParts{}, std::move(attributes));
    decide_needs(*plan);
    return plan;
}

/// Whether a program has a variable of ours, if it does not replace it.
bool inherits(config::Program const& program, std::string_view name) {
    switch (program.environment_from) {
        case config::EnvironmentFrom::clean: return false;
        case config::EnvironmentFrom::inherit: return true;
        case config::EnvironmentFrom::listed: break;
    }
    return std::ranges::find(program.environment_names, name) != program.environment_names.end();
}

/// Whether a program's `environment` has a variable.
bool defines(config::Program const& program, std::string_view name) {
    return std::ranges::find(program.environment, name, [](auto const& variable) -> std::string_view {
               return variable.first;
           }) != program.environment.end();
}

bool has_variable(auto const& entries, std::string_view name) {
    return std::ranges::find(entries, name, [](std::string_view entry) { return file_name_of(entry); }) !=
           entries.end();
}

/// The values of an environment file are in the order of these.
std::string_view name_of_variable(config::EnvironmentVariable const& variable) { return variable.name; }

/// Names to be asked for: those of files may be many.
class Names {
public:
    explicit Names(config::Program const& program) {
        for (auto const& [name, value] : program.environment)
            names_.push_back(name);
        std::ranges::sort(names_);
    }
    explicit Names(std::vector<std::string> const& entries) {
        for (std::string const& entry : entries)
            names_.push_back(file_name_of(entry));
        std::ranges::sort(names_);
    }
    [[nodiscard]] bool contains(std::string_view name) const { return std::ranges::binary_search(names_, name); }

private:
    std::vector<std::string_view> names_;
};

bool depends_on_number(config::Argument const& argument) {
    return argument.type == config::ArgumentType::process_number ||
           std::ranges::any_of(argument.values, depends_on_number);
}

bool is_environment_of_each(config::Program const& program) {
    return std::ranges::any_of(program.environment_files,
                               [](auto const& file) { return depends_on_number(file.path); });
}

/// The absolute path that an argument gives to one process.
std::optional<std::string> Planner::path_of(config::Argument const& argument, json::Where const& at,
                                            ProcessNumber number, std::uint32_t count) {
    auto const made = checked(config::substitute(argument, at, variables_, count));
    if (!made) return std::nullopt;
    std::string path = made->arguments(number).front();
    if (path.starts_with('/')) return path;
    add(at, "must be an absolute path, not " + json::quoted(path, 128));
    return std::nullopt;
}

/// The absolute paths of all processes. The longest one is at either end of the numbers, and either all of them begin
/// with a slash or none does.
std::optional<process::CommandTemplate> Planner::paths_of(config::Argument const& argument, json::Where const& at,
                                                          std::uint32_t count) {
    auto made = checked(config::substitute(argument, at, variables_, count));
    if (!made) return std::nullopt;
    std::string const first = made->arguments(ProcessNumber{1}).front();
    std::size_t const longest =
        std::max(first.size(), made->arguments(ProcessNumber{std::max(count, 1U)}).front().size());
    if (!first.starts_with('/')) {
        add(at, "must be an absolute path, not " + json::quoted(first, 128));
    } else if (longest >= PATH_MAX) {
        add(at, "would be " + std::to_string(longest) + " bytes long; Linux allows " + std::to_string(PATH_MAX - 1) +
                    " (PATH_MAX)");
    } else {
        return made;
    }
    return std::nullopt;
}

/// Adds the variables of files; they replace those of the same name.
void Planner::add_files(config::Program const& program, json::Where const& at, ProcessNumber number,
                        std::uint32_t count, std::vector<std::string>& entries) {
    json::Where const key_at{&at, "environmentFile"};
    for (std::size_t i = 0; i < program.environment_files.size(); ++i) {
        config::EnvironmentSource const& source = program.environment_files[i];
        json::Where const file_at{&key_at, i};
        auto const path = path_of(source.path, file_at, number, count);
        if (!path) continue;
        bool const is_new = environment_files_.insert(*path).second;
        if (is_new) rejected_.missing_binaries.push_back(*path);  // when it changes, the configuration has changed
        if (check_ == BinaryCheck::skipped) continue;
        if (looks_too_often()) return;
        auto const text = read_file(*path, std::min<std::size_t>(most_environment_file, environment_room_));
        if (!text) {
            bool const is_missing = text.error().kind == ErrorKind::not_found;
            if (!is_missing || !source.is_optional) add(file_at, text.error().text());
            continue;
        }
        environment_room_ -= text->size();
        copies_ += text->size();
        if (bounds_ && copies_ > bounds_->copies) {
            rejected_.is_too_much = true;
            return;
        }
        config::EnvironmentFile const file = config::parse_environment_file(*text, {});
        for (json::Problem const& problem : file.problems)
            if (is_new) odd_lines_.add(problem.where.empty() ? *path : *path + ": " + problem.where, problem.reason);
        std::erase_if(entries, [&](std::string const& entry) {
            return std::ranges::binary_search(file.values, file_name_of(entry), {}, name_of_variable);
        });
        for (config::EnvironmentVariable const& variable : file.values)
            entries.push_back(variable.name + "=" + variable.value);
    }
}

/// Sets TERM: a program that draws needs the name of its terminal, and this one is understood wherever somebody
/// attaches from.
void add_terminal_type(config::Program const& program, std::vector<char*> const& kept,
                       std::vector<std::string>& entries) {
    constexpr std::string_view name = "TERM";
    bool const is_set = has_variable(kept, name) || has_variable(entries, name) || defines(program, name);
    if (!is_set) entries.emplace_back("TERM=xterm");
}

/// The environment of one process, without the variables that are made anew for each start.
process::SharedEnvironment Planner::environment_of(config::Program const& program, json::Where const& at,
                                                   Entries const& configured, ProcessNumber number,
                                                   std::uint32_t count) {
    Entries own;
    add_files(program, at, number, count, own);
    Names const defined(program);
    std::erase_if(own, [&](std::string const& entry) { return defined.contains(file_name_of(entry)); });
    Names const of_files(own);
    std::vector<char*> kept;
    kept.reserve(inherited_.entries().size() + own.size() + configured.size() + 2);
    std::ranges::copy_if(inherited_.entries(), std::back_inserter(kept), [&](std::string_view entry) {
        std::string_view const name = file_name_of(entry);
        return inherits(program, name) && !of_files.contains(name) && !defined.contains(name);
    });
    if (program.tty) add_terminal_type(program, kept, own);
    own.insert(own.end(), configured.begin(), configured.end());
    return {inherited_, std::move(kept), std::move(own)};
}

/// Numbered files make one whole environment for each number. Only the first error is told; the others would repeat it.
void Planner::add_entries_of_each(config::Program const& program, json::Where const& at, Entries const& configured,
                                  std::uint32_t count, Environment& all) {
    json::Where const file_at{&at, "environmentFile"};
    environments_of_each_ += count;
    if (environments_of_each_ > most_numbered_files)
        return add(file_at,
                   "more than " + std::to_string(most_numbered_files) + " processes with files by number in all");
    std::size_t const errors_before = rejected_.errors.size();
    for (std::uint32_t number = 1; number <= count && rejected_.errors.size() == errors_before; ++number) {
        all.of_each.push_back(number == 1 ? all.fixed
                                          : environment_of(program, at, configured, ProcessNumber{number}, count));
        for (std::string_view const entry : all.of_each.back().entries())
            bytes_of_each_ += entry.size();
        if (bytes_of_each_ > most_environments_of_each)
            return add(file_at, "the environments of processes with files by number are larger than " +
                                    std::to_string(most_environments_of_each >> 20) + " MiB in all");
        if (bounds_ && copies_ + bytes_of_each_ > bounds_->copies) rejected_.is_too_much = true;
        if (rejected_.is_too_much) return;
    }
}

/// The working directory by number; nothing when all processes share one.
std::optional<process::CommandTemplate> Planner::directory(config::Program const& program, json::Where const& at,
                                                           std::uint32_t count) {
    auto const& argument = program.working_directory_argument;
    if (!argument || !depends_on_number(*argument)) return std::nullopt;
    return paths_of(*argument, json::Where{&at, "workingDirectory"}, count);
}

process::NumberedParts Planner::numbered_parts(Environment const& environment) {
    return {
        .environment = environment.numbered, .environments = environment.of_each, .directory = environment.directory};
}

Planner::Environment Planner::environment(config::Program const& program, json::Where const& at, std::uint32_t count) {
    bool const is_ours = program.environment_from == config::EnvironmentFrom::inherit &&
                         program.environment_files.empty() && program.environment.empty() && !program.tty;
    Environment all{.fixed = inherited_};
    if (is_ours) return all;
    std::vector<std::pair<std::string, config::Argument>> fixed;
    std::vector<std::pair<std::string, config::Argument>> numbered;
    for (auto const& variable : program.environment)
        (depends_on_number(variable.second) ? numbered : fixed).push_back(variable);
    json::Where const environment_at{&at, "environment"};
    Entries configured;
    if (auto const made = checked(config::substitute(fixed, environment_at, variables_, count)))
        configured = made->arguments(ProcessNumber{1});
    all.fixed = environment_of(program, at, configured, ProcessNumber{1}, count);
    if (is_environment_of_each(program)) add_entries_of_each(program, at, configured, count, all);
    if (numbered.empty()) return all;
    if (auto made = checked(config::substitute(numbered, environment_at, variables_, count)))
        all.numbered.push_back(std::move(*made));
    return all;
}

/// Returns a shared copy of the value, since most programs have the same one. `latest` is ordered by last use.
template <class Shared, class Value, class Projection = std::identity>
Shared kept_once(std::vector<Shared>& latest, Value const& value, Projection value_of = {}) {
    constexpr std::size_t most = 4;
    auto const known = std::ranges::find(latest, value, value_of);
    if (known != latest.end()) {
        std::rotate(latest.begin(), known, known + 1);
    } else {
        if (latest.size() == most) latest.pop_back();
        latest.insert(latest.begin(), Shared(value));
    }
    return latest.front();
}

process::SharedEnvironment Planner::shared(process::SharedEnvironment const& environment) {
    return kept_once(environments_, environment);
}

process::SharedAttributes Planner::shared(process::Attributes const& attributes) {
    return kept_once(attributes_, attributes, &process::SharedAttributes::all);
}

/// Whether a load with bounds has reached them, with one more program and its copy of the environment counted.
bool Planner::is_too_much() {
    if (!bounds_) return false;
    copies_ += inherited_bytes_;
    if (copies_ > bounds_->copies || memory_.filters.size() + memory_.trials.size() > bounds_->preparations)
        rejected_.is_too_much = true;
    return rejected_.is_too_much;
}

/// Whether a load with bounds would look for files in too many places, with these counted.
bool Planner::looks_too_often(std::size_t places) {
    if (!bounds_) return false;
    looks_ += places;
    if (looks_ > bounds_->looks) rejected_.is_too_much = true;
    return rejected_.is_too_much;
}

/// The entry of PATH; empty without one.
std::string search_path_of(process::SharedEnvironment const& fixed,
                           std::vector<process::CommandTemplate> const& numbered) {
    auto const is_path = [](std::string_view entry) { return entry.starts_with("PATH="); };
    auto const found = std::ranges::find_if(fixed.entries(), is_path);
    if (found != fixed.entries().end()) return *found;
    for (process::CommandTemplate const& entries : numbered) {
        for (std::string& entry : entries.arguments(ProcessNumber{1}))
            if (is_path(entry)) return std::move(entry);
    }
    return {};
}

Result<std::string> Planner::find_program(std::string const& word, Environment const& environment,
                                          process::Attributes const& attributes) {
    if (kind_ == LoadKind::follow) {
        if (commands_.size() == findings_->commands.size())
            return fail(ErrorKind::internal, "find " + word, "it was not looked up");
        commands_.push_back(findings_->commands[commands_.size()]);
        return commands_.back();
    }
    std::string path;  // the PATH that counts
    if (word.find('/') == std::string::npos) path = search_path_of(environment.fixed, environment.numbered);
    std::array<std::string_view, 4> const key{word, path, attributes.root_directory, attributes.working_directory};
    if (!latest_search_ || !std::ranges::equal(latest_search_->first, key)) {
        auto const [search, is_new] =
            searches_.try_emplace({word, path, attributes.root_directory, attributes.working_directory});
        if (is_new) {
            if (looks_too_often(1 + static_cast<std::size_t>(std::ranges::count(path, ':')))) return word;
            search->second = process::find_program(word, {path}, attributes);
        }
        latest_search_ = &*search;
    }
    Result<std::string> const& found = latest_search_->second;
    if (findings_ && found) commands_.push_back(*found);
    return found;
}

/// What is wrong with a probe. A check that another process has made for all processes is not repeated.
std::optional<std::string> Planner::fault_of(NetworkProbe const& probe, bool is_numbered) {
    if (memory_.is_tried) return std::nullopt;
    std::size_t const of_one = probe.target.buffer_size() + (probe.headers ? probe.headers->buffer_size() : 0);
    std::uint64_t const bytes = std::uint64_t{probe.target.highest_number()} * of_one;
    if (bounds_ && is_numbered && (bytes > bounds_->rendering || bytes > rendered_)) {
        rejected_.is_too_much = true;
        return std::nullopt;
    }
    return target_fault(probe, is_numbered, rendered_);
}

void Planner::record(Findings& findings) {
    findings.commands = std::move(commands_);
    findings.filters.clear();
    for (process::SeccompFilter const& filter : memory_.filters)
        findings.filters.push_back(filter.code());
}

/// Finds a command's program. Problems go to `rejected`; one that is missing is watched for.
std::string Planner::find_command(std::string const& word, json::Where const& at, Environment const& environment,
                                  process::Attributes const& attributes) {
    auto found = find_program(word, environment, attributes);
    if (found) return std::move(*found);
    if (check_ == BinaryCheck::skipped) {
        rejected_.remarks.push_back(at.text() + ": " + found.error().text());
        return word;
    }
    // A missing root directory is told where it is named; nothing can be found in it.
    if (files::open_confined(attributes.root_directory, "/", O_PATH | O_DIRECTORY | O_CLOEXEC))
        add(at, found.error().text());
    if (word.starts_with('/')) rejected_.missing_binaries.push_back(attributes.root_directory + word);
    return {};
}

std::shared_ptr<process::StartPlan const> Planner::command(config::Program const& program, json::Where const& at,
                                                           Environment const& environment,
                                                           process::SharedAttributes const& attributes,
                                                           std::uint32_t count) {
    json::Where const command_at{&at, "command"};
    json::Where const arguments_at{&at, "arguments"};
    config::ArgumentList const lists[] = {{program.command, command_at}, {program.arguments, arguments_at}};
    auto arguments = checked(config::substitute(lists, variables_, count));
    if (!arguments) return nullptr;
    if (program.command.empty()) {
        if (is_known(draft_.problems, command_at.text())) return nullptr;
        std::string const& version = program.version.value_or(configuration_.version);
        std::string const binary = find_binary(options_, version, check_, rejected_, at.text() + ": ");
        return std::make_shared<process::StartPlan const>(binary, shared(environment.fixed), std::move(*arguments),
                                                          numbered_parts(environment), attributes);
    }
    json::Where const word_at{&command_at, std::size_t{0}};
    if (depends_on_number(program.command.front())) {
        add(word_at, "must be the same for all processes");
        return nullptr;
    }
    std::string const word = arguments->take_first();
    std::string binary = find_command(word, word_at, environment, attributes.all());
    return std::make_shared<process::StartPlan const>(std::move(binary), shared(environment.fixed),
                                                      std::move(*arguments), numbered_parts(environment), attributes,
                                                      word);
}

/// A helper has its program's identity and sandbox, and gets the program's name.
HelperPlan Planner::helper(std::vector<config::Argument> const& command, json::Where const& at, Duration timeout,
                           config::Program const& program, Environment environment, process::Attributes attributes,
                           std::uint32_t count) {
    attributes.listen_names.clear();
    attributes.watchdog_microseconds = 0;
    attributes.ready_target.reset();
    auto const name_program = [&](process::SharedEnvironment& own) {
        own = process::SharedEnvironment(own, "TRITON_PROGRAM=" + program.name);
    };
    name_program(environment.fixed);
    std::ranges::for_each(environment.of_each, name_program);
    std::pair<std::string, config::Argument> const number[] = {
        {"TRITON_PROCESS", {.type = config::ArgumentType::process_number}}};
    if (auto made = checked(config::substitute(number, at, variables_, count)))
        environment.numbered.push_back(std::move(*made));
    config::Program hook;
    hook.command = command;
    return {.start = this->command(hook, at, environment, shared(attributes), count),
            .network = {},
            .timeout = std::chrono::duration_cast<milliseconds>(timeout)};
}

template <class Probe>
HelperPlan Planner::network_helper(config::ProbeKind kind, Probe const& probe, json::Where const& at,
                                   std::uint32_t count) {
    bool const is_url = kind == config::ProbeKind::http;
    auto const& target = is_url ? probe.url : probe.address;
    if (!target) return {};  // what is wrong with it has been told
    json::Where const target_at{&at, is_url ? "url" : "address"};
    auto made = checked(config::substitute(*target, target_at, variables_, count));
    if (!made) return {};
    NetworkProbe network{.kind = kind, .target = std::move(*made), .headers = {}, .status = {}, .service = {}};
    if (is_url) network.status = probe.status;
    if (kind == config::ProbeKind::grpc) network.service = probe.service;
    if (is_url && !probe.headers.empty()) add_headers(probe.headers, {&at, "headers"}, count, network);
    if (auto fault = fault_of(network, depends_on_number(*target))) add(target_at, std::move(*fault));
    return {.start = {},
            .network = std::make_shared<NetworkProbe const>(std::move(network)),
            .timeout = std::chrono::duration_cast<milliseconds>(probe.timeout)};
}

/// A probe for a line of the log. It has no time limit of its own: the start has one.
HelperPlan Planner::log_helper(config::Readiness const& readiness, json::Where const& at, std::uint32_t count) {
    if (!readiness.pattern) return {};  // what is wrong with it has been told
    json::Where const pattern_at{&at, "pattern"};
    auto made = checked(config::substitute(*readiness.pattern, pattern_at, variables_, count));
    if (!made) return {};
    bool const is_numbered = depends_on_number(*readiness.pattern);
    NetworkProbe log{.kind = config::ProbeKind::log, .target = std::move(*made), .stream = readiness.stream};
    if (auto fault = fault_of(log, is_numbered)) {
        add(pattern_at, std::move(*fault));
    } else if (!memory_.is_tried) {
        // All numbers are digits, so the only thing that they could break is the count of a repetition.
        for (std::uint32_t const number : {1U, is_numbered ? std::max(count, 1U) : 1U}) {
            PatternToCheck one{pattern_at.text(), log.target.arguments(ProcessNumber{number}).front()};
            if (patterns_.empty() || patterns_.back() != one) patterns_.push_back(std::move(one));
        }
        bool const is_quick = kind_ == LoadKind::small || kind_ == LoadKind::first;
        if (is_quick && !options_.agent_path.empty()) rejected_.is_too_much = true;  // needs another program's answer
    }
    return {.start = {}, .network = std::make_shared<NetworkProbe const>(std::move(log)), .timeout = {}};
}

/// If the agent cannot be asked, it could not look at lines either: an error, unless another machine is meant.
void Planner::check_patterns() {
    if (patterns_.empty() || rejected_.is_too_much || options_.agent_path.empty()) return;
    auto faults = faults_of_patterns(options_.agent_path, patterns_);
    if (!faults) {
        std::string text = "patterns cannot be checked: " + faults.error().text();
        bool const is_error = check_ == BinaryCheck::required;
        return (is_error ? rejected_.errors : rejected_.remarks).push_back(std::move(text));
    }
    for (std::string& fault : *faults)
        rejected_.errors.push_back(std::move(fault));
}

void Planner::add_headers(config::Headers const& headers, json::Where const& at, std::uint32_t count,
                          NetworkProbe& probe) {
    probe.headers = checked(config::substitute(headers, at, variables_, count));
    if (!probe.headers || memory_.is_tried) return;
    bool const is_numbered =
        std::ranges::any_of(headers, [](auto const& field) { return depends_on_number(field.second); });
    if (auto fault = headers_fault(probe, is_numbered, rendered_)) add(at, std::move(*fault));
}

/// Adds the files that are watched for a program.
void Planner::add_files(config::Program const& program, json::Where const& at, ProgramPlan& plan) {
    if (!program.files) return;
    json::Where const files_at{&at, "files"};
    json::Where const paths_at{&files_at, "paths"};
    for (std::size_t i = 0; i < program.files->paths.size(); ++i) {
        json::Where const path_at{&paths_at, i};
        auto path = path_of(program.files->paths[i], path_at);
        if (!path) continue;
        std::size_t const slash = path->rfind('/');
        if (path->find_first_of("*?[") < slash)
            add(path_at,
                json::quoted(*path) + " has a pattern in the name of a directory: only its last part may be one");
        plan.watched_files.push_back(std::move(*path));
    }
}

/// Settles the path that an argument stands for, if all processes share it.
template <class Stream>
void Planner::settle_file(Stream& stream, json::Where const& at, std::uint32_t count) {
    if (!stream.file_argument) return;
    json::Where const file_at{&at, "file"};
    auto const made = paths_of(*stream.file_argument, file_at, count);
    if (!made) return;
    bool const is_numbered = depends_on_number(*stream.file_argument);
    stream.file_argument = config::with_variables_put_in(*stream.file_argument, variables_);
    if (!is_numbered) stream.file = made->arguments(ProcessNumber{1}).front();
}

void Planner::settle_files(config::Program& settings, json::Where const& at, std::uint32_t count) {
    json::Where const output_at{&at, "output"};
    settle_file(settings.stdin_, json::Where{&at, "stdin"}, count);
    settle_file(settings.output, output_at, count);
    config::settle_own_stream(settings.output);
    for (config::Output& error : settings.output.error) {
        settle_file(error, json::Where{&output_at, "stderr"}, count);
        config::settle_own_stream(error);
    }
}

std::vector<SocketRequest> Planner::sockets(config::Program const& program, json::Where const& at) {
    std::vector<SocketRequest> requests;
    if (program.sockets.empty()) return requests;
    auto const accounts = process::Accounts::read({});
    json::Where const sockets_at{&at, "sockets"};
    for (std::size_t i = 0; i < program.sockets.size(); ++i) {
        config::ListenSocket const& socket = program.sockets[i];
        json::Where const socket_at{&sockets_at, i};
        SocketRequest request{.address = socket.address,
                              .mode = socket.mode,
                              .user = {},
                              .group = {},
                              .backlog = static_cast<int>(socket.backlog),
                              .place = socket_at.text()};
        auto const look_up = [&](std::optional<process::IdOrName> const& wanted, std::string_view key,
                                 auto find) -> std::optional<std::uint32_t> {
            if (!wanted) return std::nullopt;
            if (auto const* const id = std::get_if<std::uint32_t>(&*wanted)) return *id;
            auto const& name = std::get<std::string>(*wanted);
            std::optional<std::uint32_t> const id = accounts ? find(name) : std::nullopt;
            if (!id && check_ == BinaryCheck::required)
                add({&socket_at, key}, "no " + std::string(key) + " \"" + name + "\"");
            return id;
        };
        request.user = look_up(socket.user, "user", [&](std::string const& name) -> std::optional<std::uint32_t> {
            auto const user = accounts->find_user(name);
            if (!user) return std::nullopt;
            return user->id;
        });
        request.group =
            look_up(socket.group, "group", [&](std::string const& name) { return accounts->find_group(name); });
        requests.push_back(std::move(request));
    }
    return requests;
}

ProgramPolicy Planner::policy(config::Program const& program) const {
    ProgramPolicy policy = options_.defaults;
    policy.count = configuration_.run_servers ? program.count.value_or(1) : 0;
    if (program.one_shot) policy.kind = ProgramKind::one_shot;
    if (program.schedule) policy.kind = ProgramKind::scheduled;
    policy.auto_start = program.auto_start;
    if (program.run_timeout && policy.kind != ProgramKind::service) policy.run_timeout = *program.run_timeout;
    policy.makes_up = program.schedule && program.schedule->missed == config::Missed::run;
    policy.restart = program.restart;
    policy.success_ends = program.success_ends;
    policy.permanent_ends = program.permanent_ends;
    auto const backoff = program.backoff.value_or(config::Backoff{});
    policy.backoff.delay =
        backoff.initial.value_or(std::chrono::duration_cast<milliseconds>(options_.defaults.backoff.delay));
    policy.backoff.factor = backoff.factor.value_or(options_.defaults.backoff.factor);
    if (backoff.max) policy.backoff.max_delay = *backoff.max;
    policy.backoff.max_delay = std::max(policy.backoff.max_delay, policy.backoff.delay);
    policy.backoff.jitter = backoff.jitter.value_or(options_.defaults.backoff.jitter);
    if (backoff.reset_after) policy.backoff.reset_after = *backoff.reset_after;
    policy.backoff.always_waits = backoff.always;
    if (program.start_limit) {
        policy.start_limit =
            StartLimit{program.start_limit->count, program.start_limit->interval, program.start_limit->exit_code};
    }
    policy.critical = program.critical;
    policy.is_main = program.name == command_name;
    policy.stop_signal = program.stop_signal.value_or(options_.defaults.stop_signal);
    if (program.stop_timeout) policy.stop_timeout = *program.stop_timeout;
    if (!program.stop_sequence.empty()) {
        policy.stop_signal = program.stop_sequence.front().signal;
        policy.stop_timeout = Duration{};
        for (config::StopStep const& step : program.stop_sequence) {
            policy.stop_steps.push_back({step.signal, step.wait});
            policy.stop_timeout += step.wait;
        }
    }
    policy.drain = program.drain_delay;
    policy.has_pre_stop = program.pre_stop.has_value();
    if (program.pre_stop) policy.pre_stop_timeout = program.pre_stop->timeout;
    policy.stop_scope = program.stop_scope;
    policy.kills_tree = true;
    policy.on_change = program.on_change;
    policy.change_signal = program.reload_signal;
    policy.has_on_failure = program.on_failure.has_value();
    policy.has_on_success = program.on_success.has_value();
    policy.has_on_stop = program.on_stop && policy.kind == ProgramKind::one_shot;
    if (program.on_stop) policy.on_stop_timeout = program.on_stop->timeout;
    if (program.readiness) {
        switch (program.readiness->type) {
            case config::ReadinessType::notify:
            case config::ReadinessType::fd: policy.readiness = Readiness::notified; break;
            case config::ReadinessType::exec:
            case config::ReadinessType::tcp:
            case config::ReadinessType::http:
            case config::ReadinessType::grpc:
            case config::ReadinessType::log: policy.readiness = Readiness::probed; break;
        }
        bool const is_by_log = program.readiness->type == config::ReadinessType::log;
        policy.probe_interval = is_by_log ? between_log_watches : program.readiness->interval;
    }
    policy.forks = program.pid_file.has_value();
    if (policy.forks) policy.start_timeout = time_to_fork;
    if (program.start_timeout) policy.start_timeout = *program.start_timeout;
    if (program.watchdog) policy.watchdog = *program.watchdog;
    for (config::Health const& health : program.health)
        policy.checks.push_back({health.interval, health.retries, health.start_period, health.action});
    policy.is_sequential = program.order == config::StartOrder::sequential && !program.schedule;
    if (!program.schedule) policy.max_unavailable = program.max_unavailable.value_or(0);
    policy.is_told_of_files = program.files && program.files->action == config::FilesAction::signal;
    return policy;
}

/// Reads each zone once for a load.
std::shared_ptr<config::TimeZone const> Planner::time_zone(std::string const& name, json::Where const& at) {
    if (auto const known = zones_.find(name); known != zones_.end()) return known->second;
    if (name == "UTC" || check_ == BinaryCheck::skipped) return nullptr;
    if (looks_too_often()) return nullptr;
    json::Where const schedule_at{&at, "schedule"};
    json::Where const zone_at{&schedule_at, "timeZone"};
    auto const directory = variables_.find("TZDIR");
    bool const has_directory = directory && directory->starts_with('/');
    std::string const path = std::string(has_directory ? std::string_view(*directory) : zone_directory) + "/" + name;
    auto const bytes = read_file(path, config::most_zone_bytes);
    if (!bytes) {
        std::string const hint = bytes.error().kind == ErrorKind::not_found ? " (the package tzdata has it)" : "";
        add(zone_at, bytes.error().text() + hint);
        return nullptr;
    }
    auto parsed = config::TimeZone::parse(*bytes);
    if (!parsed) {
        add(zone_at, "cannot use " + path + ": " + parsed.error());
        return nullptr;
    }
    return zones_.emplace(name, std::make_shared<config::TimeZone const>(std::move(*parsed))).first->second;
}

/// Whether a program's attributes follow from its settings.
bool has_only_settings(config::Program const& program) {
    return !program.working_directory_argument && !program.readiness && !program.watchdog && program.sockets.empty() &&
           program.stdin_.kind != config::StdinKind::inherit;
}

process::SharedAttributes Planner::attributes(config::Program const& program, json::Where const& at,
                                              std::optional<process::CommandTemplate> const& directory) {
    // The document is refused already, with as many errors as anybody reads: a thousand programs might add as many
    // again.
    if (rejected_.errors.size() >= json::Limits{}.problems) return {};
    bool const is_simple = has_only_settings(program);
    if (is_simple && latest_ && latest_->settings == program) return latest_->attributes;
    config::Program const* settings = &program;
    std::optional<config::Program> with_directory;
    if (program.working_directory_argument) {
        with_directory = program;
        json::Where const directory_at{&at, "workingDirectory"};
        if (directory) {
            with_directory->working_directory = directory->arguments(ProcessNumber{1}).front();
        } else if (!depends_on_number(*program.working_directory_argument)) {
            with_directory->working_directory = path_of(*program.working_directory_argument, directory_at);
        }
        settings = &*with_directory;
    }
    auto resolved = resolve_attributes(
        *settings, at,
        check_ == BinaryCheck::required ? process::MachineCheck::required : process::MachineCheck::skipped, memory_);
    if (!resolved) {
        add(resolved.error());
        // The command is searched for there all the same.
        return process::Attributes{.root_directory = program.root_directory.value_or(""),
                                   .working_directory = settings->working_directory.value_or("")};
    }
    if (resolved->keeps_own_groups)
        rejected_.remarks.push_back(
            json::Where{&at, program.user ? "user" : "group"}.text() +
            ": is the launcher's own, so its supplementary groups stay, which cannot be changed "
            "here (that needs CAP_SETGID)");
    resolved->has_default_signals = true;
    resolved->is_foreground = program.stdin_.kind == config::StdinKind::inherit;
    bool const has_own_limit =
        std::ranges::find(resolved->limits, RLIMIT_NOFILE, &process::ResourceLimit::resource) != resolved->limits.end();
    if (options_.descriptor_limit && !has_own_limit) resolved->limits.push_back(*options_.descriptor_limit);
    process::SharedAttributes made = shared(*resolved);
    if (is_simple) latest_ = Resolved{.settings = static_cast<process::Settings const&>(program), .attributes = made};
    return made;
}

std::shared_ptr<ProgramPlan const> Planner::named(Box<config::Program>&& said) {
    if (is_too_much()) return nullptr;
    ProgramPolicy wanted = policy(said);
    auto const plan = std::make_shared<ProgramPlan>(std::move(said), std::move(wanted));
    config::Program& program = plan->settings;
    json::Where const document;
    json::Where const programs_at{&document, "programs"};
    json::Where const at{&programs_at, program.name};
    std::uint32_t const count = program.count.value_or(1);
    std::size_t const errors_before = rejected_.errors.size();
    settle_files(program, at, count);
    plan->is_reader = readers_.contains(program.name);
    // When all its writers have ended, a reader reads the rest and then ends by itself. It is given this long for that.
    if (plan->is_reader && plan->policy.drain == Duration{}) plan->policy.drain = time_to_read;
    Environment variables = environment(program, at, count);
    variables.directory = directory(program, at, count);
    process::SharedAttributes const resolved = attributes(program, at, variables.directory);
    plan->start = command(program, at, variables, resolved, count);
    plan->sockets = sockets(program, at);
    if (!plan->start || rejected_.errors.size() > errors_before) return nullptr;

    auto const add_helper_at = [&](Helper which, std::vector<config::Argument> const& words,
                                   json::Where const& helper_at, Duration timeout) {
        plan->helpers.add(which, helper(words, helper_at, timeout, program, variables, resolved.all(), count));
    };
    auto const add_helper = [&](Helper which, std::vector<config::Argument> const& words, std::string_view key,
                                Duration timeout) { add_helper_at(which, words, json::Where{&at, key}, timeout); };
    auto const add_probe = [&]<class Probe>(Helper which, Probe const& probe, json::Where const& probe_at) {
        using Type = decltype(probe.type);
        auto const add_network_helper = [&](config::ProbeKind kind) {
            plan->helpers.add(which, network_helper(kind, probe, probe_at, count));
        };
        if (probe.type == Type::exec) add_helper_at(which, probe.command, probe_at, probe.timeout);
        if (probe.type == Type::tcp) add_network_helper(config::ProbeKind::tcp);
        if (probe.type == Type::http) add_network_helper(config::ProbeKind::http);
        if (probe.type == Type::grpc) add_network_helper(config::ProbeKind::grpc);
        if constexpr (std::same_as<Probe, config::Readiness>) {
            if (probe.type == Type::log) plan->helpers.add(which, log_helper(probe, probe_at, count));
        }
    };
    if (program.pre_stop) add_helper(Helper::pre_stop, program.pre_stop->command, "preStop", program.pre_stop->timeout);
    if (program.on_failure)
        add_helper(Helper::on_failure, program.on_failure->command, "onFailure", program.on_failure->timeout);
    if (program.on_success)
        add_helper(Helper::on_success, program.on_success->command, "onSuccess", program.on_success->timeout);
    if (program.on_stop) add_helper(Helper::on_stop, program.on_stop->command, "onStop", program.on_stop->timeout);
    if (program.schedule && !program.schedule->time_zone.empty())
        plan->zone = time_zone(program.schedule->time_zone, at);
    if (rejected_.errors.size() > errors_before) return nullptr;
    add_files(program, at, *plan);
    if (program.pid_file) plan->pid_file = paths_of(*program.pid_file, {&at, "pidFile"}, count);
    if (program.readiness) add_probe(Helper::readiness, *program.readiness, {&at, "readiness"});
    json::Where const health_at{&at, "health"};
    for (std::size_t check = 0; check < program.health.size(); ++check) {
        bool const is_only = program.health.size() == 1 && program.health.front().name.empty();
        json::Where const check_at{&health_at, check};
        add_probe(helper_of_check(check), program.health[check], is_only ? health_at : check_at);
    }
    if (rejected_.errors.size() > errors_before) return nullptr;
    decide_needs(*plan);
    return plan;
}

/// The values of the file, with those added that have no line in it.
std::vector<config::EnvironmentVariable> with_variables(
    std::vector<config::EnvironmentVariable> values,
    std::vector<std::pair<std::string, std::string>> const& variables) {
    for (auto const& [name, value] : variables) {
        auto const place = std::ranges::lower_bound(values, name, {}, &config::EnvironmentVariable::name);
        if (place == values.end() || place->name != name) values.insert(place, {name, value});
    }
    return values;
}

/// Adds the container's own command as one more program.
void add_command(std::vector<std::string> const& command, config::ProcessConfiguration& configuration,
                 Rejected& rejected) {
    if (!configuration.has_programs) {
        rejected.errors.emplace_back("-- " + command.front() +
                                     ": a command can only run beside named programs, and there is no \"programs\"");
        return;
    }
    for (config::Program const& other : configuration.programs) {
        if (other.stdin_.kind == config::StdinKind::inherit)
            rejected.errors.push_back("programs." + other.name + ".stdin: the command has the launcher's own");
    }
    config::Program program;
    program.name = command_name;
    for (std::string const& word : command)
        program.command.push_back({.value = word});
    for (config::Program const& other : configuration.programs) {
        if (!other.schedule) program.after.push_back(other.name);
    }
    program.restart = config::RestartWhen::never;
    program.critical = true;
    program.stdin_.kind = config::StdinKind::inherit;
    configuration.programs.push_back(std::move(program));
}

std::string directory_of(std::string_view path) {
    std::size_t const slash = path.rfind('/');
    if (slash == std::string_view::npos) return ".";
    return std::string(path.substr(0, std::max<std::size_t>(slash, 1)));
}

/// Checks the output files of all programs: each file has one writer, and of those by number there are at most as many
/// as PID 1 can open in a round.
class OutputFiles {
public:
    OutputFiles(config::Draft const& draft, Rejected& rejected) : draft_(draft), rejected_(rejected) {}

    void add(config::Program const& program) {
        add(program, program.output, "output");
        for (config::Output const& error : program.output.error)
            add(program, error, "output.stderr");
    }

private:
    struct Writer {
        config::Program const* program = nullptr;
        std::string_view key;
        bool is_numbered = false;

        [[nodiscard]] std::string place() const {
            return "programs." + program->name + "." + std::string(key) + ".file";
        }
        [[nodiscard]] bool is_same(Writer const& other) const { return program == other.program && key == other.key; }
    };

    void add(config::Program const& program, config::Output const& output, std::string_view key) {
        Writer const writer{&program, key, output.is_numbered()};
        if (output.file) (void)add(*output.file, writer);
        if (!output.is_numbered()) return;
        process::CommandTemplate const names = config::numbered_path(*output.file_argument);
        for (std::uint32_t number = 1; number <= program.count.value_or(1); ++number) {
            if (!add(names.arguments(ProcessNumber{number}).front(), writer)) return;
        }
    }

    /// Returns whether to go on with the next number.
    bool add(std::string path, Writer const& writer) {
        auto const [owner, is_new] = writers_.try_emplace(std::move(path), writer);
        if (is_new) {
            if (!writer.is_numbered || ++numbered_ <= most_numbered_files) return true;
            refuse(writer, "more than " + std::to_string(most_numbered_files) + " files by number in all");
            return false;
        }
        Writer const& other = owner->second;
        if (other.is_same(writer)) return true;
        refuse(writer, json::shown(owner->first) + " is also the file of " + other.place());
        return false;
    }

    void refuse(Writer const& writer, std::string reason) {
        json::Problem problem{writer.place(), std::move(reason)};
        if (draft_.layers) problem.file = draft_.layers->file_of(problem.where);
        rejected_.errors.push_back(problem.text());
    }

    config::Draft const& draft_;
    Rejected& rejected_;
    std::map<std::string, Writer> writers_;
    std::size_t numbered_ = 0;
};

/// The variables that the document uses. One that is used in several ways is listed unchanged, since all of them can be
/// derived from that.
std::vector<std::pair<std::string, std::string>> used_environment(Accepted const& accepted,
                                                                  config::Variables const& variables) {
    std::map<std::string, std::string> environment;
    for (config::Reference const& reference : accepted.variables) {
        if (!reference.value) continue;
        auto const [entry, is_new] = environment.emplace(reference.name, *reference.value);
        if (!is_new) entry->second = variables.find(reference.name).value_or("");
    }
    if (!accepted.programs.empty())
        environment["BINARY_DIR"] = directory_of(accepted.programs.front()->start->program());
    return {environment.begin(), environment.end()};
}

/// The draft of the text as it is now; the one parsed earlier may be of another text.
config::Draft draft_of(std::vector<config::Layer> const& document, SourceOptions const& options) {
    ReadAhead ahead;
    if (options.read_ahead) ahead = std::exchange(*options.read_ahead, {});
    if (ahead.draft && ahead.document == document) return std::move(*ahead.draft);
    return config::read(document);
}

}  // namespace

ReadAhead read_ahead(Result<std::vector<config::Layer>> document) {
    if (!document) return {};
    config::Draft draft = config::read(*document);
    return {.document = std::move(*document), .draft = std::move(draft)};
}

bool needs_container_version(ReadAhead const& ahead) {
    if (!ahead.draft) return false;
    config::Draft const& draft = *ahead.draft;
    if (!draft.is_object || !draft.problems.empty() || !draft.warnings.empty()) return false;
    return !draft.configuration.has_programs ||
           std::ranges::any_of(draft.configuration.programs,
                               [](config::Program const& program) { return program.command.empty(); });
}

std::uint32_t Accepted::process_count() const {
    std::uint32_t count = 0;
    for (auto const& program : programs) {
        if (program->policy.kind != ProgramKind::scheduled) count += program->policy.count;
    }
    return count;
}

bool Accepted::needs_agent() const {
    auto const is_remote = [](config::Output const& output) { return output.syslog && !output.syslog->is_local(); };
    return std::ranges::any_of(programs, [&](auto const& program) {
        config::Output const& output = program->settings->output;
        return is_remote(output) || std::ranges::any_of(output.error, is_remote) || program->helpers.needs_agent();
    });
}

bool Findings::operator==(Findings const& other) const {
    auto const is_same = [](sock_filter const& one, sock_filter const& another) {
        return one.code == another.code && one.jt == another.jt && one.jf == another.jf && one.k == another.k;
    };
    return commands == other.commands &&
           std::ranges::equal(filters, other.filters, [&](auto const& one, auto const& another) {
               return std::ranges::equal(one, another, is_same);
           });
}

std::size_t hash_of(std::vector<config::Layer> const& document) {
    std::size_t hash = std::hash<std::string>{}(document.front().text);
    for (config::Layer const& layer : std::span(document).subspan(1))
        hash = hash * 31 + std::hash<std::string>{}(layer.file + '\0' + layer.text);
    return hash;
}

Result<std::vector<config::Layer>> one_layer(Result<std::string> text) {
    if (!text) return std::unexpected(std::move(text.error()));
    return std::vector<config::Layer>{{.file = {}, .text = std::move(*text)}};
}

SourceTexts read_source(Result<std::vector<config::Layer>> document, SourceOptions const& options) {
    SourceTexts texts{std::move(document), std::string()};
    if (!options.environment_file.empty())
        texts.environment_file = read_file(options.environment_file, config::Limits{}.document.document_bytes);
    return texts;
}

bool may_be_loaded(LoadKind kind, SourceTexts const& texts, char const* const* environment) {
    LoadBounds const& bounds = *bounds_of(kind);
    std::size_t document = 0;
    if (texts.document) {
        for (config::Layer const& layer : *texts.document)
            document += layer.text.size();
    }
    if (document > bounds.document) return false;
    std::size_t bytes = texts.environment_file ? texts.environment_file->size() : 0;
    for (; *environment && bytes <= bounds.environment; ++environment)
        bytes += std::string_view(*environment).size();
    return bytes <= bounds.environment;
}

std::expected<Accepted, Rejected> load_configuration(Result<std::string> const& text, SourceOptions const& options,
                                                     char const* const* environment, BinaryCheck binary_check) {
    return load_configuration(read_source(one_layer(text), options), options, environment, binary_check,
                              LoadKind::whole, nullptr);
}

std::expected<Accepted, Rejected> load_configuration(SourceTexts const& texts, SourceOptions const& options,
                                                     char const* const* environment, BinaryCheck binary_check,
                                                     LoadKind kind, Findings* findings) {
    Rejected rejected;
    auto const values = parse_environment_file(options.environment_file, texts.environment_file, rejected);
    if (!texts.document) {
        Error const& error = texts.document.error();
        rejected.errors.push_back(error.text());
        rejected.errors.insert(rejected.errors.end(), error.details.begin(), error.details.end());
        shorten(rejected.errors);
        return std::unexpected(std::move(rejected));
    }
    rejected.document = hash_of(*texts.document);
    config::Draft draft = draft_of(*texts.document, options);
    add_texts(rejected.errors, draft.problems);
    add_texts(rejected.warnings, draft.warnings);
    if (!draft.is_object) return std::unexpected(std::move(rejected));

    // Goes on despite problems, so that all errors are told at once.
    config::ProcessConfiguration& configuration = draft.configuration;
    if (!options.command.empty()) add_command(options.command, configuration, rejected);
    config::Variables const variables(with_variables(values, options.variables), environment);
    std::vector<config::Reference> references = config::referenced_variables(configuration, variables);
    Planner planner(
        options, configuration, variables,
        inherited_environment(environment,
                              options.export_environment_file ? values : std::vector<config::EnvironmentVariable>{}),
        binary_check, draft, kind, findings, rejected);
    Accepted accepted;
    if (!configuration.has_programs) {
        accepted.programs.push_back(planner.unnamed());
    } else {
        for (Box<config::Program>& program : configuration.programs)
            accepted.programs.push_back(planner.named(std::move(program)));
        planner.check_patterns();
    }
    if (rejected.is_too_much) return std::unexpected(std::move(rejected));
    add_texts(rejected.warnings, planner.odd_lines());
    shorten(rejected.warnings);
    if (rejected.errors.empty() && configuration.has_programs) {
        OutputFiles files(draft, rejected);
        for (auto const& program : accepted.programs)
            files.add(program->settings);
    }
    if (!rejected.errors.empty()) {
        shorten(rejected.errors);
        rejected.misses_node_label = std::ranges::any_of(references, [&](config::Reference const& reference) {
            return reference.name.starts_with(config::node_label_prefix) && !variables.find(reference.name);
        });
        return std::unexpected(std::move(rejected));
    }

    if (findings && kind == LoadKind::whole) planner.record(*findings);
    accepted.document = rejected.document;
    if (draft.layers) accepted.text = std::move(draft.merged);
    if (!draft.layers) accepted.text = texts.document->front().text;
    accepted.variables = std::move(references);
    accepted.environment = used_environment(accepted, variables);
    accepted.warnings = std::move(rejected.warnings);
    accepted.remarks = std::move(rejected.remarks);
    accepted.missing_binaries = std::move(rejected.missing_binaries);
    std::vector<Box<config::Program>>().swap(configuration.programs);  // with its room
    accepted.configuration = std::move(configuration);
    return accepted;
}

}  // namespace triton::launcher
