#include "lib/net/verify_peers.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace triton::net {
namespace {

PeerCertificate client() {
    PeerCertificate peer;
    peer.subject = {{NameField::common_name, "client"},
                    {NameField::organization, "Acme, Inc | ; \\ "},
                    {NameField::domain, "example"},
                    {NameField::domain, "org"},
                    {NameField::locality, "Z\xc3\xbcrich"}};
    peer.issuer = {{NameField::common_name, "Middle"}};
    peer.root = {{NameField::common_name, "Root"}};
    peer.alternatives = {{AlternativeKind::dns, "client.example.org"},
                         {AlternativeKind::ip, "fd00::1"},
                         {AlternativeKind::other, ""},
                         {AlternativeKind::uri, "spiffe://x"}};
    peer.root_alternatives = {{AlternativeKind::email, "root@example.org"}};
    peer.validity = ChainValidity::valid;
    return peer;
}

bool accepts(std::string_view rules, PeerCertificate const& peer) {
    auto const parsed = PeerRules::parse(rules);
    EXPECT_TRUE(parsed) << rules << ": " << parsed.error().text();
    return parsed && parsed->check(peer);
}

TEST(PeerRules, EachConditionOnAValidChain) {
    struct Row {
        std::string_view rules;
        bool is_accepted;
    };
    Row const rows[] = {
        {"", true},
        {"CN=client", true},
        {"CN=client,", true},  // FoundationDB reads it so
        {"CN=client ", true},  // a blank at the end does not belong to the value
        {"CN=client\\ ", false},
        {"CN=Client", false},
        {"CN>=cli", true},
        {"CN<=ent", true},
        {"CN>=client", true},
        {"CN>=clients", false},
        {"S.CN=client,I.CN=Middle,R.CN=Root", true},
        {"S.CN=client,I.CN=Root,R.CN=Root", false},
        {"O=Acme\\, Inc \\| \\; \\\\\\ ", true},
        {"O=Acme\\2C Inc \\7c \\3B \\5c\\20", true},
        {"O>=Acme\\, Inc \\|", true},
        {"L=Z\xc3\xbcrich", true},
        {"L=Z\\c3\\bcrich", true},
        {"DC=example", false},  // twice in the name
        {"C=US", false},        // not in the name
        {"CN=x|CN=y|CN=client", true},
        {"CN=x|O=y", false},
        {"subjectAltName=DNS:client.example.org", true},
        {"subjectAltName=IP:FD00:0:0::1", true},
        {"subjectAltName>=IP:fd00:", true},
        {"subjectAltName=URI:spiffe://x", false},  // behind a kind that FoundationDB stops at
        {"I.subjectAltName=DNS:client.example.org", true},
        {"R.subjectAltName=EMAIL:root@example.org", true},
        {"R.subjectAltName=DNS:client.example.org", false},
        {"CN=a=b", false},
        // the sidecar's form
        {"CN=x;CN=client", true},
        {"CN=x;DC=example", true},
        {"CN=x;DC=org", true},
        {"CN=x;subjectAltName=URI:spiffe://x", true},
        {"CN=x;subjectAltName=IP Address:fd00::1", true},
        {"CN=x;O<=\\ ", true},
        {"CN=x|y;O=z", false},
    };
    for (Row const& row : rows)
        EXPECT_EQ(accepts(row.rules, client()), row.is_accepted) << row.rules;
}

TEST(PeerRules, ValidityIsOverlookedAsFarAsTheRulesSay) {
    struct Row {
        std::string_view rules;
        bool expired;
        bool invalid;
    };
    Row const rows[] = {
        {"", false, false},
        {"CN=client", false, false},
        {"Check.Valid=1,Check.Unexpired=1", false, false},
        {"Check.Unexpired=0", true, false},
        {"Check.Unexpired=0,CN=client", true, false},
        {"Check.Unexpired=0,CN=x", false, false},
        {"Check.Unexpired=0,CN=x|CN=client", false, false},
        {"Check.Valid=0", true, true},
        {"CN=x|Check.Valid=0,CN=y", true, true},
        {"CN=x;Check.Valid=0", true, true},
    };
    for (Row const& row : rows) {
        PeerCertificate peer = client();
        peer.validity = ChainValidity::expired;
        EXPECT_EQ(accepts(row.rules, peer), row.expired) << row.rules;
        peer.validity = ChainValidity::invalid;
        EXPECT_EQ(accepts(row.rules, peer), row.invalid) << row.rules;
    }
}

TEST(PeerRules, ReasonsNameWhatDoesNotMatch) {
    auto const reason = [](std::string_view rules, PeerCertificate const& peer) {
        return PeerRules::parse(rules)->check(peer).error().text();
    };
    EXPECT_EQ(reason("CN=x|I.CN=y", client()),
              "the certificate does not match CN=x; the certificate does not match I.CN=y");
    PeerCertificate stranger = client();
    stranger.validity = ChainValidity::invalid;
    stranger.problem = "self-signed certificate";
    EXPECT_EQ(reason("", stranger), "the certificate is not valid: self-signed certificate");
}

TEST(PeerRules, WhatCannotBeMeantIsAnError) {
    struct Row {
        std::string_view rules;
        std::string_view error;
    };
    Row const rows[] = {
        {"CN", R"(alternative 1, condition 1: "CN" has no "=")"},
        {"CN=a,XY=b", R"(alternative 1, condition 2: unknown field "XY" (known: CN C L ST O OU UID DC subjectAltName )"
                      "Check.Valid Check.Unexpired)"},
        {"CN=a|Q.CN=b", R"(alternative 2, condition 1: unknown scope "Q" (known: S Subject I Issuer R Root))"},
        {"CN=", "alternative 1, condition 1: the value is empty"},
        {"CN=a;CN=", "alternative 2, condition 1: the value is empty"},
        {"CN=#04", R"(alternative 1, condition 1: a value does not begin with "#" unless it is escaped)"},
        {"CN= a", R"(alternative 1, condition 1: a value does not begin with " " unless it is escaped)"},
        {"CN=a<b", R"(alternative 1, condition 1: "<" in a value must be escaped)"},
        {"CN=a\\",
         "alternative 1, condition 1: a backslash escapes a special character or begins two hexadecimal digits"},
        {"CN=a\\x",
         "alternative 1, condition 1: a backslash escapes a special character or begins two hexadecimal digits"},
        {"CN=a|", "alternative 2, condition 1: it is empty"},
        {"|CN=a", "alternative 1, condition 1: it is empty"},
        {",", "alternative 1, condition 1: it is empty"},
        {"Check.Valid=", R"(alternative 1, condition 1: Check.Valid takes "=0" or "=1")"},
        {"Check.Valid<=1", R"(alternative 1, condition 1: Check.Valid takes "=0" or "=1")"},
        {"Check.Foo=1",
         R"(alternative 1, condition 1: unknown check "Check.Foo" (known: Check.Valid Check.Unexpired))"},
        {"subjectAltName=x",
         R"(alternative 1, condition 1: the value of a subjectAltName begins with DNS:, URI:, IP: or )"
         R"(EMAIL:, not "x")"},
        {"subjectAltName=DNS:", "alternative 1, condition 1: the value is empty"},
    };
    for (Row const& row : rows) {
        auto const rules = PeerRules::parse(row.rules);
        ASSERT_FALSE(rules) << row.rules;
        EXPECT_EQ(rules.error().text(), row.error) << row.rules;
    }
}

TEST(PeerRules, AnEscapedBarDoesNotSplit) {  // FoundationDB's own loops for ever here
    PeerCertificate peer = client();
    peer.subject = {{NameField::common_name, "a|b"}};
    EXPECT_TRUE(accepts("CN=a\\|b", peer));
    EXPECT_TRUE(accepts("CN=x|CN=a\\|b", peer));
    EXPECT_FALSE(accepts("CN=a\\\\|CN=b", peer)) << "an escaped backslash, then a bar";
}

TEST(PeerRules, AnyBytesAreReadOrRefused) {
    std::string const alphabet = "CN=S.I>,<|;\\ #D:0aP\n";
    std::uint32_t state = 1;
    for (int round = 0; round < 20000; ++round) {
        std::string text = round % 2 == 0 ? "subjectAltName=DNS:" : "CN=";
        for (int i = 0; i < round % 17; ++i) {
            state = state * 1664525 + 1013904223;
            text += alphabet[(state >> 16) % alphabet.size()];
        }
        if (auto const rules = PeerRules::parse(text)) (void)rules->check(client());
    }
}

}  // namespace
}  // namespace triton::net
