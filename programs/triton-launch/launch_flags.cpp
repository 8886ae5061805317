#include "programs/triton-launch/launch_flags.h"

#include <algorithm>
#include <array>

#include "lib/base/read_file.h"
#include "lib/log/termination_message.h"

namespace triton::program {

using namespace launcher;

namespace {

constexpr std::array<Choice<log::LogLevel>, 6> log_levels{{{"trace", log::LogLevel::trace},
                                                           {"debug", log::LogLevel::debug},
                                                           {"info", log::LogLevel::info},
                                                           {"warning", log::LogLevel::warning},
                                                           {"error", log::LogLevel::error},
                                                           {"off", log::LogLevel::off}}};
constexpr std::array<Choice<log::LogFormat>, 3> log_formats{
    {{"auto", log::LogFormat::automatic}, {"text", log::LogFormat::text}, {"json", log::LogFormat::json}}};
constexpr std::array<Choice<config::VersionMatch>, 3> version_matches{{{"auto", config::VersionMatch::automatic},
                                                                       {"exact", config::VersionMatch::exact},
                                                                       {"protocol", config::VersionMatch::protocol}}};
constexpr std::array<Choice<bool>, 2> check_formats{{{"text", false}, {"json", true}}};
constexpr std::array<Choice<CgroupMode>, 3> cgroup_modes{
    {{"auto", CgroupMode::automatic}, {"none", CgroupMode::none}, {"required", CgroupMode::required}}};
// The names of the design, and the shipped name of launch mode.
constexpr std::array<Choice<Mode>, 4> modes{
    {{"launch", Mode::launch}, {"launcher", Mode::launch}, {"init", Mode::init}, {"sidecar", Mode::sidecar}}};

Apply into_control_socket(LaunchOptions& options) {
    return [&options](std::string const& text) -> Result<> {
        options.is_control_asked_for = true;
        return into_path_or_none(options.control_socket)(text);
    };
}

/// Whoever says whose the socket is wants one.
Apply into_control_group(LaunchOptions& options) {
    return [&options](std::string const& text) -> Result<> {
        options.is_control_asked_for = options.is_control_asked_for || !text.empty();
        options.control_group = text;
        return {};
    };
}

}  // namespace

Flag mode_flag(Mode& mode) {
    return {"mode", "", 0, "MODE", "launch (default), launcher (the same), init or sidecar", into_choice(mode, modes)};
}

Flag control_socket_flag(LaunchOptions& options) {
    return {"control-socket",
            "",
            0,
            "PATH",
            "where triton-launch ctl reaches the launcher, or none (default: /run/triton-launch/control)",
            into_control_socket(options)};
}

void add_log_flags(Flags& flags, log::Log::Settings& settings) {
    settings.max_size = 100ULL << 20;
    settings.termination_path = log::default_termination_path;
    Flag rows[] = {
        {"log-level", "", 0, "LEVEL", "trace, debug, info (default), warning, error or off",
         into_choice(settings.level, log_levels)},
        {"log-format", "", 0, "FORMAT", "text, json, or auto: text on a terminal (default: auto)",
         into_choice(settings.format, log_formats)},
        {"log-path", "", 0, "FILE", "also log to this file; reopened on SIGHUP and when it was renamed",
         into_any(settings.path)},
        {"log-max-size", "", 0, "SIZE",
         "at this size FILE becomes FILE.1, and FILE.1 becomes FILE.2; or none (default: 100Mi)",
         into_size_or_none(settings.max_size)},
        {"termination-log", "", 0, "FILE",
         "gets the last errors if nobody has written to it, or none (default: /dev/termination-log)",
         into_path_or_none(settings.termination_path)},
    };
    add(flags, rows);
}

void add_source_flags(Flags& flags, SourceOptions& source, ContainerVersion& version) {
    source.binary.own_path = "/usr/bin/fdbserver";
    source.binary.shared_directory = "/var/fdb/shared-binaries";
    Flag rows[] = {
        {"main-container-version", "", 0, "VERSION", "version of this container's own binary", into(version.given)},
        {"version-file", "", 0, "FILE", "the file that holds that version otherwise (default: /var/fdb/version)",
         into(version.file)},
        {"version-match", "", 0, "RULE",
         "which versions this binary serves: auto, exact or protocol (default: auto, also replaces a missing one)",
         into_choice(source.binary.match, version_matches)},
        {"fdbserver-path", "binary-path", 0, "FILE", "the container's own binary (default: /usr/bin/fdbserver)",
         into(source.binary.own_path)},
        {"shared-binary-dir", "", 0, "DIR",
         "other versions: DIR/bin/VERSION/NAME or DIR/VERSION/NAME (default: /var/fdb/shared-binaries)",
         into(source.binary.shared_directory)},
        {"additional-env-file", "", 0, "FILE", "name=value lines for substitution, looked up before the environment",
         into_any(source.environment_file)},
        {"export-env-file", "", 0, "", "also put those values into the processes' environment",
         into_switch(source.export_environment_file)},
        {"server-count", "process-count", 0, "N", "how many processes, unless the configuration gives it (default: 1)",
         into(source.server_count, 0, 65535)},
    };
    add(flags, rows);
}

Result<> resolve_container_version(SourceOptions& source, ContainerVersion const& version) {
    source.binary.container_version = version.given;
    if (!version.given.empty()) return {};
    auto text = read_file(version.file, 4096);
    if (!text) {
        return fail("--main-container-version is missing, and so is the version file: " + text.error().text());
    }
    auto const is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
    while (!text->empty() && is_blank(text->back()))
        text->pop_back();
    text->erase(text->begin(), std::ranges::find_if_not(*text, is_blank));
    if (text->empty())
        return fail("--main-container-version is missing, and the version file " + version.file + " is empty");
    source.binary.container_version = *text;
    return {};
}

void add_launch_flags(Flags& flags, LaunchOptions& options, std::string& directory, std::string& name, Mode& mode) {
    ProgramPolicy& defaults = options.source.defaults;
    RestartPolicy& restart = defaults.backoff;
    Flag rows[] = {
        mode_flag(mode),
        {"input-dir", "", 0, "DIR", "directory of the configuration (default: .)", into(directory)},
        {"input-monitor-conf", "", 0, "NAME", "the configuration's name in it (default: config.json)", into(name)},
        {"exit-on-bad-config", "", 0, "",
         "exit with 1 if the first configuration is bad; do not wait for a good one (default: with -- COMMAND)",
         [&options](std::string const& text) -> Result<> {
             TRY(into_switch(options.exit_on_bad_configuration)(text));
             options.waits_for_directory = !options.exit_on_bad_configuration;
             return {};
         }},
        {"restart-delay", "", 0, "DURATION",
         "delay before the second restart after failures; the first is at once (default: 1s)", into(restart.delay)},
        {"restart-max-delay", "", 0, "DURATION", "the delay grows up to this (default: 60s)", into(restart.max_delay)},
        {"restart-factor", "", 0, "FACTOR", "factor by which the delay grows (default: 2)",
         into(restart.factor, 1, 1000, "from 1 to 1000")},
        {"restart-jitter", "", 0, "SHARE", "share by which the delay varies up and down (default: 0.1)",
         into(restart.jitter, 0, 1, "from 0 to 1")},
        {"restart-reset-after", "", 0, "DURATION",
         "earlier failures are forgotten after a run this long (default: 60s)", into(restart.reset_after)},
        {"restart-minimum-run", "", 0, "DURATION", "exit code 0 after a run this long is not a failure (default: 1s)",
         into(restart.minimum_run)},
        {"stop-signal", "", 0, "SIGNAL", "the signal that ends a process (default: TERM)",
         into_signal(defaults.stop_signal)},
        {"stop-timeout", "", 0, "DURATION", "time until SIGKILL follows, for each process (default: 10s)",
         into(defaults.stop_timeout)},
        {"stop-limit", "", 0, "DURATION",
         "limit for the whole stop, after which the launcher ends anyway (default: 30s)",
         into(options.supervisor.stop_limit)},
        {"rewrite", "", 'r', "A:B", "treat signal A as signal B; 0 for B drops it (may be repeated)",
         into_rewrite(options.rewrite)},
        {"kill-group", "", 'g', "", "stop signals and forwarded ones go to each process's group",
         into_switch(options.kill_group)},
        {"orphan-signal", "", 0, "SIGNAL",
         "signal to the processes when the launcher dies and is not PID 1, or none (default: TERM)",
         into_signal(options.orphan_signal, true)},
        {"parent-death-signal", "", 'p', "SIGNAL", "signal that the launcher gets when its parent dies",
         into_signal(options.parent_death_signal)},
        {"cgroup", "", 0, "WHEN", "a control group for each process: auto (default: if possible), none or required",
         into_choice(options.cgroup, cgroup_modes)},
        {"wait-for-pod", "", 0, "DURATION",
         "wait this long for the annotations of the pod before the first start (default: 0s)",
         into(options.wait_for_pod)},
        control_socket_flag(options),
        {"control-mode", "", 0, "MODE", "permissions of that socket, in octal (default: 0600)",
         into_mode(options.control_mode)},
        {"control-group", "", 0, "GROUP", "its group, by name or number (default: the launcher's)",
         into_control_group(options)},
    };
    add(flags, rows);
    add_log_flags(flags, options.log);
}

void add_check_flags(Flags& flags, CheckOptions& options, std::uint32_t& process_number) {
    Flag rows[] = {
        {"process-number", "", 0, "N", "check only this process (default: all)", into(process_number, 1, 65535)},
        {"strict", "", 0, "", "also check what depends on this machine: binary, users, limits",
         into_switch(options.is_strict)},
        {"agent-path", "", 0, "FILE", "the program that checks patterns (default: triton-launch-agent beside this one)",
         into(options.source.agent_path)},
        {"format", "", 0, "FORMAT", "text (default) or json", into_choice(options.as_json, check_formats)},
        {"merged", "", 0, "", "print the document merged with the files that it includes",
         into_switch(options.is_merged)},
    };
    add(flags, rows);
}

}  // namespace triton::program
