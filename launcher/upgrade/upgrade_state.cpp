#include "launcher/upgrade/upgrade_state.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <concepts>
#include <limits>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/limits.h"
#include "config/socket_address.h"
#include "lib/base/read_file.h"
#include "lib/base/write_all.h"
#include "lib/json/members.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"

namespace triton::launcher {

namespace {

// The fields of every struct in the state, listed once, for writing and for reading. A new field needs a row here, or
// the code does not compile. A name that has been written never changes.

template <class A>
constexpr void describe(A& a, RestartPolicy const*) {
    a("delay", &RestartPolicy::delay);
    a("max_delay", &RestartPolicy::max_delay);
    a("factor", &RestartPolicy::factor);
    a("jitter", &RestartPolicy::jitter);
    a("reset_after", &RestartPolicy::reset_after);
    a("minimum_run", &RestartPolicy::minimum_run);
    a("always_waits", &RestartPolicy::always_waits);
}

template <class A>
constexpr void describe(A& a, StartLimit const*) {
    a("count", &StartLimit::count);
    a("interval", &StartLimit::interval);
    a("exit_code", &StartLimit::exit_code);
}

template <class A>
constexpr void describe(A& a, Health const*) {
    a("interval", &Health::interval);
    a("retries", &Health::retries);
    a("start_period", &Health::start_period);
    a("action", &Health::action);
}

template <class A>
constexpr void describe(A& a, CheckRecord const*) {
    a("probe_at", &CheckRecord::probe_at);
    a("failures", &CheckRecord::failures);
}

template <class A>
constexpr void describe(A& a, StopStep const*) {
    a("signal", &StopStep::signal);
    a("wait", &StopStep::wait);
}

template <class A>
constexpr void describe(A& a, ProgramPolicy const*) {
    a("count", &ProgramPolicy::count);
    a("kind", &ProgramPolicy::kind);
    a("auto_start", &ProgramPolicy::auto_start);
    a("restart", &ProgramPolicy::restart);
    a("run_timeout", &ProgramPolicy::run_timeout);
    a("makes_up", &ProgramPolicy::makes_up);
    a("success_ends", &ProgramPolicy::success_ends);
    a("permanent_ends", &ProgramPolicy::permanent_ends);
    a("backoff", &ProgramPolicy::backoff);
    a("start_limit", &ProgramPolicy::start_limit);
    a("critical", &ProgramPolicy::critical);
    a("is_main", &ProgramPolicy::is_main);
    a("auxiliary", &ProgramPolicy::auxiliary);
    a("stop_signal", &ProgramPolicy::stop_signal);
    a("stop_timeout", &ProgramPolicy::stop_timeout);
    a("stop_steps", &ProgramPolicy::stop_steps);
    a("drain", &ProgramPolicy::drain);
    a("has_pre_stop", &ProgramPolicy::has_pre_stop);
    a("pre_stop_timeout", &ProgramPolicy::pre_stop_timeout);
    a("stop_scope", &ProgramPolicy::stop_scope);
    a("forks", &ProgramPolicy::forks);
    a("kills_tree", &ProgramPolicy::kills_tree);
    a("on_change", &ProgramPolicy::on_change);
    a("change_signal", &ProgramPolicy::change_signal);
    a("is_told_of_files", &ProgramPolicy::is_told_of_files);
    a("has_on_failure", &ProgramPolicy::has_on_failure);
    a("has_on_success", &ProgramPolicy::has_on_success);
    a("has_on_stop", &ProgramPolicy::has_on_stop);
    a("on_stop_timeout", &ProgramPolicy::on_stop_timeout);
    a("after", &ProgramPolicy::after);
    a("requires", &ProgramPolicy::requires_);
    a("binds_to", &ProgramPolicy::binds_to);
    a("readiness", &ProgramPolicy::readiness);
    a("probe_interval", &ProgramPolicy::probe_interval);
    a("start_timeout", &ProgramPolicy::start_timeout);
    a("watchdog", &ProgramPolicy::watchdog);
    a("health", &ProgramPolicy::checks);  // older launchers have written one, as an object
    a("is_sequential", &ProgramPolicy::is_sequential);
    a("max_unavailable", &ProgramPolicy::max_unavailable);
}

template <class A>
constexpr void describe(A& a, ProcessRecord const*) {
    a("state", &ProcessRecord::state);
    a("is_to_be_held", &ProcessRecord::is_to_be_held);
    a("is_to_restart", &ProcessRecord::is_to_restart);
    a("has_run_badly", &ProcessRecord::has_run_badly);
    a("is_stale", &ProcessRecord::is_stale);
    a("has_status", &ProcessRecord::has_status);
    a("is_untold", &ProcessRecord::is_untold);
    a("fails_once_more", &ProcessRecord::fails_once_more);
    a("succeeds_once_more", &ProcessRecord::succeeds_once_more);
    a("is_unwell", &ProcessRecord::is_unwell);
    a("is_to_roll", &ProcessRecord::is_to_roll);
    a("is_main_known", &ProcessRecord::is_main_known);
    a("said_ready", &ProcessRecord::said_ready);
    a("is_unwatched", &ProcessRecord::is_unwatched);
    a("fault", &ProcessRecord::fault);
    a("helpers", &ProcessRecord::helpers);
    a("cancelled", &ProcessRecord::cancelled);
    a("stop_step", &ProcessRecord::stop_step);
    a("ended_in", &ProcessRecord::ended_in);
    a("was_oom_killed", &ProcessRecord::was_oom_killed);
    a("exit_code", &ProcessRecord::exit_code);
    a("error_stage", &ProcessRecord::error_stage);
    a("error_code", &ProcessRecord::error_code);
    a("signal_error", &ProcessRecord::signal_error);
    a("failures", &ProcessRecord::failures);
    a("starts", &ProcessRecord::starts);
    a("pid", &ProcessRecord::pid);
    a("last_status", &ProcessRecord::last_status);
    a("since", &ProcessRecord::since);
    a("last_end", &ProcessRecord::last_end);
    a("deadline", &ProcessRecord::deadline);
    a("probe_at", &ProcessRecord::probe_at);
    a("run_until", &ProcessRecord::run_until);
}

template <class A>
constexpr void describe(A& a, ProgramRecord const*) {
    a("policy", &ProgramRecord::policy);
    a("is_configured", &ProgramRecord::is_configured);
    a("is_held", &ProgramRecord::is_held);
    a("is_run_owed", &ProgramRecord::is_run_owed);
    a("is_stop_begun", &ProgramRecord::is_stop_begun);
    a("stop_at", &ProgramRecord::stop_at);
    a("processes", &ProgramRecord::processes);
    a("start_times", &ProgramRecord::start_times);
    a("checks", &ProgramRecord::checks);
}

template <class A>
constexpr void describe(A& a, SupervisorState const*) {
    a("phase", &SupervisorState::phase);
    a("programs", &SupervisorState::programs);
    a("random", &SupervisorState::random);
    a("exit_code", &SupervisorState::exit_code);
    a("stops_asked", &SupervisorState::stops_asked);
    a("sweep_signal", &SupervisorState::sweep_signal);
    a("phase_deadline", &SupervisorState::phase_deadline);
    a("stop_deadline", &SupervisorState::stop_deadline);
    a("latest_kill", &SupervisorState::latest_kill);
    a("earliest", &SupervisorState::earliest);
}

template <class A>
constexpr void describe(A& a, OutputKey const*) {
    a("program", &OutputKey::program);
    a("process", &OutputKey::process);
}

template <class A>
constexpr void describe(A& a, OutputState::Pipe const*) {
    a("key", &OutputState::Pipe::key);
    a("stream", &OutputState::Pipe::stream);
    a("read_end", &OutputState::Pipe::read_end);
    a("write_end", &OutputState::Pipe::write_end);
    a("begun", &OutputState::Pipe::begun);
    a("is_continued", &OutputState::Pipe::is_continued);
    a("held", &OutputState::Pipe::held);
    a("is_ending", &OutputState::Pipe::is_ending);
    a("until_end", &OutputState::Pipe::until_end);
    a("is_terminal", &OutputState::Pipe::is_terminal);
    a("run_begin", &OutputState::Pipe::run_begin);
    a("modes", &OutputState::Pipe::modes);
    a("is_leaving", &OutputState::Pipe::is_leaving);
    a("is_dropping", &OutputState::Pipe::is_dropping);
}

template <class A>
constexpr void describe(A& a, OutputState::Program const*) {
    a("program", &OutputState::Program::program);
    a("file", &OutputState::Program::file);
    a("waiting", &OutputState::Program::waiting);
    a("is_mid_line", &OutputState::Program::is_mid_line);
    a("ring", &OutputState::Program::ring);
    a("dropped", &OutputState::Program::dropped);
    a("writer", &OutputState::Program::writer);
    a("sent", &OutputState::Program::sent);
}

template <class A>
constexpr void describe(A& a, OutputState::Syslog const*) {
    a("address", &OutputState::Syslog::address);
    a("waiting", &OutputState::Syslog::waiting);
}

template <class A>
constexpr void describe(A& a, SyslogRelay::State const*) {
    a("ours", &SyslogRelay::State::ours);
    a("theirs", &SyslogRelay::State::theirs);
    a("read_end", &SyslogRelay::State::read_end);
    a("write_end", &SyslogRelay::State::write_end);
    a("sent", &SyslogRelay::State::sent);
    a("done", &SyslogRelay::State::done);
}

template <class A>
constexpr void describe(A& a, OutputState const*) {
    a("pipes", &OutputState::pipes);
    a("programs", &OutputState::programs);
    a("syslog", &OutputState::syslog);
}

template <class A>
constexpr void describe(A& a, SocketState::Entry const*) {
    a("address", &SocketState::Entry::address);
    a("fd", &SocketState::Entry::fd);
    a("is_ours", &SocketState::Entry::is_ours);
    a("device", &SocketState::Entry::device);
    a("inode", &SocketState::Entry::inode);
}

template <class A>
constexpr void describe(A& a, SocketState const*) {
    a("entries", &SocketState::entries);
}

template <class A>
constexpr void describe(A& a, LinkState const*) {
    a("reader", &LinkState::reader);
    a("read_end", &LinkState::read_end);
    a("write_end", &LinkState::write_end);
}

template <class A>
constexpr void describe(A& a, NotifyKey const*) {
    a("program", &NotifyKey::program);
    a("process", &NotifyKey::process);
}

template <class A>
constexpr void describe(A& a, NotifyState::Socket const*) {
    a("key", &NotifyState::Socket::key);
    a("fd", &NotifyState::Socket::fd);
    a("address", &NotifyState::Socket::address);
}

template <class A>
constexpr void describe(A& a, NotifyState::Pipe const*) {
    a("key", &NotifyState::Pipe::key);
    a("fd", &NotifyState::Pipe::fd);
}

template <class A>
constexpr void describe(A& a, NotifyState const*) {
    a("sockets", &NotifyState::sockets);
    a("pipes", &NotifyState::pipes);
}

template <class A>
constexpr void describe(A& a, process::CommandRunner::Running const*) {
    a("key", &process::CommandRunner::Running::key);
    a("pid", &process::CommandRunner::Running::pid);
    a("deadline", &process::CommandRunner::Running::deadline);
    a("is_answered", &process::CommandRunner::Running::is_answered);
}

template <class A>
constexpr void describe(A& a, varlink::HandedSocket const*) {
    a("fd", &varlink::HandedSocket::fd);
    a("device", &varlink::HandedSocket::device);
    a("inode", &varlink::HandedSocket::inode);
}

template <class A>
constexpr void describe(A& a, Schedules::NextRun const*) {
    a("program", &Schedules::NextRun::program);
    a("when", &Schedules::NextRun::when);
    a("second", &Schedules::NextRun::second);
}

template <class A>
constexpr void describe(A& a, process::ResourceLimit const*) {
    a("resource", &process::ResourceLimit::resource);
    a("soft", &process::ResourceLimit::soft);
    a("hard", &process::ResourceLimit::hard);
}

template <class A>
constexpr void describe(A& a, config::Argument const*) {
    a("type", &config::Argument::type);
    a("ip_family", &config::Argument::ip_family);
    a("value", &config::Argument::value);
    a("values", &config::Argument::values);
    a("source", &config::Argument::source);
    a("multiplier", &config::Argument::multiplier);
    a("offset", &config::Argument::offset);
    a("width", &config::Argument::width);
}

template <class A>
constexpr void describe(A& a, config::Syslog const*) {
    a("address", &config::Syslog::address);
    a("facility", &config::Syslog::facility);
    a("severity", &config::Syslog::severity);
    a("error_severity", &config::Syslog::error_severity);
    a("name", &config::Syslog::name);
    a("format", &config::Syslog::format);
}

template <class A>
constexpr void describe(A& a, config::Output const*) {
    a("kind", &config::Output::kind);
    a("file", &config::Output::file);
    a("format", &config::Output::format);
    a("max_size", &config::Output::max_size);
    a("max_files", &config::Output::max_files);
    a("mode", &config::Output::mode);
    a("when_full", &config::Output::when_full);
    a("timestamp", &config::Output::timestamp);
    a("to", &config::Output::to);
    a("own_stream", &config::Output::own_stream);
    a("file_argument", &config::Output::file_argument);
    a("syslog", &config::Output::syslog);
    a("error", &config::Output::error);
}

template <class A>
constexpr void describe(A& a, AgentLink::State const*) {
    a("ours", &AgentLink::State::ours);
    a("theirs", &AgentLink::State::theirs);
}

template <class A>
constexpr void describe(A& a, config::StatusRange const*) {
    a("first", &config::StatusRange::first);
    a("last", &config::StatusRange::last);
}

template <class A>
constexpr void describe(A& a, NetworkProbes::Probe const*) {
    a("key", &NetworkProbes::Probe::key);
    a("kind", &NetworkProbes::Probe::kind);
    a("target", &NetworkProbes::Probe::target);
    a("timeout", &NetworkProbes::Probe::timeout);
    a("headers", &NetworkProbes::Probe::headers);
    a("status", &NetworkProbes::Probe::status);
    a("service", &NetworkProbes::Probe::service);
    a("stream", &NetworkProbes::Probe::stream);
}

template <class A>
constexpr void describe(A& a, std::pair<std::string, std::string> const*) {
    a("name", &std::pair<std::string, std::string>::first);
    a("value", &std::pair<std::string, std::string>::second);
}

template <class A>
constexpr void describe(A& a, PodState const*) {
    a("is_isolated", &PodState::is_isolated);
    a("shutdown_delay", &PodState::shutdown_delay);
    a("variables", &PodState::variables);
}

template <class A>
constexpr void describe(A& a, UpgradeState::Program const*) {
    a("name", &UpgradeState::Program::name);
    a("is_used", &UpgradeState::Program::is_used);
    a("output", &UpgradeState::Program::output);
    a("versions", &UpgradeState::Program::versions);
    a("runs", &UpgradeState::Program::runs);
}

template <class A>
constexpr void describe(A& a, UpgradeState::Instance const*) {
    a("program", &UpgradeState::Instance::program);
    a("number", &UpgradeState::Instance::number);
    a("oom_kills", &UpgradeState::Instance::oom_kills);
    a("was_oom_killed", &UpgradeState::Instance::was_oom_killed);
    a("status", &UpgradeState::Instance::status);
}

template <class A>
constexpr void describe(A& a, UpgradeState::LeftTree const*) {
    a("program", &UpgradeState::LeftTree::program);
    a("number", &UpgradeState::LeftTree::number);
    a("leader", &UpgradeState::LeftTree::leader);
    a("mark", &UpgradeState::LeftTree::mark);
}

template <class A>
constexpr void describe(A& a, EndRecord const*) {
    a("program", &EndRecord::program);
    a("number", &EndRecord::number);
    a("sequence", &EndRecord::sequence);
    a("time", &EndRecord::time);
    a("run", &EndRecord::run);
    a("status", &EndRecord::status);
    a("error_code", &EndRecord::error_code);
    a("error_stage", &EndRecord::error_stage);
    a("fault", &EndRecord::fault);
    a("was_asked_for", &EndRecord::was_asked_for);
    a("was_oom_killed", &EndRecord::was_oom_killed);
}

template <class A>
constexpr void describe(A& a, ProbeRecord const*) {
    a("program", &ProbeRecord::program);
    a("number", &ProbeRecord::number);
    a("helper", &ProbeRecord::helper);
    a("is_ok", &ProbeRecord::is_ok);
    a("sequence", &ProbeRecord::sequence);
    a("time", &ProbeRecord::time);
    a("why", &ProbeRecord::why);
    a("output", &ProbeRecord::output);
}

template <class A>
constexpr void describe(A& a, CheckOutput::Open const*) {
    a("key", &CheckOutput::Open::key);
    a("read_end", &CheckOutput::Open::read_end);
    a("text", &CheckOutput::Open::text);
}

template <class A>
constexpr void describe(A& a, UpgradeState::History const*) {
    a("ends", &UpgradeState::History::ends);
    a("results", &UpgradeState::History::results);
    a("outputs", &UpgradeState::History::outputs);
}

template <class A>
constexpr void describe(A& a, UpgradeState::PidFile const*) {
    a("program", &UpgradeState::PidFile::program);
    a("number", &UpgradeState::PidFile::number);
    a("mark", &UpgradeState::PidFile::mark);
    a("device", &UpgradeState::PidFile::device);
    a("inode", &UpgradeState::PidFile::inode);
    a("changed", &UpgradeState::PidFile::changed);
}

template <class A>
constexpr void describe(A& a, UpgradeState::Hunt const*) {
    a("program", &UpgradeState::Hunt::program);
    a("number", &UpgradeState::Hunt::number);
    a("mark", &UpgradeState::Hunt::mark);
}

template <class A>
constexpr void describe(A& a, UpgradeState::FileChange const*) {
    a("program", &UpgradeState::FileChange::program);
    a("path", &UpgradeState::FileChange::path);
    a("quiet_at", &UpgradeState::FileChange::quiet_at);
}
template <class A>
constexpr void describe(A& a, UpgradeState::WatchedFile const*) {
    a("path", &UpgradeState::WatchedFile::path);
    a("device", &UpgradeState::WatchedFile::device);
    a("inode", &UpgradeState::WatchedFile::inode);
    a("seconds", &UpgradeState::WatchedFile::seconds);
    a("nanoseconds", &UpgradeState::WatchedFile::nanoseconds);
}

template <class A>
constexpr void describe(A& a, UpgradeState::LogWriter const*) {
    a("channel", &UpgradeState::LogWriter::channel);
    a("sent", &UpgradeState::LogWriter::sent);
    a("waiting", &UpgradeState::LogWriter::waiting);
}

template <class A>
constexpr void describe(A& a, PathWatcher::Handed const*) {
    a("inotify", &PathWatcher::Handed::inotify);
    a("watches", &PathWatcher::Handed::watches);
}

template <class A>
constexpr void describe(A& a, UpgradeState const*) {
    a("version", &UpgradeState::version);
    a("pid", &UpgradeState::pid);
    a("supervisor", &UpgradeState::supervisor);
    a("programs", &UpgradeState::programs);
    a("instances", &UpgradeState::instances);
    a("has_configuration", &UpgradeState::has_configuration);
    a("configuration", &UpgradeState::configuration);
    a("warnings", &UpgradeState::warnings);
    a("output", &UpgradeState::output);
    a("log_writer", &UpgradeState::log_writer);
    a("sockets", &UpgradeState::sockets);
    a("links", &UpgradeState::links);
    a("syslog_relay", &UpgradeState::syslog_relay);
    a("notify", &UpgradeState::notify);
    a("helpers", &UpgradeState::helpers);
    a("companions", &UpgradeState::companions);
    a("control", &UpgradeState::control);
    a("schedules", &UpgradeState::schedules);
    a("cgroup_tree", &UpgradeState::cgroup_tree);
    a("inherited_mask", &UpgradeState::inherited_mask);
    a("sigchld_was_ignored", &UpgradeState::sigchld_was_ignored);
    a("descriptor_limit", &UpgradeState::descriptor_limit);
    a("began", &UpgradeState::began);
    a("told_ready", &UpgradeState::told_ready);
    a("stop_requests", &UpgradeState::stop_requests);
    a("stop_asked_at", &UpgradeState::stop_asked_at);
    a("reboots", &UpgradeState::reboots);
    a("agent_link", &UpgradeState::agent_link);
    a("probes", &UpgradeState::probes);
    a("pid_files", &UpgradeState::pid_files);
    a("left_trees", &UpgradeState::left_trees);
    a("hunts", &UpgradeState::hunts);
    a("marks", &UpgradeState::marks);
    a("file_changes", &UpgradeState::file_changes);
    a("watched_files", &UpgradeState::watched_files);
    a("configuration_watch", &UpgradeState::configuration_watch);
    a("files_watch", &UpgradeState::files_watch);
    a("pid_files_watch", &UpgradeState::pid_files_watch);
    a("pod", &UpgradeState::pod);
    a("history", &UpgradeState::history);
    a("configuration_changes", &UpgradeState::configuration_changes);
    a("configuration_time", &UpgradeState::configuration_time);
    a("script", &UpgradeState::script);
    a("filters", &UpgradeState::filters);
}

/// Collects the names of the rows.
struct Rows {
    std::array<std::string_view, 64> names{};
    std::size_t count = 0;

