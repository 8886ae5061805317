#include "host/parts/host_launcher.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/machine/launch_report.h"
#include "host/machine/unit_texts.h"
#include "host/parts/run_program.h"
#include "lib/base/unique_fd.h"
#include "lib/files/confined_path.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"

namespace triton::parts {

namespace {

/// Sets the effective user of this thread only: seteuid(3) of libc would do that for all threads of the process.
int set_thread_user(uid_t uid) { return static_cast<int>(::syscall(SYS_setresuid, uid_t{0}, uid, uid_t{0})); }

Result<varlink::Connection> connect_as(uid_t uid, std::string const& path, Duration limit) {
    if (set_thread_user(uid) != 0) return fail(errno, "become root of the machine");
    auto connection = varlink::Connection::connect(path, limit);
    if (set_thread_user(0) != 0) std::abort();  // cannot happen: the saved uid is 0
    return connection;
}

}  // namespace

Result<varlink::Connection> connect_to_launcher(std::int64_t leader, std::int64_t root_uid, TimePoint deadline) {
    // The machine may have put anything there, so the path is not followed out of its root.
    std::string const root = "/proc/" + std::to_string(leader) + "/root";
    UniqueFd const socket =
        TRY(files::open_confined(root, std::string(machine::control_socket_inside), O_PATH | O_CLOEXEC));
    return connect_as(static_cast<uid_t>(root_uid), "/proc/self/fd/" + std::to_string(socket.get()),
                      deadline - std::chrono::steady_clock::now());
}

Result<std::string> HostLauncher::program() {
    if (char const* const given = std::getenv("TRITON_LAUNCHER"); given && *given) return std::string(given);
    std::string self(4096, '\0');
    ssize_t const length = ::readlink("/proc/self/exe", self.data(), self.size());
    if (length < 0) return fail(errno, "find this program");
    self.resize(static_cast<std::size_t>(length));
    std::string beside = self.substr(0, self.rfind('/')) + "/triton-launch";
    if (::access(beside.c_str(), X_OK) == 0) return beside;
    return fail(ErrorKind::unavailable, "find triton-launch, which machines with a launch configuration need",
                beside + " is not there");
}

Result<> HostLauncher::check(std::string_view document) {
    std::string const launcher = TRY(program());
    ProgramEnd const end = TRY(run_program({launcher, "check", "-"}, document));
    if (end.exit_code == 0) return {};
    Error error{.kind = ErrorKind::invalid,
                .attempted = {},
                .reason = "triton-launch refuses the launch configuration",
                .details = {},
                .code = 0};
    std::string_view rest = end.output;
    while (!rest.empty()) {
        std::size_t const line = std::min(rest.find('\n'), rest.size());
        std::string detail(rest.substr(0, line));
        if (detail.starts_with("-: ")) detail.replace(0, 1, "launch");  // the configuration came from standard input
        if (line > 0) error.details.push_back(std::move(detail));
        rest.remove_prefix(std::min(line + 1, rest.size()));
    }
    return std::unexpected(std::move(error));
}

namespace {

constexpr std::chrono::seconds status_limit{2};
constexpr std::chrono::seconds upgrade_limit{60};
constexpr std::chrono::seconds reload_limit{10};

std::string launcher_method(std::string_view name) { return "org.tritonlaunch.Launcher." + std::string(name); }

std::string text_of(json::Object const& object, std::string_view name) {
    json::Node const* const node = varlink::find_member(object, name);
    auto const* const text = node ? node->get<std::string>() : nullptr;
    return text ? *text : "";
}

}  // namespace

std::optional<std::string> launcher_status(std::int64_t leader, std::int64_t root_uid, TimePoint deadline) {
    auto connection = connect_to_launcher(leader, root_uid, deadline);
    if (!connection) return std::nullopt;
    json::Object answers;
    for (char const* const method : {"GetStatus", "List"}) {
        connection->call(launcher_method(method), "{}", false);
        auto reply = connection->reply(deadline);
        if (!reply || !reply->error.empty()) return std::nullopt;
        for (json::Member& member : reply->parameters)
            answers.push_back(std::move(member));
    }
    json::Writer out;
    out.value(answers);
    return std::move(out).text();
}

std::optional<std::string> HostLauncher::status(std::int64_t leader, std::int64_t root_uid) {
    return launcher_status(leader, root_uid, std::chrono::steady_clock::now() + status_limit);
}

Result<> HostLauncher::reload(std::int64_t leader, std::int64_t root_uid) {
    constexpr std::string_view what = "reload the launch configuration";
    TimePoint const deadline = std::chrono::steady_clock::now() + reload_limit;
    auto connection = connect_to_launcher(leader, root_uid, deadline);
    if (!connection) return fail(ErrorKind::unavailable, std::string(what), "there is no launcher that answers");
    connection->call(launcher_method("Reload"), "{}", false);
    auto const reply = connection->reply(deadline);
    if (!reply && reply.error() == varlink::Connection::Silence::timed_out)
        return fail(ErrorKind::timeout, std::string(what),
                    "the launcher has not answered within " + std::to_string(reload_limit.count()) + " s");
    if (!reply) return fail(ErrorKind::unavailable, std::string(what), "the launcher ended the connection");
    if (reply->error.empty()) return {};
    auto reasons = machine::shown_reasons(reply->parameters, "details");
    if (reasons.empty())
        return fail(ErrorKind::unavailable, std::string(what), json::printable(text_of(reply->parameters, "reason")));
    Error error = fail(ErrorKind::invalid, "the launcher rejects the launch configuration").error();
    error.details = std::move(reasons);
    return std::unexpected(std::move(error));
}

Result<HostLauncher::Versions> HostLauncher::upgrade(std::int64_t leader, std::int64_t root_uid,
                                                     std::string_view inside) {
    constexpr std::string_view what = "upgrade the launcher";
    TimePoint const now = std::chrono::steady_clock::now();
    auto connection = connect_to_launcher(leader, root_uid, now + status_limit);
    if (!connection) return fail(ErrorKind::unavailable, std::string(what), "it does not answer");
    TimePoint const deadline = now + upgrade_limit;
    json::Writer parameters;
    parameters.open('{').member("path", inside).close('}');
    connection->call(launcher_method("Upgrade"), parameters.text(), true);
    Versions versions;
    for (bool is_first = true;; is_first = false) {
        auto const reply = connection->reply(deadline);
        if (!reply && reply.error() == varlink::Connection::Silence::timed_out)
            return fail(ErrorKind::timeout, std::string(what), "it does not answer");
        // The successor has no connections, so the end of this one shows that it has taken over.
        if (!reply && !is_first) return versions;
        if (!reply) return fail(ErrorKind::unavailable, std::string(what), "it does not answer");
        if (!reply->error.empty()) {
            std::string const reason = text_of(reply->parameters, "reason");
            return fail(ErrorKind::refused, std::string(what), reason.empty() ? reply->error : reason);
        }
        versions = {text_of(reply->parameters, "from"), text_of(reply->parameters, "to")};
    }
}

}  // namespace triton::parts
