#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "sidecar/agent/options.h"

namespace triton::sidecar {
namespace {

Result<AgentOptions> parse(std::vector<char const*> arguments, std::vector<char const*> environment = {}) {
    arguments.insert(arguments.begin(), "triton-launch-agent");
    environment.push_back(nullptr);
    return parse_agent_options(static_cast<int>(arguments.size()), arguments.data(), environment.data());
}

TEST(AgentOptions, TheCommandLineWinsOverTheEnvironment) {
    auto const options = parse({"--listen=127.0.0.1:1", "--bind-address", "[::1]:2", "--max-connections", "7"},
                               {"TRITON_AGENT_LISTEN=:3", "TRITON_AGENT_MAX_CONNECTIONS=8",
                                "TRITON_AGENT_IDLE_TIMEOUT=5s", "TRITON_AGENT_OUTPUT_DIR="});
    ASSERT_TRUE(options) << options.error().text;
    ASSERT_EQ(options->listen.size(), 2U);
    EXPECT_EQ(options->listen[1].host, "::1");
    EXPECT_EQ(options->server.limits.connections, 7U);
    EXPECT_EQ(options->server.limits.idle, std::chrono::seconds(5));
    EXPECT_FALSE(options->has_tls);
}

TEST(AgentOptions, TlsIsCompletedFromFoundationDbsVariables) {
    std::vector<char const*> const variables{"FDB_TLS_CERTIFICATE_FILE=/c", "FDB_TLS_KEY_FILE=/k", "FDB_TLS_CA_FILE=/a",
                                             "FDB_TLS_PASSWORD=secret"};
    auto const options = parse({"--tls", "--tls-key-file", "/other"}, variables);
    ASSERT_TRUE(options) << options.error().text;
    EXPECT_TRUE(options->has_tls);
    EXPECT_EQ(options->certificates.certificate, "/c");
    EXPECT_EQ(options->certificates.key, "/other");
    EXPECT_EQ(options->certificates.authority, "/a");
    EXPECT_EQ(options->certificates.password, "secret");
    EXPECT_FALSE(parse({}, variables)->has_tls) << "they are there for the server beside us";
    EXPECT_TRUE(parse({"--tls", "--tls-verify-peers", "none"}, variables)->certificates.authority.empty());
}

TEST(AgentOptions, Errors) {
    struct Row {
        std::vector<char const*> arguments;
        std::string_view error;
    };
    Row const rows[] = {
        {{"--nothing"}, "unknown option --nothing"},
        {{"--max-conections", "1"}, "unknown option --max-conections; did you mean --max-connections?"},
        {{"-x"}, "unexpected argument -x"},
        {{"--log-level", "loud"}, R"(--log-level: unknown value "loud" (known: debug info warning error))"},
        {{"--open-metrics=maybe"}, R"(--open-metrics: unknown value "maybe" (known: true false))"},
        {{"--public-ip-family", "5"}, R"(--public-ip-family: "5" is not 4 or 6)"},
        {{"--tls-certificate-file", "/c"}, "--tls: --tls-key-file (FDB_TLS_KEY_FILE) is missing"},
        {{"--tls-certificate-file", "/c", "--tls-key-file", "/k", "--tls-ca-file", "/a", "--tls-verify-peers", "X=1"},
         "--tls-verify-peers: alternative 1, condition 1: unknown field \"X\" (known: CN C L ST O OU UID DC "
         "subjectAltName Check.Valid Check.Unexpired)"},
    };
    for (Row const& row : rows) {
        auto const options = parse(row.arguments);
        ASSERT_FALSE(options) << row.error;
        EXPECT_EQ(options.error().text, row.error);
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
        auto const address = parse_listen_address(row.text);
        ASSERT_EQ(address.has_value(), row.port >= 0) << row.text;
        if (!address) continue;
        EXPECT_EQ(address->host, row.host) << row.text;
        EXPECT_EQ(address->port, row.port) << row.text;
    }
}

}  // namespace
}  // namespace triton::sidecar