    template <class T, class M>
    constexpr void operator()(std::string_view name, M T::* /*member*/) {
        names[count++] = name;
    }
    [[nodiscard]] constexpr bool are_distinct() const {
        for (std::size_t i = 0; i < count; ++i) {
            if (std::find(names.begin(), names.begin() + i, names[i]) != names.begin() + i) return false;
        }
        return true;
    }
};

template <class T>
constexpr Rows rows_of = [] {
    Rows rows;
    describe(rows, static_cast<T const*>(nullptr));
    return rows;
}();

template <class T>
concept Number = std::integral<T> || std::is_enum_v<T>;
template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {};
template <class T>
struct IsList<RareList<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsOptional<Rare<T>> : std::true_type {};

/// The last value that this version knows of an enum with names. The values of other enums are numbers.
template <class E>
constexpr std::int64_t last_of = std::numeric_limits<std::int64_t>::max();
template <>
constexpr std::int64_t last_of<ProgramKind> = static_cast<std::int64_t>(ProgramKind::scheduled);
template <>
constexpr std::int64_t last_of<Restart> = static_cast<std::int64_t>(Restart::never);
template <>
constexpr std::int64_t last_of<OnChange> = static_cast<std::int64_t>(OnChange::signal);
template <>
constexpr std::int64_t last_of<Readiness> = static_cast<std::int64_t>(Readiness::probed);
template <>
constexpr std::int64_t last_of<StopScope> = static_cast<std::int64_t>(StopScope::tree);
template <>
constexpr std::int64_t last_of<HealthAction> = static_cast<std::int64_t>(HealthAction::exit);
template <>
constexpr std::int64_t last_of<ProcessState> = static_cast<std::int64_t>(ProcessState::clearing);
template <>
constexpr std::int64_t last_of<Fault> = static_cast<std::int64_t>(Fault::run_timeout);
template <>
constexpr std::int64_t last_of<SupervisorPhase> = static_cast<std::int64_t>(SupervisorPhase::finished);
template <>
constexpr std::int64_t last_of<OutputStream> = static_cast<std::int64_t>(OutputStream::err);
template <>
constexpr std::int64_t last_of<config::ProbeKind> = static_cast<std::int64_t>(config::probe_kinds.size()) - 1;
template <>
constexpr std::int64_t last_of<config::LogStream> = static_cast<std::int64_t>(config::LogStream::err);
template <>
constexpr std::int64_t last_of<config::OutputKind> = static_cast<std::int64_t>(config::OutputKind::program);
template <>
constexpr std::int64_t last_of<config::OwnStream> = static_cast<std::int64_t>(config::OwnStream::err);
template <>
constexpr std::int64_t last_of<config::ArgumentType> = static_cast<std::int64_t>(config::ArgumentType::ip_list);
template <>
constexpr std::int64_t last_of<config::SyslogFacility> =
    static_cast<std::int64_t>(config::syslog_facilities.size()) - 1;
template <>
constexpr std::int64_t last_of<config::SyslogFormat> = static_cast<std::int64_t>(config::SyslogFormat::rfc3164);
template <>
constexpr std::int64_t last_of<config::SyslogSeverity> =
    static_cast<std::int64_t>(config::syslog_severities.size()) - 1;
template <>
constexpr std::int64_t last_of<config::OutputFormat> = static_cast<std::int64_t>(config::OutputFormat::json);
template <>
constexpr std::int64_t last_of<config::OutputTimestamp> = static_cast<std::int64_t>(config::OutputTimestamp::rfc3339);
template <>
constexpr std::int64_t last_of<config::WhenFull> = static_cast<std::int64_t>(config::WhenFull::drop);

// Writing.

template <class T>
void put(json::Writer& json, T const& value);

template <class T>
class FieldWriter {
public:
    FieldWriter(json::Writer& json, T const& object) : json_(json), object_(object) {}
    template <class M>
    void operator()(std::string_view name, M T::* member) {
        if constexpr (IsList<M>::value) {
            if ((object_.*member).empty()) return;
        } else if constexpr (std::equality_comparable<M>) {
            if (object_.*member == default_.*member) return;
        } else {
            json::Writer inner;
            put(inner, object_.*member);
            std::string const text = inner.text();
            if (text != "{}") json_.key(name).raw(text);
            return;
        }
        json_.key(name);
        put(json_, object_.*member);
    }

private:
    json::Writer& json_;
    T const& object_;
    T const default_{};
};

/// Writes any bytes: as text if they are text, else as {"hex": ".."}.
void put_bytes(json::Writer& json, std::string const& bytes) {
    bool const is_text = std::ranges::all_of(bytes, [](char c) { return c == '\n' || (c >= ' ' && c < 0x7f); });
    if (is_text) {
        json.value(std::string_view(bytes));
        return;
    }
    constexpr std::string_view digits = "0123456789abcdef";
    std::string hex;
    hex.reserve(2 * bytes.size());
    for (char const c : bytes) {
        hex += digits[static_cast<unsigned char>(c) >> 4];
        hex += digits[static_cast<unsigned char>(c) & 15];
    }
    json.open('{').key("hex").value(std::string_view(hex)).close('}');
}

template <class T>
void put(json::Writer& json, T const& value) {
    if constexpr (std::same_as<T, bool>) {
        json.value(value);
    } else if constexpr (Number<T>) {
        json.value(static_cast<std::int64_t>(value));
    } else if constexpr (std::same_as<T, double>) {
        json.value(static_cast<std::int64_t>(std::llround(value * 1e9)));  // factors and shares: nine digits are enough
    } else if constexpr (std::same_as<T, Duration>) {
        json.raw(std::to_string(value.count()));
    } else if constexpr (std::same_as<T, TimePoint>) {
        json.raw(std::to_string(value.time_since_epoch().count()));
    } else if constexpr (std::same_as<T, std::string>) {
        put_bytes(json, value);
    } else if constexpr (std::same_as<T, config::SocketAddress>) {
        json.value(std::string_view(config::format_socket_address(value)));
    } else if constexpr (IsOptional<T>::value) {
        put(json, *value);  // a missing value is the default, which is not written
    } else if constexpr (IsList<T>::value) {
        json.open('[');
        for (auto const& one : value)
            put(json, one);
        json.close(']');
    } else {
        static_assert(rows_of<T>.are_distinct());
        json::expect_members<rows_of<T>.count>(value);
        json.open('{');
        FieldWriter<T> writer(json, value);
        describe(writer, static_cast<T const*>(nullptr));
        json.close('}');
    }
}

// Reading.

class Reader {
public:
    UpgradeProblems problems;

