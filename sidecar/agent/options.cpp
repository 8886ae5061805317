#include "sidecar/agent/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "config/duration.h"
#include "config/nearest.h"

#ifndef TRITON_AGENT_VERSION
#define TRITON_AGENT_VERSION "unknown"
#endif

namespace triton::sidecar {

namespace {

using Apply = std::function<Result<>(std::string const&)>;

struct Flag {
    std::string_view name;
    std::string_view alias;  // the shipped spelling; empty: none
    std::string_view value;  // what --help calls it; empty: a switch
    std::string_view help;
    Apply apply;
    std::function<void()> clear = {};  // before the first value from the command line
};
using Flags = std::vector<Flag>;

Apply into(std::string& target) {
    return [&target](std::string const& text) -> Result<> {
        target = text;
        return {};
    };
}

Apply into(bool& target) {
    return [&target](std::string const& text) -> Result<> {
        target = text == "true" || text == "1" || text == "yes" || text == "on";
        if (!target && text != "false" && text != "0" && text != "no" && text != "off")
            return fail("unknown value \"" + text + "\" (known: true false)");
        return {};
    };
}

Apply into(Duration& target) {
    return [&target](std::string const& text) -> Result<> {
        auto const duration = config::parse_duration(text);
        bool const fits = duration && *duration > Duration::zero() && *duration <= std::chrono::hours(24);
        if (!fits) return fail("\"" + text + "\" is not a duration up to a day (for example 500ms, 10s, 1m30s)");
        target = *duration;
        return {};
    };
}

template <class T>
Apply into_number(T& target, std::size_t lowest, std::size_t highest) {
    return [&target, lowest, highest](std::string const& text) -> Result<> {
        std::size_t number = 0;
        auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc{} || end != text.data() + text.size() || number < lowest || number > highest) {
            return fail("\"" + text + "\" is not a whole number from " + std::to_string(lowest) + " to " +
                        std::to_string(highest));
        }
        target = static_cast<T>(number);
        return {};
    };
}

Apply into_addresses(std::vector<ListenAddress>& target) {
    return [&target](std::string const& text) -> Result<> {
        target.push_back(TRY(parse_listen_address(text)));
        return {};
    };
}

Apply append_to(std::vector<std::string>& target) {
    return [&target](std::string const& text) -> Result<> {
        if (text.empty()) return fail("must not be empty");
        target.push_back(text);
        return {};
    };
}

Apply into_level(AgentLogLevel& target) {
    return [&target](std::string const& text) -> Result<> {
        constexpr std::array<std::string_view, 4> names{"debug", "info", "warning", "error"};
        auto const found = std::ranges::find(names, text);
        if (found == names.end()) return fail("unknown value \"" + text + "\" (known: debug info warning error)");
        target = static_cast<AgentLogLevel>(found - names.begin());
        return {};
    };
}

Apply into_family(int& target) {
    return [&target](std::string const& text) -> Result<> {
        if (text != "4" && text != "6") return fail("\"" + text + "\" is not 4 or 6");
        target = text == "4" ? 4 : 6;
        return {};
    };
}

Flags make_flags(AgentOptions& options, std::string& verify_peers) {
    SubstitutionOptions& substitutions = options.substitutions;
    return {
        {"listen", "bind-address", "ADDRESS", "HOST:PORT to serve on; [V6]:PORT, :PORT (may be repeated)",
         into_addresses(options.listen), [&options] { options.listen.clear(); }},
        {"output-dir", "", "DIR", "the directory whose files may be asked for", into(options.output_directory)},
        {"control-socket", "", "PATH", "of the launcher", into(options.control_socket)},
        {"tls", "", "", "serve by TLS; what no flag names comes from FDB_TLS_*", into(options.has_tls)},
        {"tls-certificate-file", "certificate-path", "FILE", "our certificate and its chain, PEM",
         into(options.certificates.certificate)},
        {"tls-key-file", "certificate-key-path", "FILE", "its key, PEM", into(options.certificates.key)},
        {"tls-ca-file", "", "FILE", "who may have signed the peers' certificates, PEM",
         into(options.certificates.authority)},
        {"tls-verify-peers", "", "RULES", "which peers are let in; none: certificates are not asked for",
         into(verify_peers)},
        {"open-metrics", "", "", "serve /metrics to peers without a certificate too",
         into(options.server.has_open_metrics)},
        {"max-connections", "", "N", "at the same time (default: 1024)",
         into_number(options.server.limits.connections, 1, 1'000'000)},
        {"request-timeout", "", "DURATION", "for a handshake, a header, a body (default: 10s)",
         into(options.server.limits.request)},
        {"idle-timeout", "", "DURATION", "between two requests (default: 1m)", into(options.server.limits.idle)},
        {"max-header-bytes", "", "N", "of one request (default: 16384)",
         into_number(options.server.limits.header_bytes, 256, 1 << 20)},
        {"max-body-bytes", "", "N", "of one request (default: 262144)",
         into_number(options.server.limits.body_bytes, 0, 1 << 24)},
        {"hash-threads", "", "N", "that compute hashes (default: 2)", into_number(options.hash_threads, 1, 64)},
        {"version-file", "", "FILE", "holds this container's version (default: /var/fdb/version)",
         into(substitutions.version_file)},
        {"main-container-version", "", "VERSION", "of the container that the files are for",
         into(substitutions.main_container_version)},
        {"main-container-conf-dir", "", "DIR",
         "the output directory there, for BINARY_DIR (default: /var/dynamic-conf)",
         into(substitutions.main_container_conf_directory)},
        {"binary-dir", "", "DIR", "BINARY_DIR when both versions are equal (default: /usr/bin)",
         into(substitutions.binary_directory)},
        {"additional-env-file", "", "FILE", "name=value lines, before the environment",
         into(substitutions.environment_file)},
        {"substitute-variable", "", "NAME", "a further name in /substitutions (may be repeated)",
         append_to(substitutions.variables), [&substitutions] { substitutions.variables.clear(); }},
        {"public-ip-family", "", "FAMILY", "4 or 6: of FDB_PUBLIC_IP and FDB_POD_IP take the first such address",
         into_family(substitutions.ip_family)},
        {"log-level", "", "LEVEL", "debug, info (default), warning, error", into_level(options.log_level)},
    };
}

std::string environment_name(std::string_view flag) {
    std::string name = "TRITON_AGENT_";
    for (char const c : flag)
        name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    return name;
}

std::optional<std::string> variable(char const* const* environment, std::string const& name) {
    for (; environment && *environment; ++environment) {
        std::string_view const entry(*environment);
        if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
            return std::string(entry.substr(name.size() + 1));
    }
    return std::nullopt;
}

std::string help_text(Flags const& flags) {
    std::string text =
        "usage: triton-launch-agent [FLAG]...\n\n"
        "Serves hashes, presence, status and metrics over HTTP. Usually started by triton-launch, which hands it its\n"
        "sockets; see docs/openapi.yaml for what it answers.\n\n";
    for (Flag const& flag : flags) {
        std::string left = "  --" + std::string(flag.name);
        if (!flag.value.empty()) left.append(" ").append(flag.value);
        if (left.size() < 34) left.resize(34, ' ');
        text.append(left).append("  ").append(flag.help);
        if (!flag.alias.empty()) text.append(" (also --").append(flag.alias).append(")");
        text += '\n';
    }
    return text +
           "  --help, --version\n\n"
           "Each flag is also an environment variable: TRITON_AGENT_MAX_CONNECTIONS for --max-connections.\n";
}

Result<> apply_environment(Flags const& flags, char const* const* environment) {
    for (Flag const& flag : flags) {
        std::string const name = environment_name(flag.name);
        auto const value = variable(environment, name);
        if (!value || value->empty()) continue;
        if (auto const done = flag.apply(*value); !done) return fail(name + ": " + done.error().text);
    }
    return {};
}

Flag const* find(Flags const& flags, std::string_view name) {
    for (Flag const& flag : flags) {
        if (name == flag.name || (!flag.alias.empty() && name == flag.alias)) return &flag;
    }
    return nullptr;
}

std::unexpected<Error> unknown_flag(Flags const& flags, std::string const& given) {
    std::vector<std::string_view> names;
    for (Flag const& flag : flags)
        names.push_back(flag.name);
    auto const meant = config::nearest(std::string_view(given).substr(2), names);
    return fail("unknown option " + given + (meant ? "; did you mean --" + std::string(*meant) + "?" : ""));
}

Result<> apply_arguments(Flags const& flags, std::span<char const* const> arguments, AgentOptions& options) {
    std::vector<Flag const*> seen;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        std::string const argument = arguments[i];
        if (!argument.starts_with("--")) return fail("unexpected argument " + argument);
        std::size_t const equals = argument.find('=');
        std::string const given = argument.substr(0, equals);
        if (given == "--help" || given == "--version") {
            options.text = given == "--help" ? help_text(flags) : "triton-launch-agent " + agent_version() + "\n";
            return {};
        }
        Flag const* const flag = find(flags, std::string_view(given).substr(2));
        if (!flag) return unknown_flag(flags, given);
        std::string value = "true";
        if (equals != argument.npos) {
            value = argument.substr(equals + 1);
        } else if (!flag->value.empty()) {
            if (i + 1 == arguments.size()) return fail(given + ": its value is missing");
            value = arguments[++i];
        }
        if (flag->clear && std::ranges::find(seen, flag) == seen.end()) flag->clear();
        seen.push_back(flag);
        if (auto const done = flag->apply(value); !done) return fail(given + ": " + done.error().text);
    }
    return {};
}

