#include "host/cri/images/credentials.h"

#include <gtest/gtest.h>

#include "host/cri/images/image_name.h"
#include "host/image/authfile.h"

namespace {

using namespace triton;
using namespace triton::cri;

image::RegistryReference reference() { return *parse_image_name("registry.example:5000/app:1"); }

/// What a pull sends with them to the registry of the image.
std::optional<content::Credential> used(Credentials const& credentials) {
    auto const text = authfile_text(credentials, reference());
    if (text.empty()) return std::nullopt;
    auto const found = image::credential_in(text, "test", "registry.example:5000/app", "registry.example:5000");
    return found ? *found : std::nullopt;
}

TEST(CriCredentials, AreThoseOfTheRequest) {
    auto const by_name = used({.user = "alice", .password = "a:\"b\\"});
    ASSERT_TRUE(by_name);
    EXPECT_EQ(by_name->user, "alice");
    EXPECT_EQ(by_name->password, "a:\"b\\");
    auto const encoded = used({.both = "Ym9iOnNlY3JldA=="});
    ASSERT_TRUE(encoded);
    EXPECT_EQ(encoded->user, "bob");
    EXPECT_EQ(encoded->password, "secret");
    auto const token = used({.registry_token = "abc"});
    ASSERT_TRUE(token);
    EXPECT_EQ(token->token, "abc");
    EXPECT_EQ(authfile_text({}, reference()), "") << "none";
}

TEST(CriCredentials, OfAnotherServerAreNotSent) {
    EXPECT_FALSE(used({.user = "alice", .password = "x", .server = "other.example"}));
    EXPECT_TRUE(used({.user = "alice", .password = "x", .server = "registry.example:5000"}));
    EXPECT_TRUE(used({.user = "alice", .password = "x", .server = "https://registry.example:5000/v2/"}));
}

TEST(CriCredentials, AnIdentityTokenIsForTheTokenService) {
    auto const identity = used({.identity_token = "x"});
    ASSERT_TRUE(identity);
    EXPECT_EQ(identity->identity_token, "x");
    EXPECT_EQ(identity->token, "");
}

}  // namespace
