#include "host/cri/images/image_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using namespace triton;
using namespace triton::cri;

std::string full(std::string_view text) {
    auto const reference = parse_image_name(text);
    return reference ? reference->text() : "error: " + reference.error().text();
}

TEST(CriImageName, IsCompletedAsUsersOfKubernetesExpect) {
    std::string const digest = "sha256:" + std::string(64, 'a');
    EXPECT_EQ(full("nginx"), "docker.io/library/nginx:latest");
    EXPECT_EQ(full("nginx:1.27"), "docker.io/library/nginx:1.27");
    EXPECT_EQ(full("team/app"), "docker.io/team/app:latest");
    EXPECT_EQ(full("docker.io/nginx:1"), "docker.io/library/nginx:1");
    EXPECT_EQ(full("docker.io/library/nginx:1"), "docker.io/library/nginx:1");
    EXPECT_EQ(full("registry.k8s.io/pause:3.10"), "registry.k8s.io/pause:3.10");
    EXPECT_EQ(full("localhost/app"), "localhost/app:latest");
    EXPECT_EQ(full("127.0.0.1:5000/a/b:c"), "127.0.0.1:5000/a/b:c");
    EXPECT_EQ(full("127.0.0.1:5000/a@" + digest), "127.0.0.1:5000/a@" + digest);
    EXPECT_EQ(full("127.0.0.1:5000/a:1@" + digest), "127.0.0.1:5000/a@" + digest) << "the digest counts";
}

TEST(CriImageName, OtherTextIsRefused) {
    for (char const* const bad : {"", "/etc/passwd", "Nginx", "a b", "nginx:", "../x", "x@sha256:12"})
        EXPECT_THAT(full(bad), testing::StartsWith("error: cannot use \"")) << bad;
    EXPECT_THAT(full(std::string(2000, 'a')), testing::HasSubstr("1 to 1,024 bytes"));
}

TEST(CriImageName, HasARepository) {
    auto const reference = parse_image_name("nginx:1");
    ASSERT_TRUE(reference);
    EXPECT_EQ(repository_of(*reference), "docker.io/library/nginx");
    EXPECT_EQ(digest_name(*reference, "sha256:x"), "docker.io/library/nginx@sha256:x");
}

}  // namespace