    template <class T>
    void get(json::Node const& node, std::string const& at, T& value);

private:
    void get_bytes(json::Node const& node, std::string const& at, std::string& value);
    void refuse(std::string const& at) {
        if (problems.error.empty()) problems.error = at + ": not a valid value";
    }
};

/// A field of processes that is no longer read: failures in a row of the one check, which are counted anew.
constexpr std::string_view obsolete = "bad_probes";

template <class T>
class FieldReader {
public:
    FieldReader(Reader& reader, json::Object const& json, std::string const& at, T& object)
        : reader_(reader), json_(json), at_(at), object_(object), is_known_(json.size(), false) {}
    template <class M>
    void operator()(std::string_view name, M T::* member) {
        auto const found = std::ranges::find(json_, name, &json::Member::key);
        if (found == json_.end()) return;
        is_known_[static_cast<std::size_t>(found - json_.begin())] = true;
        reader_.get(found->node, place(name), object_.*member);
    }
    void tell_unknown() {
        for (std::size_t i = 0; i < json_.size(); ++i) {
            if (!is_known_[i] && json_[i].key != obsolete) reader_.problems.lost.push_back(place(json_[i].key));
        }
    }

private:
    [[nodiscard]] std::string place(std::string_view name) const {
        return at_.empty() ? std::string(name) : at_ + "." + std::string(name);
    }
    Reader& reader_;
    json::Object const& json_;
    std::string const& at_;
    T& object_;
    std::vector<bool> is_known_;
};

int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

void Reader::get_bytes(json::Node const& node, std::string const& at, std::string& value) {
    if (auto const* const text = node.get<std::string>()) {
        value = *text;
        return;
    }
    auto const* const object = node.get<json::Object>();
    auto const* const hex = object && object->size() == 1 && object->front().key == "hex"
                                ? object->front().node.get<std::string>()
                                : nullptr;
    if (!hex || hex->size() % 2 != 0) return refuse(at);
    value.clear();
    for (std::size_t i = 0; i < hex->size(); i += 2) {
        int const high = digit((*hex)[i]);
        int const low = digit((*hex)[i + 1]);
        if (high < 0 || low < 0) return refuse(at);
        value += static_cast<char>(high << 4 | low);
    }
}

template <class T>
void Reader::get(json::Node const& node, std::string const& at, T& value) {
    if constexpr (std::same_as<T, bool>) {
        auto const* const flag = node.get<bool>();
        flag ? void(value = *flag) : refuse(at);
    } else if constexpr (Number<T> || std::same_as<T, Duration> || std::same_as<T, TimePoint> ||
                         std::same_as<T, double>) {
        auto const* const number = node.get<std::int64_t>();
        if (!number) return refuse(at);
        if constexpr (std::same_as<T, Duration>) {
            value = Duration(*number);
        } else if constexpr (std::same_as<T, TimePoint>) {
            value = TimePoint(Duration(*number));
        } else if constexpr (std::same_as<T, double>) {
            value = static_cast<double>(*number) / 1e9;
        } else {
            auto const read = static_cast<T>(*number);
            bool const is_known = !std::is_enum_v<T> || *number <= last_of<T>;
            if (static_cast<std::int64_t>(read) != *number || !is_known) return refuse(at);
            value = read;
        }
    } else if constexpr (std::same_as<T, std::string>) {
        get_bytes(node, at, value);
    } else if constexpr (std::same_as<T, config::SocketAddress>) {
        auto const* const text = node.get<std::string>();
        if (!text) return refuse(at);
        auto address = config::parse_socket_address(*text);
        address ? void(value = std::move(*address)) : refuse(at);
    } else if constexpr (IsOptional<T>::value) {
        get(node, at, value.emplace(typename T::value_type{}));
    } else if constexpr (IsList<T>::value) {
        auto const* const list = node.get<json::Array>();
        value.clear();
        if constexpr (std::same_as<T, RareList<Health>>) {
            if (!list) return get(node, at, value.emplace_back());
        }
        if (!list) return refuse(at);
        for (json::Node const& one : *list) {
            std::string const place = at + "[" + std::to_string(value.size()) + "]";
            get(one, place, value.emplace_back());
        }
    } else {
        auto const* const object = node.get<json::Object>();
        if (!object) return refuse(at);
        FieldReader<T> reader(*this, *object, at, value);
        describe(reader, static_cast<T const*>(nullptr));
        reader.tell_unknown();
    }
}

}  // namespace

std::vector<int> UpgradeState::descriptors() const {
    std::vector<int> all;
    for (OutputState::Pipe const& pipe : output.pipes) {
        all.push_back(pipe.read_end);
        all.push_back(pipe.write_end);
    }
    for (OutputState::Program const& program : output.programs)
        if (program.writer >= 0) all.push_back(program.writer);
    if (log_writer && log_writer->channel >= 0) all.push_back(log_writer->channel);
    for (SocketState::Entry const& socket : sockets.entries)
        all.push_back(socket.fd);
    for (LinkState const& link : links) {
        all.push_back(link.read_end);
        if (link.write_end >= 0) all.push_back(link.write_end);
    }
    for (NotifyState::Socket const& socket : notify.sockets)
        all.push_back(socket.fd);
    for (NotifyState::Pipe const& pipe : notify.pipes)
        all.push_back(pipe.fd);
    if (syslog_relay.ours >= 0) {
        for (int const fd : {syslog_relay.ours, syslog_relay.theirs, syslog_relay.read_end, syslog_relay.write_end})
            all.push_back(fd);
    }
    if (control) all.push_back(control->fd);
    if (agent_link.ours >= 0) {
        all.push_back(agent_link.ours);
        all.push_back(agent_link.theirs);
    }
    for (auto const* const watch : {&configuration_watch, &files_watch, &pid_files_watch})
        if (*watch) all.push_back((*watch)->inotify);
    for (CheckOutput::Open const& check : history.outputs)
        all.push_back(check.read_end);
    if (script) all.push_back(*script);
    if (filters) all.push_back(*filters);
    return all;
}

std::string write_upgrade_state(UpgradeState const& state) {
    json::Writer json;
    put(json, state);
    return json.text();
}

std::expected<UpgradeState, UpgradeProblems> read_upgrade_state(std::string_view text) {
    json::Limits limits;
    limits.document_bytes = std::numeric_limits<std::size_t>::max();  // the document is our own
    limits.values = std::numeric_limits<std::size_t>::max();
    json::ProblemList problems(1);
    auto const node = json::read_json(text, limits, problems);
    if (!node) {
        json::Problems const found = std::move(problems).take();
        return std::unexpected(UpgradeProblems{found.empty() ? "no JSON" : found.front().text(), {}});
    }
    UpgradeState state;
    Reader reader;
    reader.get(*node, "", state);
    if (reader.problems.error.empty() && state.programs.size() != state.supervisor.programs.size())
        reader.problems.error = "programs: the number differs from supervisor.programs";
    if (!reader.problems.error.empty() || !reader.problems.lost.empty()) return std::unexpected(reader.problems);
    return state;
}

Result<UniqueFd> seal_upgrade_state(std::string_view text) {
    UniqueFd file{::memfd_create("triton-launch-state", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    int const err = errno;
    if (!file) return fail(err, "make a memory file for the state");
    if (!write_all(file.get(), text)) return fail(errno, "write the state");
    TRY(seal(file.get()));
    return file;
}

Result<> seal(int fd) {
    if (::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
        return fail(errno, "seal the state");
    return {};
}

Result<std::string> read_sealed(int fd, std::size_t most) {
    constexpr int needed = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
    int const seals = ::fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & needed) != needed)
        return fail(ErrorKind::denied, "read the state", "it is not in a sealed memory file");
    // The writer has left the position at the end, and both descriptors share it.
    if (::lseek(fd, 0, SEEK_SET) < 0) return fail(errno, "read the state");
    return read_open_file(fd, "the state", most);
}

}  // namespace triton::launcher
