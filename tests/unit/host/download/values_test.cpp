// What servers say, and what is made of it: challenges, URLs, headers, tokens.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/download/authorization.h"
#include "host/download/challenge.h"
#include "host/download/exchange.h"
#include "host/download/url.h"

namespace triton::download {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using enum Challenge::Scheme;

TEST(Challenges, AreReadAsServersWriteThem) {
    EXPECT_THAT(
        parse_challenges(
            R"(Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull,push")"),
        ElementsAre(Challenge{bearer, "https://auth.example/token", "registry.example", "repository:a/b:pull,push"}));
    EXPECT_THAT(parse_challenges(R"(Basic realm="x")"), ElementsAre(Challenge{basic, "x", "", ""}));
    EXPECT_THAT(parse_challenges("bAsIc"), ElementsAre(Challenge{basic, "", "", ""}));
    EXPECT_THAT(parse_challenges(R"(Digest realm="a, b", nonce="\"c", Basic  realm = y , BEARER realm="z")"),
                ElementsAre(Challenge{basic, "y", "", ""}, Challenge{bearer, "z", "", ""}));
}

TEST(Challenges, MalformedOnesEndTheList) {
    for (std::string_view const text : {"", ",", " , ,", "=", "\"", "(x)", R"(="realm")"})
        EXPECT_THAT(parse_challenges(text), IsEmpty()) << text;
    EXPECT_THAT(parse_challenges(R"(Bearer realm="never ends)"), ElementsAre(Challenge{bearer, "", "", ""}));
    EXPECT_THAT(parse_challenges(R"(Bearer realm="x\)"), ElementsAre(Challenge{bearer, "", "", ""}));
    EXPECT_LE(parse_challenges(std::string(10'000, ',') + "Basic").size(), 1U);
}

TEST(Urls, HaveAnAuthorityWithAPort) {
    EXPECT_EQ(parse_url("http://Example.ORG/a?b#c")->authority, "example.org:80");
    EXPECT_EQ(parse_url("https://example.org/a")->authority, "example.org:443");
    EXPECT_EQ(parse_url("https://[::1]:5000/v2/")->authority, "[::1]:5000");
    EXPECT_EQ(parse_url("http://example.org/a?b=c#d")->text, "http://example.org/a?b=c");
    EXPECT_EQ(parse_url("http://example.org/a?signature=secret")->shown(), "http://example.org/a");
}

TEST(Urls, OthersAreRefusedWithoutSayingSecrets) {
    struct Case {
        std::string_view url;
        std::string_view error;
    };
    for (Case const& one : {
             Case{"ftp://example.org/x", "ftp://example.org/x is not a URL of http or https"},
             {"file:///etc/shadow", "file:///etc/shadow is not a URL of http or https"},
             {"http://user:secret@example.org/", "a URL for example.org holds a user name or a password"},
             {"http://user@example.org/", "a URL for example.org holds a user name or a password"},
             {"nonsense", "nonsense is not a URL: Bad scheme"},
             {"", "\"\" is not a URL: Bad scheme"},
         }) {
        auto const url = parse_url(one.url);
        ASSERT_FALSE(url) << one.url;
        EXPECT_EQ(url.error().text(), one.error);
    }
    EXPECT_EQ(parse_url("http://x/" + std::string(9000, 'a')).error().text(), "a URL is too long, or holds a NUL byte");
}

TEST(Urls, RedirectsLeadWhereTheyMay) {
    Url const base = *parse_url("https://a.example/dir/file?x=1");
    EXPECT_EQ(follow(base, "/other")->text, "https://a.example/other");
    EXPECT_EQ(follow(base, "beside?y=2")->text, "https://a.example/dir/beside?y=2");
    EXPECT_EQ(follow(base, "//b.example/")->text, "https://b.example/");
    EXPECT_EQ(follow(base, "http://b.example/").error().text(), "https://a.example/dir/file leads from https to http");
    EXPECT_EQ(follow(base, "file:///etc/passwd").error().text(), "file:///etc/passwd is not a URL of http or https");
    EXPECT_EQ(follow(base, "https://u:p@b.example/").error().text(),
              "a URL for b.example holds a user name or a password");
    EXPECT_EQ(authority_of("registry.example", true), "registry.example:443");
    EXPECT_EQ(authority_of("Registry.example:5000", false), "registry.example:5000");
    EXPECT_EQ(with_parameter("http://a/t?x=1", "scope", "repository:a/b:pull"),
              "http://a/t?x=1&scope=repository%3aa%2fb%3apull");
}

TEST(ContentRange, IsTakenOnlyWhenItMakesSense) {
    EXPECT_EQ(parse_content_range("bytes 0-99/100"), (ContentRange{0, 99, 100}));
    EXPECT_EQ(parse_content_range("bytes 5-5/*"), (ContentRange{5, 5, std::nullopt}));
    for (std::string_view const text : {"", "bytes", "bytes */100", "bytes 9-5/100", "bytes 0-100/100", "items 0-1/2",
                                        "bytes 0-/2", "bytes -1-2/3", "bytes 0-1/99999999999999999999", "bytes 0-1"})
        EXPECT_EQ(parse_content_range(text), std::nullopt) << text;
}

TEST(Headers, AreTakenByNameInAnyCase) {
    Head head;
    for (std::string_view const line :
         {"content-length:  12 ", "CONTENT-RANGE: bytes 0-11/12", "Etag: \"v\"", "Content-Type: text/plain; charset=x",
          "Location:/there", "Docker-Content-Digest: sha256:x", "WWW-Authenticate: Basic", "nonsense", ":", ""})
        take_header(head, line);
    EXPECT_EQ(head.content_length, 12U);
    EXPECT_EQ(head.range, (ContentRange{0, 11, 12}));
    EXPECT_EQ(head.entity_tag, "\"v\"");
    EXPECT_EQ(head.media_type, "text/plain");
    EXPECT_EQ(head.location, "/there");
    EXPECT_THAT(head.challenges, ElementsAre("Basic"));
    take_header(head, "ETag: W/\"weak\"");
    EXPECT_EQ(head.entity_tag, "");
    take_header(head, "Content-Length: -5");
    EXPECT_EQ(head.content_length, std::nullopt);
    for (int i = 0; i < 100; ++i)
        take_header(head, "WWW-Authenticate: Basic");
    EXPECT_EQ(head.challenges.size(), 8U);
}

TEST(Tokens, AreReadFromEitherKey) {
    EXPECT_EQ(parse_token(R"({"token":"abc","expires_in":300,"issued_at":"x"})")->text, "abc");
    EXPECT_EQ(parse_token(R"({"token":"abc","expires_in":300})")->lives_for, std::chrono::seconds(300));
    EXPECT_EQ(parse_token(R"({"access_token":"abc"})")->lives_for, std::chrono::seconds(60));
    EXPECT_EQ(parse_token(R"({"token":"abc","expires_in":-9})")->lives_for, std::chrono::seconds(60));
    EXPECT_EQ(parse_token("{}").error().text(), "the token service gives no usable token");
    EXPECT_EQ(parse_token("{\"token\":\"a\\r\\nX: y\"}").error().text(), "the token service gives no usable token");
    EXPECT_EQ(parse_token("<html>").error().kind, ErrorKind::corrupt);
    EXPECT_EQ(parse_token(R"({"token":7})").error().text(),
              "the token service's answer cannot be read: token: expected a string, found number");
}

TEST(Basic, IsBase64) {
    EXPECT_EQ(basic_authorization("Aladdin", "open sesame"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    EXPECT_EQ(basic_authorization("a", "b"), "Basic YTpi");
    EXPECT_EQ(basic_authorization("a", "bc"), "Basic YTpiYw==");
    EXPECT_EQ(basic_authorization("a", "bcd"), "Basic YTpiY2Q=");
    EXPECT_EQ(basic_authorization("", ""), "Basic Og==");
}

class AuthorizationsTest : public testing::Test {
protected:
    Url const url_ = *parse_url("https://registry.example/v2/a/manifests/b");
    role::HostCredential const password_{.host = "registry.example", .user = "u", .password = "p"};
    role::HostCredential const token_{.host = "registry.example", .token = "t"};
    std::string const scope_ = "repository:a:pull";
    TimePoint const now_{};
    Authorizations known_;
};

TEST_F(AuthorizationsTest, CredentialsAreForTheirHostAlone) {
    role::Credentials const credentials{{password_, {.host = "http.example:80", .user = "x"}}};
    EXPECT_EQ(credential_for(credentials, url_), &credentials.hosts[0]);
    EXPECT_EQ(credential_for(credentials, *parse_url("https://registry.example:444/")), nullptr);
    EXPECT_EQ(credential_for(credentials, *parse_url("https://evil.example/registry.example")), nullptr);
    EXPECT_EQ(credential_for(credentials, *parse_url("http://http.example/")), &credentials.hosts[1]);
}

TEST_F(AuthorizationsTest, ATokenServiceIsAskedForWhatWeWant) {
    auto const request = known_.on_refused(
        url_, {R"(Bearer realm="https://auth.example/token",service="s",scope="repository:a:pull,push,delete")"},
        scope_, &password_);
    ASSERT_TRUE(*request);
    EXPECT_EQ((*request)->url.text, "https://auth.example/token?service=s&scope=repository%3aa%3apull");
    EXPECT_EQ((*request)->authorization, "Basic dTpw");
    known_.remember(url_, scope_, &password_, {"tok", std::chrono::seconds(10)}, now_);
    EXPECT_EQ(known_.known_for(url_, scope_, &password_, now_ + std::chrono::seconds(9)), "Bearer tok");
    EXPECT_EQ(known_.known_for(url_, scope_, &password_, now_ + std::chrono::seconds(10)), "");
    EXPECT_EQ(known_.known_for(url_, "repository:b:pull", &password_, now_), "");
    EXPECT_EQ(known_.known_for(*parse_url("https://other.example/"), scope_, &password_, now_), "");
    EXPECT_EQ(known_.known_for(*parse_url("http://registry.example:443/"), scope_, &password_, now_), "");
}

TEST_F(AuthorizationsTest, ATokenIsBetterThanAPasswordWhereBothAreOffered) {
    std::string const basic = "Basic realm=\"z\"";
    std::string const bearer = "Bearer realm=\"https://auth.example/token\"";
    for (std::vector<std::string> const& headers :
         {std::vector{basic, bearer}, {bearer, basic}, {basic + ", " + bearer}, {bearer + ", " + basic}}) {
        auto const request = known_.on_refused(url_, headers, scope_, &password_);
        ASSERT_TRUE(request && *request);
        EXPECT_EQ((*request)->authorization, "Basic dTpw");
    }
    // A Bearer without a service is of no use.
    auto const request = known_.on_refused(url_, {"Bearer", basic}, scope_, &password_);
    ASSERT_TRUE(request);
    EXPECT_FALSE(*request);
}

TEST_F(AuthorizationsTest, AnIdentityTokenGoesToTheTokenServiceAlone) {
    role::HostCredential const identity{.host = "registry.example", .user = "0000", .identity_token = "a+b&c=\r\n"};
    std::string const bearer = R"(Bearer realm="https://auth.example/oauth2/token",service="s s")";
    auto const request = known_.on_refused(url_, {"Basic", bearer}, scope_, &identity);
    ASSERT_TRUE(request && *request);
    EXPECT_EQ((*request)->url.text, "https://auth.example/oauth2/token");
    EXPECT_EQ((*request)->authorization, "");
    EXPECT_EQ((*request)->form,
              "grant_type=refresh_token&client_id=triton-download&service=s%20s&scope=repository%3Aa%3Apull&"
              "refresh_token=a%2Bb%26c%3D%0D%0A");
    EXPECT_EQ(known_.on_refused(url_, {"Basic"}, scope_, &identity).error().text(),
              "registry.example:443 refuses the credentials");
    Url const near = *parse_url("http://127.0.0.1:5000/v2/a/manifests/b");
    EXPECT_EQ(known_.on_refused(near, {R"(Bearer realm="http://auth.example/")"}, scope_, &identity).error().kind,
              ErrorKind::denied);
}

TEST_F(AuthorizationsTest, WhatIsPublicNeedsATokenAndNoCredential) {
    auto const request = known_.on_refused(url_, {R"(Bearer realm="https://auth.example/token")"}, "", nullptr);
    ASSERT_TRUE(*request);
    EXPECT_EQ((*request)->url.text, "https://auth.example/token");
    EXPECT_EQ((*request)->authorization, "");
}

TEST_F(AuthorizationsTest, BasicIsShownOnceItIsAskedFor) {
    EXPECT_EQ(known_.known_for(url_, scope_, &password_, now_), "");
    auto const request = known_.on_refused(url_, {"Digest x=y", "Basic realm=\"z\""}, scope_, &password_);
    ASSERT_TRUE(request);
    EXPECT_FALSE(*request);
    EXPECT_EQ(known_.known_for(url_, scope_, &password_, now_), "Basic dTpw");
}

TEST_F(AuthorizationsTest, WhoHasNothingToShowIsToldSo) {
    EXPECT_EQ(known_.on_refused(url_, {"Basic"}, scope_, nullptr).error().text(),
              "registry.example:443 wants credentials, and there are none for it");
    EXPECT_EQ(known_.on_refused(url_, {}, scope_, &password_).error().text(),
              "registry.example:443 refuses the credentials");
    EXPECT_EQ(known_.known_for(url_, scope_, &token_, now_), "Bearer t");
    EXPECT_EQ(known_.on_refused(url_, {"Bearer realm=\"https://auth.example\""}, scope_, &token_).error().kind,
              ErrorKind::denied);
}

TEST_F(AuthorizationsTest, ARealmDoesNotLeadCredentialsOutOfTls) {
    EXPECT_EQ(known_.on_refused(url_, {"Bearer realm=\"http://auth.example/\""}, scope_, &password_).error().text(),
              "https://registry.example/v2/a/manifests/b leads from https to http");
}

TEST_F(AuthorizationsTest, ATokenServiceGetsNoPasswordInPlainTextOnAnotherMachine) {
    Url const near = *parse_url("http://127.0.0.1:5000/v2/a/manifests/b");
    role::HostCredential const password{.host = "127.0.0.1:5000", .user = "u", .password = "p"};
    auto const asks = [&](char const* realm, role::HostCredential const* credential) {
        return known_.on_refused(near, {std::string("Bearer realm=\"") + realm + '"'}, scope_, credential);
    };
    EXPECT_EQ(asks("http://auth.example/token", &password).error().text(),
              "127.0.0.1:5000 names the token service http://auth.example/token, which would get the password in plain "
              "text");
    EXPECT_TRUE(asks("https://auth.example/token", &password));
    EXPECT_TRUE(asks("http://127.0.0.1:5001/token", &password));
    EXPECT_TRUE(asks("http://localhost:5001/token", &password));
    EXPECT_TRUE(asks("http://auth.example/token", nullptr));
}

}  // namespace
}  // namespace triton::download
