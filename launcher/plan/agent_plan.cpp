#include "launcher/plan/agent_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/plan/configuration_source.h"
#include "lib/base/read_file.h"
#include "lib/json/writer.h"
#include "lib/process/capabilities.h"

namespace triton::launcher {

namespace {

constexpr std::uint32_t nobody = 65534;
constexpr int lowest_program_fd = 200;
constexpr std::string_view probe_name = "probe-";  // tells the agent what a socket is for

/// The variables that the agent reads, besides those that --substitute-variable names. The container's own secrets are
/// not its business: it talks to networks.
constexpr std::array<std::string_view, 6> agent_variables{"HOSTNAME",  "POD_NAME", "POD_NAMESPACE",
                                                          "NODE_NAME", "TZ",       "KUBERNETES_SERVICE_HOST"};
constexpr std::array<std::string_view, 3> agent_prefixes{"TRITON_AGENT_", "FDB_", "KUBERNETES_SERVICE_PORT"};

bool is_for_agent(std::string_view name, AgentOptions const& agent) {
    if (std::ranges::find(agent_variables, name) != agent_variables.end()) return true;
    if (std::ranges::any_of(agent_prefixes, [name](std::string_view prefix) { return name.starts_with(prefix); }))
        return true;
    std::string const option = "--substitute-variable=" + std::string(name);
    return std::ranges::find(agent.arguments, option) != agent.arguments.end();
}

/// The agent's environment, ended by a null pointer; borrowed.
std::vector<char const*> environment_of(AgentOptions const& agent, char const* const* environment) {
    std::vector<char const*> own;
    for (; *environment; ++environment) {
        std::string_view const entry = *environment;
        if (is_for_agent(entry.substr(0, entry.find('=')), agent)) own.push_back(*environment);
    }
    own.push_back(nullptr);
    return own;
}

std::uint64_t take_number(std::string_view& text) {
    while (text.starts_with(' '))
        text.remove_prefix(1);
    std::uint64_t number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return error == std::errc{} ? number : 0;
}

/// Whether our user namespace maps that id. Source: user_namespaces(7), "uid_map".
bool is_mapped(char const* map_path, std::uint64_t id) {
    auto const text = read_file(map_path, 65536);
    if (!text) return false;
    for (std::string_view rest = *text; !rest.empty();) {
        std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        std::uint64_t const first = take_number(line);
        (void)take_number(line);  // the id outside
        std::uint64_t const count = take_number(line);
        if (id >= first && id - first < count) return true;
    }
    return false;
}

bool has_all(std::initializer_list<int> capabilities) {
    process::CapabilitySet const own = process::OwnCapabilities::read().permitted;
    return std::ranges::all_of(capabilities, [own](int one) { return (own >> one & 1) != 0; });
}

bool may_become_another() { return ::geteuid() == 0 && has_all({CAP_SETUID, CAP_SETGID}); }

std::vector<gid_t> groups_but_root() {
    std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
    int const count = ::getgroups(static_cast<int>(groups.size()), groups.data());
    groups.resize(static_cast<std::size_t>(std::max(count, 0)));
    std::erase(groups, 0U);
    return groups;
}

void put_user(json::Writer& json, std::string const& user) {
    bool const is_chosen = !user.empty();
    if (!may_become_another()) {
        if (is_chosen) json.key("user").value(std::string_view(user));  // its start fails, with an error that tells why
        return;
    }
    if (is_chosen) {
        json.key("user").value(std::string_view(user));
    } else if (is_mapped("/proc/self/uid_map", nobody) && is_mapped("/proc/self/gid_map", nobody)) {
        json.key("user").value(std::int64_t{nobody}).key("group").value(std::int64_t{nobody});
    } else {
        return;
    }
    json.key("supplementaryGroups").open('[');
    for (gid_t const group : groups_but_root())
        json.value(static_cast<std::int64_t>(group));
    json.close(']');
}

void put_sockets(json::Writer& json, std::string_view name, std::vector<std::string> const& addresses) {
    for (std::size_t i = 0; i < addresses.size(); ++i) {
        json.open('{').key("name").value(std::string(name) + std::to_string(i + 1));
        json.key("listen").value("tcp:" + addresses[i]).close('}');
    }
}

/// The agent as a document, so that all checks and defaults of a configuration apply to it.
std::string document(AgentOptions const& agent) {
    json::Writer json;
    json.open('{').key("programs").open('{').key("agent").open('{');
    json.key("command").open('[').value(std::string_view(agent.path));
    for (std::string const& argument : agent.arguments)
        json.value(std::string_view(argument));
    json.close(']');
    put_user(json, agent.user);
    json.key("noNewPrivileges").value(true);
    // The agent can drop its other sets by itself when it runs as another user, but not this one.
    if (has_all({CAP_SETPCAP})) json.key("capabilities").open('{').key("bounding").open('[').close(']').close('}');
    json.key("sockets").open('[');
    put_sockets(json, "listen-", agent.listen);
    put_sockets(json, probe_name, agent.probe_listen);
    json.close(']').close('}').close('}').close('}');
    return json.text();
}

/// Whether a directory on the way to the file cannot be entered by others.
bool is_in_closed_directory(std::string const& path) {
    for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
        struct stat status{};
        if (::stat(path.substr(0, slash).c_str(), &status) == 0 && (status.st_mode & S_IXOTH) == 0) return true;
    }
    return false;
}

/// Replaces the place in an error, "programs.agent.sockets[0].address: ...", which nobody has written, by the option
/// that was.
std::string in_words(std::string text) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 4> places{
        {{"programs.agent.sockets", "--listen"},
         {"programs.agent.command[0]", "--agent-path"},
         {"programs.agent.user", "--agent-user"},
         {"programs.agent", "the agent"}}};
    for (auto const& [place, words] : places) {
        if (!text.starts_with(place)) continue;
        std::size_t const end = text.find(": ");
        return std::string(words) + (end == std::string::npos ? text.substr(place.size()) : text.substr(end));
    }
    return text;
}

