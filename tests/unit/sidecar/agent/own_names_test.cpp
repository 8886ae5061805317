#include "sidecar/agent/own_names.h"

#include <string>

#include <gtest/gtest.h>

namespace triton::agent {
namespace {

constexpr std::string_view foreign_host = "Host is not an address, localhost, this pod or a name of --allow-host";

std::string refusal(OwnNames const& names, std::string_view host, std::string_view origin = {}) {
    return std::string(names.refusal_of(host, origin).value_or(""));
}

OwnNames in_a_pod() {
    return OwnNames({.host_name = "web-0", .cluster_domain = "cluster.test", .allowed = {"pod.example"}});
}

TEST(OwnNames, AddressesAndNamesOfThePodAreServed) {
    OwnNames const names = in_a_pod();
    for (std::string_view const host :
         {"", "localhost", "LOCALHOST:80", "10.0.0.1", "10.0.0.1:8080", "[::1]:8080", "web-0", "web-0:80",
          "web.default.svc", "web-0.web.default.svc:80", "web.default.svc.cluster.test",
          "web.default.svc.cluster.test.:80", "10-0-0-1.default.pod.Cluster.Test", "pod.example", "pod.example:443"})
        EXPECT_EQ(refusal(names, host), "") << host;
}

TEST(OwnNames, NamesOfOthersAreRefused) {
    OwnNames const names = in_a_pod();
    for (std::string_view const host :
         {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "1.2.3", "[::1", "[::1]x",
          "localhost:x", "[pod.example]", "x.pod.example", "web-0.evil.example", "svc", ".svc", "evil-svc",
          "cluster.test", "evilcluster.test", "a.svc.evil.example", ".", "web-1"})
        EXPECT_EQ(refusal(names, host), foreign_host) << host;
}

TEST(OwnNames, AnUnknownNameOfOurOwnIsNotThatOfEverybody) {
    OwnNames const names(OwnNames::Settings{});
    EXPECT_EQ(refusal(names, "evil."), foreign_host);
    EXPECT_EQ(refusal(names, ":80"), foreign_host);
    EXPECT_EQ(refusal(names, "a.b"), foreign_host);
}

TEST(OwnNames, PagesOfOthersAreRefused) {
    OwnNames const names = in_a_pod();
    for (std::string_view const origin : {"http://evil.example", "null", "https://localhost:80", "http://localhost:81",
                                          "http://localhost:80.evil.example", "file://"})
        EXPECT_EQ(refusal(names, "localhost:80", origin), "Origin is not this server") << origin;
    EXPECT_EQ(refusal(names, "", "http://"), "Origin is not this server");
    EXPECT_EQ(refusal(names, "10.0.0.1", "http://10.0.0.1"), "");
    EXPECT_EQ(refusal(names, "[::1]:8080", "http://[::1]:8080"), "");
}

TEST(OwnNames, OverTlsTheCertificateSaysWhoWeAre) {
    OwnNames const names({.has_tls = true});
    EXPECT_EQ(refusal(names, "any.example", "https://any.example"), "");
    EXPECT_EQ(refusal(names, "any.example"), "");
    EXPECT_EQ(refusal(names, "any.example", "http://any.example"), "Origin is not this server");
    EXPECT_EQ(refusal(names, "any.example", "https://evil.example"), "Origin is not this server");
}

TEST(OwnNames, TheClustersDomainIsInTheSearchList) {
    EXPECT_EQ(
        cluster_domain_of("nameserver 10.96.0.10\nsearch default.svc.cluster.local svc.cluster.local cluster.local\n"),
        "cluster.local");
    EXPECT_EQ(cluster_domain_of("search\ta.svc.k.example  svc.k.example."), "k.example");
    EXPECT_EQ(cluster_domain_of("search svc.old\nsearch svc.new\n"), "new");
    EXPECT_EQ(cluster_domain_of("search svc.old\nsearch example.com\n"), "") << "the last list counts";
    for (std::string_view const none : {"", "search", "search example.com\n", "#search svc.x\n", "searching svc.x"})
        EXPECT_EQ(cluster_domain_of(none), "") << none;
}

}  // namespace
}  // namespace triton::agent