/// What TLS needs, from FDB_TLS_* where no flag says it, and the rules.
Result<> complete_tls(AgentOptions& options, std::string verify_peers, char const* const* environment) {
    CertificateFiles& files = options.certificates;
    options.has_tls = options.has_tls || !files.certificate.empty() || !files.key.empty() || !files.authority.empty();
    if (!options.has_tls) {
        if (!verify_peers.empty()) return fail("--tls-verify-peers needs --tls");
        return {};
    }
    auto const complete = [environment](std::string& target, char const* name) {
        if (target.empty()) target = variable(environment, name).value_or("");
    };
    complete(files.certificate, "FDB_TLS_CERTIFICATE_FILE");
    complete(files.key, "FDB_TLS_KEY_FILE");
    complete(files.authority, "FDB_TLS_CA_FILE");
    complete(files.password, "FDB_TLS_PASSWORD");
    complete(verify_peers, "FDB_TLS_VERIFY_PEERS");
    if (files.certificate.empty()) return fail("--tls: --tls-certificate-file (FDB_TLS_CERTIFICATE_FILE) is missing");
    if (files.key.empty()) return fail("--tls: --tls-key-file (FDB_TLS_KEY_FILE) is missing");
    if (verify_peers == "none") {
        files.authority.clear();
        return {};
    }
    if (files.authority.empty()) {
        return fail(
            "--tls: --tls-ca-file (FDB_TLS_CA_FILE) is missing; to ask for no certificates: "
            "--tls-verify-peers none");
    }
    auto rules = PeerRules::parse(verify_peers);
    if (!rules) return fail("--tls-verify-peers: " + rules.error().text);
    options.server.rules = std::move(*rules);
    return {};
}

}  // namespace

std::string agent_version() { return TRITON_AGENT_VERSION; }

Result<AgentOptions> parse_agent_options(int argc, char const* const* argv, char const* const* environment) {
    AgentOptions options;
    std::string verify_peers;
    Flags const flags = make_flags(options, verify_peers);
    TRY(apply_environment(flags, environment));
    std::span<char const* const> const arguments(argv + std::min(argc, 1),
                                                 static_cast<std::size_t>(std::max(argc - 1, 0)));
    TRY(apply_arguments(flags, arguments, options));
    if (options.text.empty()) TRY(complete_tls(options, std::move(verify_peers), environment));
    return options;
}

}  // namespace triton::sidecar