/// Opens the program, so that a user who cannot enter its directories may execute it. The descriptor's number is so
/// high that no process expects one of its own there. Errors: those of open(2).
Result<UniqueFd> open_agent(std::string const& path) {
    UniqueFd const opened{::open(path.c_str(), O_PATH | O_CLOEXEC)};
    int const err = errno;
    if (!opened) return fail(err, "open " + path);
    UniqueFd high{::fcntl(opened.get(), F_DUPFD_CLOEXEC, lowest_program_fd)};
    int const dup_err = errno;
    if (!high) return fail(dup_err, "open " + path);
    return high;
}

/// The same plan with another path, and with names of descriptors that no configuration can ask for.
std::shared_ptr<process::StartPlan const> completed(process::StartPlan const& start, std::string path,
                                                    bool has_output) {
    process::Attributes attributes = start.attributes();
    for (std::string_view const name : {"launcher", "syslog", "syslog-answers"})
        attributes.listen_names.emplace_back(name);
    if (has_output) attributes.listen_names.emplace_back("output");
    return std::make_shared<process::StartPlan const>(std::move(path), start.environment(ProcessNumber{1}),
                                                      start.command(), start.numbered(), std::move(attributes),
                                                      start.name());
}

}  // namespace

Result<AgentPlan> plan_agent(AgentOptions const& agent, SourceOptions const& source, char const* const* environment) {
    SourceOptions plain;
    plain.defaults = source.defaults;
    plain.descriptor_limit = source.descriptor_limit;
    auto loaded = load_configuration(document(agent), plain, environment_of(agent, environment).data());
    if (!loaded) return fail(in_words(loaded.error().errors.front()));
    AgentPlan result;
    auto plan = std::make_shared<ProgramPlan>(*loaded->programs.front());
    plan->settings->name = agent_name;
    plan->policy.auxiliary = true;
    std::string path = plan->start->program();
    if (plan->start->attributes().identity.user && is_in_closed_directory(path)) {
        result.program = TRY(open_agent(path));
        path = "/proc/self/fd/" + std::to_string(result.program.get());
    }
    plan->start = completed(*plan->start, std::move(path), !agent.output_directory.empty());
    for (std::size_t i = 0; i < plan->sockets.size(); ++i)
        plan->sockets[i].place = i < agent.listen.size() ? "--listen" : "--probe-listen";
    plan->needs.output = StreamTarget::console;  // it writes a log, too
    result.plan = std::move(plan);
    return result;
}

}  // namespace triton::launcher
