#include "programs/triton-launch/agent_flags.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>

#include <unistd.h>

#include "config/socket_address.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/utf8.h"
#include "sidecar/plan.h"
#include "sidecar/stage.h"

namespace triton::program {

namespace {

constexpr char const* service_account_token = "/var/run/secrets/kubernetes.io/serviceaccount/token";
constexpr std::array<Choice<Kubernetes>, 3> kubernetes_choices{
    {{"auto", Kubernetes::automatic}, {"on", Kubernetes::on}, {"off", Kubernetes::off}}};

Result<> check_address(std::string const& text) {
    if (config::parse_socket_address("tcp:" + text)) return {};
    return fail("\"" + text + "\" is not an address; known: IPV4:PORT, [IPV6]:PORT, :PORT for all of this host");
}

Apply append_address(std::vector<std::string>& target) {
    return [&target](std::string const& text) -> Result<> {
        TRY(check_address(text));
        target.push_back(text);
        return {};
    };
}

Apply into_address_or_none(std::string& target) {
    return [&target](std::string const& text) -> Result<> {
        if (text != "none") TRY(check_address(text));
        target = text == "none" ? std::string() : text;
        return {};
    };
}

std::string own_path() {
    std::array<char, PATH_MAX> path{};
    ssize_t const size = ::readlink("/proc/self/exe", path.data(), path.size());
    return size > 0 ? std::string(path.data(), static_cast<std::size_t>(size)) : "/usr/bin/triton-launch";
}

bool is_in_a_pod() {
    char const* const host = std::getenv("KUBERNETES_SERVICE_HOST");
    return host && *host && ::access(service_account_token, F_OK) == 0;
}

void add(std::vector<std::string>& arguments, std::string_view name, std::string const& value) {
    if (!value.empty()) arguments.push_back("--" + std::string(name) + "=" + value);
}

/// The agent writes to the same console, so its log is as quiet and in the same format. A default is not passed on:
/// TRITON_AGENT_LOG_LEVEL then counts.
void add_log(log::Log::Settings const& log, std::vector<std::string>& arguments) {
    if (log.level != log::LogLevel::info) add(arguments, "log-level", std::string(name_of(log.level)));
    switch (log.format) {
        case log::LogFormat::automatic: return;
        case log::LogFormat::text: return add(arguments, "log-format", "text");
        case log::LogFormat::json: return add(arguments, "log-format", "json");
    }
}

Result<> add_tls(AgentFlags const& agent, std::vector<std::string>& arguments) {
    bool const is_plain = !agent.plain_certificate.empty() || !agent.plain_key.empty();
    if (is_plain && (!agent.certificate.empty() || !agent.key.empty()))
        return fail("--certificate-path cannot be used together with --tls-certificate-file or --tls-key-file");
    if (agent.has_tls) arguments.emplace_back("--tls");
    add(arguments, "tls-certificate-file", is_plain ? agent.plain_certificate : agent.certificate);
    add(arguments, "tls-key-file", is_plain ? agent.plain_key : agent.key);
    add(arguments, "tls-ca-file", agent.authority);
    bool const asks_nobody = is_plain && agent.authority.empty() && agent.verify_peers.empty();
    add(arguments, "tls-verify-peers", asks_nobody ? "none" : agent.verify_peers);
    return {};
}

/// Whether FoundationDB's operator asks for the labels of the node. Its variable has no prefix, and takes Go's values.
/// Source: pkg.go.dev/strconv, ParseBool.
bool operator_watches_node(std::vector<std::string>& warnings) {
    constexpr std::array<std::string_view, 6> yes{"1", "t", "T", "TRUE", "true", "True"};
    constexpr std::array<std::string_view, 6> no{"0", "f", "F", "FALSE", "false", "False"};
    char const* const text = std::getenv("ENABLE_NODE_WATCH");
    if (!text || !*text || std::ranges::find(no, text) != no.end()) return false;
    if (std::ranges::find(yes, text) != yes.end()) return true;
    warnings.push_back("ENABLE_NODE_WATCH: " + json::shown(text) + " is not true or false; the node is not watched");
    return false;
}

Result<> fill(AgentFlags const& agent, launcher::AgentOptions& options) {
    options.path = agent.path.empty() ? default_agent_path() : agent.path;
    options.user = agent.user;
    options.listen = agent.listen;
    if (!agent.listen_address.empty()) options.listen.push_back(agent.listen_address);
    options.probe_listen = agent.probe_listen;
    TRY(add_tls(agent, options.arguments));
    return {};
}

/// Whether anybody may give commands: holders of the token, or else of a certificate that is asked for.
bool has_commanders(AgentFlags const& agent) {
    if (!agent.ui_token_file.empty()) return true;
    bool const is_plain = !agent.plain_certificate.empty() || !agent.plain_key.empty();
    char const* const rules = std::getenv("FDB_TLS_VERIFY_PEERS");
    std::string_view const verify = agent.verify_peers.empty() && rules ? rules : std::string_view(agent.verify_peers);
    if (verify == "none" || (is_plain && agent.authority.empty() && agent.verify_peers.empty())) return false;
    if (!agent.authority.empty()) return true;
    bool const has_tls = agent.has_tls || !agent.certificate.empty() || !agent.key.empty() || is_plain;
    return has_tls && std::getenv("FDB_TLS_CA_FILE") != nullptr;
}

/// Adds the options of the page. Errors: an option without any effect.
Result<> add_ui(AgentFlags const& agent, launcher::AgentOptions& options) {
    if (!agent.has_ui) {
        if (!agent.ui_token_file.empty()) return fail("--ui-token-file needs --ui");
        return {};
    }
    if (agent.listen.empty() && agent.listen_address.empty()) return fail("--ui needs --listen");
    options.arguments.emplace_back("--ui");
    add(options.arguments, "ui-token-file", agent.ui_token_file);
    options.may_command = has_commanders(agent);
    return {};
}

/// JSON holds no other words as they are.
bool is_utf8(std::string_view word) {
    while (!word.empty()) {
        std::size_t const length = text::sequence_length(word);
        if (length == 0) return false;
        word.remove_prefix(length);
    }
    return true;
}

/// Added last, so that they win.
void add_own_options(AgentFlags const& agent, launcher::AgentOptions& options) {
    for (std::string const& option : agent.options)
        options.arguments.push_back(option.starts_with("--") ? option : "--" + option);
}

}  // namespace

std::string default_agent_path() {
    std::string const own = own_path();
    return own.substr(0, own.rfind('/') + 1) + "triton-launch-agent";
}

void add_agent_flags(Flags& flags, AgentFlags& agent) {
    Flag rows[] = {
        {"listen", "bind-address", 0, "ADDRESS",
         "serve hashes, status and metrics over HTTP on HOST:PORT, [V6]:PORT or :PORT (may be repeated)",
         append_address(agent.listen)},
        {"probe-listen", "", 0, "ADDRESS",
         "serve only /ready, /healthz and /readyz there, without TLS (may be repeated)",
         append_address(agent.probe_listen)},
        {"tls", "", 0, "", "serve HTTPS; files can also come from FDB_TLS_CERTIFICATE_FILE, _KEY_FILE and _CA_FILE",
         into_switch(agent.has_tls)},
        {"tls-certificate-file", "", 0, "FILE", "the server's certificate, with those between it and the CA",
         into(agent.certificate)},
        {"tls-key-file", "", 0, "FILE", "the certificate's key", into(agent.key)},
        {"tls-ca-file", "", 0, "FILE", "the CA that signs the certificates of peers", into(agent.authority)},
        {"tls-verify-peers", "", 0, "RULES", "which peers are let in; none: certificates are not asked for",
         into(agent.verify_peers)},
        {"certificate-path", "", 0, "FILE", "as --tls-certificate-file, without asking peers for certificates",
         into(agent.plain_certificate)},
        {"certificate-key-path", "", 0, "FILE", "its key", into(agent.plain_key)},
        {"agent-path", "", 0, "FILE", "the agent's program (default: triton-launch-agent beside this one)",
         into(agent.path)},
        {"agent-user", "", 0, "USER", "the agent's user, by name or number (default: nobody, if possible)",
         into(agent.user)},
        {"agent-option", "", 0, "OPTION",
         "a further option of the agent, such as max-connections=100 (may be repeated)", append_to(agent.options)},
    };
    add(flags, rows);
}

void add_report_flags(Flags& flags, AgentFlags& agent) {
    Flag rows[] = {
        {"output-dir", "", 0, "DIR", "the directory whose files --listen serves (default: none)",
         into(agent.output_directory)},
        {"ui", "", 0, "", "serve a page of what runs at /ui of --listen", into_switch(agent.has_ui)},
        {"ui-token-file", "", 0, "FILE", "holds the token that commands, logs and the configuration need there",
         into(agent.ui_token_file)},
        {"listen-address", "", 0, "ADDRESS",
         "one more --listen, or none; the name that fdb-kubernetes-monitor has for it",
         into_address_or_none(agent.listen_address)},
        {"kubernetes", "", 0, "WHEN",
         "report to the Kubernetes API: auto (default: if there is a service account), on or off",
         into_choice(agent.kubernetes, kubernetes_choices)},
        {"annotation-prefix", "", 0, "PREFIX", "prefix of the pod's annotations (default: foundationdb.org/)",
         into_key_prefix(agent.annotation_prefix)},
        {"enable-node-watch", "", 0, "", "make labels of the node variables NODE_LABEL_* for substitution",
         into_switch(agent.watches_node)},
    };
    add(flags, rows);
}

Result<> resolve_agent(AgentFlags const& agent, std::string const& version_file, launcher::LaunchOptions& launch) {
    launcher::AgentOptions& options = launch.agent;
    TRY(fill(agent, options));
    launch.source.agent_path = options.path;
    options.output_directory = agent.output_directory;
    TRY(add_ui(agent, options));
    add_log(launch.log, options.arguments);
    add(options.arguments, "version-file", version_file);
    add(options.arguments, "main-container-version", launch.source.binary.container_version);
    add(options.arguments, "additional-env-file", launch.source.environment_file);
    bool reports = agent.kubernetes == Kubernetes::on || (agent.kubernetes == Kubernetes::automatic && is_in_a_pod());
    int const err = ::access(options.path.c_str(), X_OK) == 0 ? 0 : errno;
    if (reports && agent.kubernetes == Kubernetes::automatic && !wants_listener(agent) && err != 0) {
        launch.warnings.push_back("nothing is reported to Kubernetes: no agent at " + options.path + " (" +
                                  errno_text(err) + "); --kubernetes off ends this warning");
        reports = false;
    }
    bool const watches_node = agent.watches_node || operator_watches_node(launch.warnings);
    if (reports) {
        options.arguments.emplace_back("--kubernetes=on");
        add(options.arguments, "annotation-prefix", agent.annotation_prefix);
        if (watches_node) options.arguments.emplace_back("--watch-node");
        options.watches_node = watches_node;
    } else if (watches_node) {
        launch.warnings.emplace_back("--enable-node-watch: there is no Kubernetes to ask for the node");
    }
    if (!reports && launch.wait_for_pod > Duration{})
        launch.warnings.emplace_back("--wait-for-pod: there is no Kubernetes to ask for the pod");
    options.is_reporting = reports;
    options.is_wanted = reports || wants_listener(agent);
    add_own_options(agent, options);
    return {};
}

Result<> resolve_stage_agent(AgentFlags const& agent, sidecar::StageOptions const& stage,
                             std::span<char const* const> arguments, launcher::LaunchOptions& launch) {
    launcher::AgentOptions& options = launch.agent;
    TRY(fill(agent, options));
    options.is_wanted = true;
    options.output_directory = stage.output_directory;
    std::vector<std::string>& own = options.arguments;
    add_log(launch.log, own);
    add(own, "version-file", stage.version_file);
    add(own, "main-container-version", stage.main_container_version);
    add(own, "main-container-conf-dir", stage.main_container_conf_directory);
    add(own, "binary-dir", stage.binary_directory);
    bool const is_init = stage.mode == sidecar::StageMode::init;
    std::string binaries = stage.binary_output_directory;
    if (binaries.empty() && is_init && !stage.binaries.empty())
        binaries = sidecar::plan(stage, sidecar::read_version(stage.version_file)).binary_directory;
    add(own, "binary-output-dir", binaries);
    add(own, "additional-env-file", stage.environment_file);
    for (std::string const& name : stage.substitute_variables)
        add(own, "substitute-variable", name);
    if (stage.public_ip_family)
        add(own, "public-ip-family", *stage.public_ip_family == config::IpFamily::v4 ? "4" : "6");
    add_own_options(agent, options);

    json::Writer json;
    json.open('{').key("programs").open('{').key("stage").open('{');
    json.key("command").open('[').value(own_path()).value(std::string_view("stage"));
    launch.built_in.stage_once = {"stage-once"};
    for (char const* const word : arguments) {
        if (!is_utf8(word)) return fail(json::shown(word) + " is not UTF-8, as with --listen every argument must be");
        json.value(std::string_view(word));
        launch.built_in.stage_once.emplace_back(word);
    }
    json.close(']').key("critical").value(true);
    if (is_init) {
        json.key("oneShot").value(true);
    } else {
        json.key("restart").value(std::string_view("never"));
        json.key("readiness").open('{').key("type").value(std::string_view("notify")).close('}');
    }
    json.close('}').close('}').close('}');
    launch.built_in.configuration = json.text();
    launch.built_in.is_to_finish = is_init;
    launch.exit_on_bad_configuration = true;
    return {};
}

}  // namespace triton::program
