#include "programs/triton-launch-agent/command_line.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::program {
namespace {

Result<agent::AgentOptions> parse(std::vector<char const*> arguments, std::vector<char const*> environment = {}) {
    arguments.insert(arguments.begin(), "triton-launch-agent");
    environment.push_back(nullptr);
    auto line = parse_agent_command_line(static_cast<int>(arguments.size()), arguments.data(), environment.data());
    if (!line) return std::unexpected(std::move(line).error());
    return std::move(line->options);
}

TEST(AgentOptions, TheCommandLineWinsOverTheEnvironment) {
    auto const options = parse({"--listen=127.0.0.1:1", "--bind-address", "[::1]:2", "--max-connections", "7"},
                               {"TRITON_AGENT_LISTEN=:3", "TRITON_AGENT_MAX_CONNECTIONS=8",
                                "TRITON_AGENT_IDLE_TIMEOUT=5s", "TRITON_AGENT_OUTPUT_DIR="});
    ASSERT_TRUE(options) << options.error().text();
    ASSERT_EQ(options->listen.size(), 3U) << "what may be repeated adds up";
    EXPECT_EQ(options->listen[2].host, "::1");
    EXPECT_EQ(options->server.limits.connections, 7U);
    EXPECT_EQ(options->server.limits.idle, std::chrono::seconds(5));
    EXPECT_FALSE(options->has_tls);
    EXPECT_FALSE(options->has_kubernetes);
}

TEST(AgentOptions, KubernetesIsCompletedFromThePodsVariables) {
    std::vector<char const*> const variables{"KUBERNETES_SERVICE_HOST=10.0.0.1", "KUBERNETES_SERVICE_PORT=6443",
                                             "HOSTNAME=web-0", "POD_NAMESPACE=shop", "NODE_NAME=node-a"};
    auto options = parse({"--kubernetes", "on", "--annotation-prefix", "example.org/", "--watch-node"}, variables);
    ASSERT_TRUE(options) << options.error().text();
    EXPECT_TRUE(options->has_kubernetes);
    EXPECT_EQ(options->kubernetes.api_host, "10.0.0.1");
    EXPECT_EQ(options->kubernetes.api_port, "6443");
    EXPECT_EQ(options->kubernetes.pod_name, "web-0");
    EXPECT_EQ(options->kubernetes.pod_namespace, "shop");
    EXPECT_EQ(options->kubernetes.node_name, "node-a");
    EXPECT_EQ(options->kubernetes.annotation_prefix, "example.org/");
    EXPECT_TRUE(options->kubernetes.watches_node);
    EXPECT_EQ(options->kubernetes.service_account_directory, "/var/run/secrets/kubernetes.io/serviceaccount");

    std::vector<char const*> more = variables;
    more.insert(more.end(), {"FDB_POD_NAME=db-1", "POD_NAME=db-2", "FDB_POD_NAMESPACE=data",
                             "FDB_NODE_NAME=", "TRITON_AGENT_KUBERNETES=1"});
    options = parse({"--node-name", "node-b", "--readiness-gate", "example.org/ready"}, more);
    ASSERT_TRUE(options) << options.error().text();
    EXPECT_EQ(options->kubernetes.pod_name, "db-1");
    EXPECT_EQ(options->kubernetes.pod_namespace, "data");
    EXPECT_EQ(options->kubernetes.node_name, "node-b");
    EXPECT_EQ(options->kubernetes.readiness_gate, "example.org/ready");
    EXPECT_FALSE(parse({}, variables)->has_kubernetes);
}

TEST(AgentOptions, AVariableThatMeansNothingIsRemarkedOn) {
    auto const options =
        parse({}, {"TRITON_AGENT_LOG_LEVL=debug", "TRITON_AGENT_LOG_LEVEL=debug", "TRITON_AGENT_PORT=tcp://10.0.0.1:80",
                   "TRITON_AGENT_SERVICE_HOST=10.0.0.1", "TRITON_AGENT_SERVICE_PORT_HTTP=80"});
    ASSERT_TRUE(options) << options.error().text();
    EXPECT_THAT(
        options->remarks,
        testing::ElementsAre(
            "unknown variable TRITON_AGENT_LOG_LEVL, which has no effect; did you mean TRITON_AGENT_LOG_LEVEL?"));
}

TEST(AgentOptions, TlsIsCompletedFromFoundationDbsVariables) {
    std::vector<char const*> const variables{"FDB_TLS_CERTIFICATE_FILE=/c", "FDB_TLS_KEY_FILE=/k", "FDB_TLS_CA_FILE=/a",
                                             "FDB_TLS_PASSWORD=secret"};
    auto const options = parse({"--tls", "--tls-key-file", "/other"}, variables);
    ASSERT_TRUE(options) << options.error().text();
    EXPECT_TRUE(options->has_tls);
    EXPECT_EQ(options->certificates.certificate, "/c");
    EXPECT_EQ(options->certificates.key, "/other");
    EXPECT_EQ(options->certificates.authority, "/a");
    EXPECT_EQ(options->certificates.password, "secret");
    EXPECT_FALSE(parse({}, variables)->has_tls) << "they are there for the server beside us";
    EXPECT_TRUE(parse({"--tls", "--tls-verify-peers", "none"}, variables)->certificates.authority.empty());
}

/// All else goes on where this cannot work: the reporter says so when it starts.
TEST(AgentOptions, SurroundingsThatAreNoGoodAreNoErrorOfTheCommandLine) {
    for (std::vector<char const*> const& variables :
         {std::vector<char const*>{},
          {"KUBERNETES_SERVICE_HOST=10.0.0.1", "HOSTNAME="},
          {"KUBERNETES_SERVICE_HOST=10.0.0.1", "KUBERNETES_SERVICE_PORT=tcp://10.0.0.1:443", "HOSTNAME=a"}}) {
        auto const options = parse({"--kubernetes=on"}, variables);
        ASSERT_TRUE(options) << options.error().text();
        EXPECT_TRUE(options->has_kubernetes);
    }
}

TEST(AgentOptions, APrefixMayBeginAName) {
    for (char const* const prefix : {"foo-", "example.org/", "example.org/foo-"}) {
        auto const options = parse({"--annotation-prefix", prefix});
        ASSERT_TRUE(options) << options.error().text();
        EXPECT_EQ(options->kubernetes.annotation_prefix, prefix);
    }
}

TEST(AgentOptions, Errors) {
    struct Row {
        std::vector<char const*> arguments;
        std::string_view error;
    };
    Row const rows[] = {
        {{"--nothing"}, "unknown option --nothing; see triton-launch-agent --help"},
        {{"--max-conections", "1"}, "unknown option --max-conections; did you mean --max-connections?"},
        {{"-x"}, "unknown option -x; see triton-launch-agent --help"},
        {{"x"}, "unexpected argument x"},
        {{"--listen"}, "--listen: ADDRESS is missing"},
        {{"--output-dir="}, "--output-dir: must not be empty"},
        {{"--idle-timeout", "0s"},
         R"(--idle-timeout: "0s" is not a duration up to a day (for example 500ms, 10s, 1m30s))"},
        {{"--max-header-bytes", "255"}, R"(--max-header-bytes: "255" is not a whole number from 256 to 1048576)"},
        {{"--log-level", "loud"}, R"(--log-level: unknown value "loud" (known: trace debug info warning error off))"},
        {{"--open-metrics=maybe"}, R"(--open-metrics: unknown value "maybe" (known: true 1 yes on false 0 no off))"},
        {{"--public-ip-family", "15"}, R"(--public-ip-family: unknown value "15" (known: 4 6))"},
        {{"--annotation-prefix", "example.org"},
         R"(--annotation-prefix: "example.org" has no / at its end: "example.org/")"},
        {{"--annotation-prefix="}, "--annotation-prefix: must not be empty"},
        {{"--tls-certificate-file", "/c"}, "--tls: --tls-key-file (FDB_TLS_KEY_FILE) is missing"},
        {{"--tls-certificate-file", "/c", "--tls-key-file", "/k", "--tls-ca-file", "/a", "--tls-verify-peers", "X=1"},
         "--tls-verify-peers: alternative 1, condition 1: unknown field \"X\" (known: CN C L ST O OU UID DC "
         "subjectAltName Check.Valid Check.Unexpired)"},
    };
    for (Row const& row : rows) {
        auto const options = parse(row.arguments);
        ASSERT_FALSE(options) << row.error;
        EXPECT_EQ(options.error().text(), row.error);
    }
}

TEST(ListenAddress, EveryForm) {
    struct Row {
        std::string_view text;
        std::string_view host;
        int port;  // -1: refused
    };
    Row const rows[] = {
        {"8080", "", 8080},
        {":8080", "", 8080},
        {"10.0.0.1:80", "10.0.0.1", 80},
        {"[::1]:80", "::1", 80},
        {"[fd00::1]:0", "fd00::1", 0},
        {"", "", -1},
        {":", "", -1},
        {"10.0.0.1", "", -1},
        {"::1:80", "", -1},
        {"[10.0.0.1]:80", "", -1},
        {"[]:80", "", -1},
        {"host:80", "", -1},
        {":65536", "", -1},
        {":-1", "", -1},
        {":80x", "", -1},
        {"[::1]", "", -1},
    };
    for (Row const& row : rows) {
        auto const address = net::parse_listen_address(row.text);
        ASSERT_EQ(address.has_value(), row.port >= 0) << row.text;
        if (!address) continue;
        EXPECT_EQ(address->host, row.host) << row.text;
        EXPECT_EQ(address->port, row.port) << row.text;
    }
}

}  // namespace
}  // namespace triton::program
