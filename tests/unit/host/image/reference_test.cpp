#include "host/image/reference.h"

#include <string>

#include <gtest/gtest.h>

#include "lib/base/loopback.h"

namespace triton::image {
namespace {

std::string const hex(64, 'a');

std::string error_of(std::string_view text) {
    auto const reference = parse_reference(text);
    return reference ? "none" : reference.error().text();
}

template <class T>
T parsed(std::string_view text) {
    auto reference = parse_reference(text);
    EXPECT_TRUE(reference) << (reference ? "" : reference.error().text());
    T const* const of_type = reference ? std::get_if<T>(&*reference) : nullptr;
    EXPECT_TRUE(of_type) << text;
    return of_type ? *of_type : T{};
}

TEST(Reference, OfARegistry) {
    struct Row {
        std::string text, host, repository, tag, digest, canonical;
    };
    std::string const digest = "sha256:" + hex;
    Row const rows[] = {
        {"docker.io/library/alpine:3.20", "docker.io", "library/alpine", "3.20", "", "docker.io/library/alpine:3.20"},
        {"docker.io/alpine", "docker.io", "library/alpine", "latest", "", "docker.io/library/alpine:latest"},
        {"index.docker.io/alpine", "docker.io", "library/alpine", "latest", "", "docker.io/library/alpine:latest"},
        {"docker://quay.io/a/b", "quay.io", "a/b", "latest", "", "quay.io/a/b:latest"},
        {"host:5000/name@" + digest, "host:5000", "name", "", digest, "host:5000/name@" + digest},
        {"localhost/x/y_z/a--b:v1@" + digest, "localhost", "x/y_z/a--b", "v1", digest,
         "localhost/x/y_z/a--b:v1@" + digest},
        {"[::1]:5000/name:T", "[::1]:5000", "name", "T", "", "[::1]:5000/name:T"},
    };
    for (Row const& row : rows) {
        auto const reference = parsed<RegistryReference>(row.text);
        EXPECT_EQ(reference.host, row.host);
        EXPECT_EQ(reference.repository, row.repository);
        EXPECT_EQ(reference.tag, row.tag);
        EXPECT_EQ(reference.digest, row.digest);
        EXPECT_EQ(reference.text(), row.canonical);
        EXPECT_EQ(parsed<RegistryReference>(row.canonical), reference);
    }
    EXPECT_EQ(parsed<RegistryReference>("docker.io/alpine").endpoint(), "registry-1.docker.io");
    EXPECT_EQ(parsed<RegistryReference>("quay.io/alpine").endpoint(), "quay.io");
}

TEST(Reference, OfALayoutAndOfAPath) {
    EXPECT_EQ(parsed<LayoutReference>("oci:/srv/x:3.20"), (LayoutReference{"/srv/x", "3.20", "", false}));
    EXPECT_EQ(parsed<LayoutReference>("oci:x"), (LayoutReference{"x", "", "", false}));
    EXPECT_EQ(parsed<LayoutReference>("oci:/a:b/c"), (LayoutReference{"/a:b/c", "", "", false}));
    EXPECT_EQ(parsed<LayoutReference>("oci:/a@sha256:" + hex), (LayoutReference{"/a", "", "sha256:" + hex, false}));
    EXPECT_EQ(parsed<LayoutReference>("oci-archive:x.tar:t"), (LayoutReference{"x.tar", "t", "", true}));
    EXPECT_EQ(parsed<LayoutReference>("docker-archive:x.tar:team/app:1"),
              (LayoutReference{"x.tar", "team/app:1", "", true}));
    EXPECT_EQ(parsed<LayoutReference>("docker-archive:/a/x.tar:alpine:3.20").text(),
              "oci-archive:/a/x.tar:alpine:3.20");
    EXPECT_EQ(parsed<LayoutReference>("oci:/x:localhost/app:1"), (LayoutReference{"/x", "localhost/app:1", "", false}));
    EXPECT_EQ(parsed<LayoutReference>("oci:/x:r.example:5000/a/b:1.0+c").tag, "r.example:5000/a/b:1.0+c");
    EXPECT_EQ(parsed<LayoutReference>("oci:/a:b/layout:1"), (LayoutReference{"/a:b/layout", "1", "", false}));
    EXPECT_EQ(parsed<LayoutReference>("oci-archive:/a:b/x.tar"), (LayoutReference{"/a:b/x.tar", "", "", true}));
    for (std::string const path : {"/srv/root.tar.gz", "./alpine", "../x", ".", ".."})
        EXPECT_EQ(parsed<PathReference>(path).path, path);
    auto const uuid = parse_reference("7B5981C4-1889-11E7-B4C5-3F3BDFC9B88B");
    ASSERT_TRUE(uuid && std::holds_alternative<Uuid>(*uuid));
    EXPECT_EQ(std::get<Uuid>(*uuid).text(), "7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b");
}

TEST(Reference, TellsWhatIsWrong) {
    EXPECT_EQ(error_of(""), "an image reference is empty");
    EXPECT_EQ(error_of("alpine:3.20"),
              "image reference \"alpine:3.20\": it names no registry; an image of Docker Hub is "
              "docker.io/library/alpine:3.20, a file is ./alpine:3.20");
    EXPECT_EQ(error_of("grafana/grafana"),
              "image reference \"grafana/grafana\": it names no registry; an image of Docker Hub is "
              "docker.io/grafana/grafana, a file is ./grafana/grafana");
    EXPECT_EQ(error_of("h.x/Name"), "image reference \"h.x/Name\": \"Name\" is not the name of a repository");
    EXPECT_EQ(error_of("h.x/../name"), "image reference \"h.x/../name\": \"../name\" is not the name of a repository");
    EXPECT_EQ(error_of("h.x/a:-t"), "image reference \"h.x/a:-t\": \"-t\" is not a tag");
    EXPECT_EQ(error_of("h.x:99999/a"), "image reference \"h.x:99999/a\": \"h.x:99999\" is not a host");
    EXPECT_EQ(error_of("h.x/a@sha512:" + hex),
              "image reference \"h.x/a@sha512:" + hex + "\": a digest is sha256: and 64 lower-case hexadecimal digits");
    EXPECT_EQ(error_of("h.x/a@sha256:" + std::string(64, 'A')),
              "image reference \"h.x/a@sha256:" + std::string(64, 'A') +
                  "\": a digest is sha256: and 64 lower-case hexadecimal digits");
    EXPECT_EQ(error_of("oci:/x:-t"), "image reference \"oci:/x:-t\": \"-t\" is neither a tag nor the name of an image");
    EXPECT_EQ(error_of("oci:/x:"), "image reference \"oci:/x:\": \"\" is neither a tag nor the name of an image");
    EXPECT_EQ(error_of("oci::t"), "image reference \"oci::t\": it names no directory");
    EXPECT_EQ(error_of(std::string("./a\0b", 5)), "image reference \"./a\\u0000b\": it has a NUL byte");
    EXPECT_EQ(error_of("h.x/" + std::string(5000, 'a')).substr(0, 30), "image reference \"h.x/aaaaaaaaa");
}

TEST(Reference, NamesOfImagesHaveParts) {
    EXPECT_EQ(split_image_name("localhost/app:1"), (ImageName{"app", "1"}));
    EXPECT_EQ(split_image_name("docker.io/library/alpine:3.20"), (ImageName{"library/alpine", "3.20"}));
    EXPECT_EQ(split_image_name("host:5000/app"), (ImageName{"app", ""}));
    EXPECT_EQ(split_image_name("team/app:1@sha256:" + hex), (ImageName{"team/app", "1"}));
    EXPECT_EQ(split_image_name("alpine:3.20"), (ImageName{"alpine", "3.20"}));
    EXPECT_EQ(split_image_name("1.0+b"), (ImageName{"", "1.0+b"}));
    EXPECT_EQ(whole_image_name("alpine"), "docker.io/library/alpine:latest");
    EXPECT_EQ(whole_image_name("team/app:1"), "docker.io/team/app:1");
    EXPECT_EQ(whole_image_name("localhost/app"), "localhost/app:latest");
    EXPECT_EQ(whole_image_name("host:5000/app"), "host:5000/app:latest");
    for (std::string_view const bad : {"", "-a", ".a", "a//b", "/a", "a/", "a b", "a\n", "\u00e9"})
        EXPECT_FALSE(is_image_name(bad)) << bad;
}

TEST(Reference, ChecksParts) {
    EXPECT_TRUE(is_sha256_digest("sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"));
    for (std::string const& bad :
         {std::string("sha256:"), "sha256:" + std::string(63, 'a'), "sha256:" + std::string(65, 'a'),
          "sha256:" + std::string(63, 'a') + "/", "md5:" + hex, "sha256:" + std::string(63, 'a') + "A"})
        EXPECT_FALSE(is_sha256_digest(bad)) << bad;
    for (std::string_view const good : {"a", "a/b", "a.b", "a_b", "a__b", "a---b", "0/1"})
        EXPECT_TRUE(is_repository(good)) << good;
    for (std::string_view const bad :
         {"", "/", "a/", "/a", "a//b", "A", ".a", "a.", "a..b", "a___b", "-a", "a-", "a b"})
        EXPECT_FALSE(is_repository(bad)) << bad;
    for (std::string_view const good : {"x.tar.gz", "a-1_2+~.x", "_a"})
        EXPECT_TRUE(is_file_name(good)) << good;
    for (std::string_view const bad : {"", ".", "..", ".x", "-x", "a/b", "a b", "a\n"})
        EXPECT_FALSE(is_file_name(bad)) << bad;
    for (std::string_view const near : {"localhost", "localhost:5000", "127.0.0.1", "127.1.2.3:80", "[::1]:5000"})
        EXPECT_TRUE(is_loopback_host(near)) << near;
    for (std::string_view const far : {"127.0.0.1.example", "128.0.0.1", "localhost.example", "[::2]", "127.x.0.1"})
        EXPECT_FALSE(is_loopback_host(far)) << far;
}

}  // namespace
}  // namespace triton::image
