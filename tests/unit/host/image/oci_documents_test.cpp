#include "host/image/oci_documents.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::image {
namespace {

using testing::ElementsAre;

std::string digest_of(char c) { return "sha256:" + std::string(64, c); }

std::string descriptor(std::string_view type, char c, std::string_view more = "") {
    return R"({"mediaType":")" + std::string(type) + R"(","digest":")" + digest_of(c) + R"(","size":10)" +
           std::string(more) + "}";
}

constexpr std::string_view config_type = "application/vnd.oci.image.config.v1+json";
constexpr std::string_view layer_type = "application/vnd.oci.image.layer.v1.tar+gzip";
constexpr std::string_view manifest_type = "application/vnd.oci.image.manifest.v1+json";
constexpr std::string_view index_type = "application/vnd.oci.image.index.v1+json";

std::string manifest(std::string_view more = "") {
    return R"({"schemaVersion":2,"config":)" + descriptor(config_type, 'c') + R"(,"layers":[)" +
           descriptor(layer_type, 'a') + "," + descriptor(layer_type, 'b') + "]" + std::string(more) + "}";
}

std::string document_error(std::string const& text, std::string_view media_type = "") {
    auto const read = read_index_or_manifest(text, media_type, "x");
    if (read) return "none";
    std::string all = read.error().text();
    for (std::string const& detail : read.error().details)
        all += "; " + detail;
    return all;
}

TEST(OciDocuments, ManifestIsRead) {
    auto const read = read_index_or_manifest(manifest(), manifest_type, "x");
    ASSERT_TRUE(read) << read.error().text();
    auto const& it = std::get<OciManifest>(*read);
    EXPECT_EQ(it.config.digest, digest_of('c'));
    ASSERT_EQ(it.layers.size(), 2U);
    EXPECT_EQ(it.layers[1].digest, digest_of('b'));
    EXPECT_EQ(it.layers[1].kind, OciKind::layer);
}

TEST(OciDocuments, WhatIsWrongIsTold) {
    EXPECT_EQ(document_error("[]"),
              "x is not a manifest or an index; expected an object (keys: schemaVersion, mediaType, manifests, config, "
              "layers, "
              "fsLayers), found array");
    EXPECT_EQ(document_error(R"({"schemaVersion":2})"), "x has neither manifests nor config and layers");
    EXPECT_EQ(document_error(manifest(R"(,"manifests":[])")), "x is a manifest and an index at once");
    EXPECT_EQ(document_error(R"({"schemaVersion":2,"manifests":[],"layers":[]})"),
              "x is a manifest and an index at once");
    EXPECT_EQ(document_error(manifest(), index_type),
              "x is called application/vnd.oci.image.index.v1+json, which it is not");
    EXPECT_EQ(document_error(manifest(R"(,"mediaType":"text/html")")), "x is called text/html, which it is not");
    EXPECT_EQ(document_error(R"({"schemaVersion":1,"fsLayers":[]})"),
              "x has Docker's schema 1, which has no digests to verify");
    EXPECT_EQ(document_error(R"({"schemaVersion":2,"config":)" + descriptor(config_type, 'c') + R"(,"layers":[]})"),
              "x has no layer");
    EXPECT_EQ(document_error(R"({"schemaVersion":2,"config":)" + descriptor(config_type, 'c') + R"(,"layers":[)" +
                             descriptor("application/x-disk", 'a') + "]}"),
              "x has a layer of type application/x-disk, which cannot be unpacked");
    EXPECT_EQ(document_error(R"({"schemaVersion":2,"config":)" + descriptor("application/x", 'c') + R"(,"layers":[)" +
                             descriptor(layer_type, 'a') + "]}"),
              "x is not of a container image: its configuration is application/x");
    std::string const bad = R"({"schemaVersion":2,"manifests":[{"digest":"sha256:../../x","size":1},)"
                            R"({"digest":"sha512:00","size":-1}]})";
    EXPECT_EQ(document_error(bad),
              "x is not a manifest or an index; "
              "manifests[0].digest: \"sha256:../../x\" is not sha256: and 64 lower-case hexadecimal digits; "
              "manifests[1].digest: \"sha512:00\" is not sha256: and 64 lower-case hexadecimal digits; "
              "manifests[1].size: -1 is not within 0 to 1099511627776");
}

TEST(OciDocuments, LayersAreBounded) {
    std::string layers;
    for (std::size_t i = 0; i <= most_layers; ++i)
        layers += (i == 0 ? "" : ",") + descriptor(layer_type, 'a');
    EXPECT_EQ(document_error(R"({"schemaVersion":2,"config":)" + descriptor(config_type, 'c') + R"(,"layers":[)" +
                             layers + "]}"),
              "x is not a manifest or an index; layers: has 4097 entries, more than 4096");
}

std::string config(std::string_view diff_ids, std::string_view type = "layers") {
    return R"({"os":"linux","architecture":"amd64","created":"2024-01-01T00:00:00Z","config":{"Cmd":["/bin/sh"]},)"
           R"("rootfs":{"type":")" +
           std::string(type) + R"(","diff_ids":[)" + std::string(diff_ids) + R"(]},"history":[]})";
}

TEST(OciDocuments, ConfigurationMatchesTheLayers) {
    std::string const one = "\"" + digest_of('1') + "\"";
    auto const read = read_oci_config(config(one), 1, "x");
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(read->platform.text(), "linux/amd64");
    EXPECT_THAT(read->diff_ids, ElementsAre(digest_of('1')));
    EXPECT_EQ(read->execution.size(), 1U);
    EXPECT_EQ(read_oci_config(config(one), 2, "x").error().text(), "x has 1 diff_ids for 2 layers");
    EXPECT_EQ(read_oci_config(config(one, "flat"), 1, "x").error().text(),
              "x has a root file system that is not made of layers");
    EXPECT_EQ(read_oci_config("{}", 1, "x").error().text(), "x is not the configuration of an image");
    EXPECT_FALSE(read_oci_config(config(R"("sha256:zz")"), 1, "x"));
}

OciIndex index_of(std::string const& entries) {
    auto read = read_index_or_manifest(R"({"schemaVersion":2,"manifests":[)" + entries + "]}", index_type, "x");
    EXPECT_TRUE(read) << (read ? "" : read.error().text());
    return read ? std::get<OciIndex>(*read) : OciIndex{};
}

TEST(OciDocuments, ChoosesByPlatformAndByTag) {
    auto const platform = [](std::string_view architecture) {
        return R"(,"platform":{"os":"linux","architecture":")" + std::string(architecture) + "\"}";
    };
    OciIndex const index = index_of(descriptor(manifest_type, 'a', platform("arm64")) + "," +
                                    descriptor("application/x-attestation", 'd', platform("amd64")) + "," +
                                    descriptor(manifest_type, 'b', platform("amd64")));
    EXPECT_EQ(choose_manifests(index, {.architecture = "amd64"}, "x")->front().digest, digest_of('b'));
    EXPECT_EQ(choose_manifests(index, {.architecture = "s390x"}, "x").error().text(),
              "x has no image for linux/s390x; it has: linux/arm64, linux/amd64");
    OciIndex const unnamed =
        index_of(descriptor(manifest_type, 'a', "") + "," + descriptor(manifest_type, 'b', R"(,"platform":{})") + "," +
                 descriptor(manifest_type, 'd', R"(,"platform":{"os":"unknown","architecture":"unknown"})") + "," +
                 descriptor(manifest_type, 'e', platform("s390x")));
    EXPECT_EQ(choose_manifests(unnamed, {.architecture = "amd64"}, "x")->size(), 2U);
    EXPECT_EQ(choose_manifests(unnamed, {.architecture = "s390x"}, "x")->front().digest, digest_of('e'));
    OciIndex const attested =
        index_of(descriptor(manifest_type, 'd', R"(,"platform":{"os":"unknown","architecture":"unknown"})"));
    EXPECT_EQ(choose_manifests(attested, {.architecture = "amd64"}, "x").error().text(),
              "x has no image for linux/amd64; it has: none");
    auto const tag = [](std::string_view name) {
        return R"(,"annotations":{"org.opencontainers.image.ref.name":")" + std::string(name) + "\"}";
    };
    OciIndex const layout =
        index_of(descriptor(manifest_type, 'a', tag("1.0")) + "," + descriptor(manifest_type, 'b', tag("2.0")));
    EXPECT_EQ(choose_tag(layout, "2.0", "x")->digest, digest_of('b'));
    EXPECT_EQ(choose_tag(layout, "3.0", "x").error().text(), "x has no tag 3.0; it has: 1.0, 2.0");
    EXPECT_EQ(choose_tag(layout, "", "x").error().text(), "x has several images; name one of its tags: 1.0, 2.0");
    EXPECT_EQ(choose_tag(index_of(descriptor(manifest_type, 'a')), "", "x")->digest, digest_of('a'));
    auto const latest = [&](char a, char b) {
        return index_of(descriptor(manifest_type, a, tag("latest")) + "," +
                        descriptor(manifest_type, b, tag("latest")));
    };
    EXPECT_EQ(choose_tag(latest('a', 'b'), "latest", "x").error().text(),
              "x: several images have this tag; @ and one of these instead of the tag names one: " + digest_of('a') +
                  ", " + digest_of('b'));
    EXPECT_EQ(choose_tag(latest('a', 'a'), "latest", "x")->digest, digest_of('a'));  // it has two names
}

TEST(OciDocuments, NamesOfArchivesAreMatchedAsPeopleSayThem) {
    std::vector<NamedImage> const images{{"1", {"team/app:1", "team/app:latest"}},
                                         {"2", {"docker.io/library/alpine:3.20"}},
                                         {"3", {}},
                                         {"4", {"localhost/x:2", "other:1"}}};
    auto const chosen = [&](std::string_view wanted) {
        auto const found = choose_named(images, wanted, "x");
        return found ? images[*found].identity : found.error().text();
    };
    for (std::string_view const name : {"team/app:1", "team/app:latest", "team/app", "docker.io/team/app:1", "latest"})
        EXPECT_EQ(chosen(name), "1") << name;
    for (std::string_view const name : {"alpine:3.20", "library/alpine:3.20", "3.20"})
        EXPECT_EQ(chosen(name), "2") << name;
    EXPECT_EQ(chosen("2"), "4");
    EXPECT_EQ(chosen("1"), "x: several images have this tag; @ and one of these instead of the tag names one: 1, 4");
    EXPECT_EQ(chosen("app"),
              "x has no tag app; it has: team/app:1, team/app:latest, docker.io/library/alpine:3.20, "
              "(one without a tag), localhost/x:2, other:1");
    EXPECT_EQ(chosen("").substr(0, 21), "x has several images;");
    std::vector<NamedImage> const twice{{"1", {"a:1"}}, {"1", {"b:1"}}};
    EXPECT_EQ(*choose_named(twice, "", "x"), 1U);  // two names of one image
    EXPECT_EQ(*choose_named(twice, "1", "x"), 1U);
}

TEST(OciDocuments, ManifestOfDockerSaveIsRead) {
    auto const read = read_saved_images(
        R"([{"Config":"c.json","RepoTags":["a:1"],"Layers":["x/layer.tar","x/layer.tar"],"Parent":"sha256:0"},)"
        R"({"Config":"a/../c","RepoTags":null,"Layers":[]}])",
        "x");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().details.front(), "[1].Config: \"a/../c\" is not the path of a file in an archive");
    auto const good = read_saved_images(
        R"([{"Config":"c.json","RepoTags":["a:1"],"Layers":["x/layer.tar","x/layer.tar"],"Parent":"sha256:0"},)"
        R"({"Config":"..c","RepoTags":null,"Layers":["./l"]}])",
        "x");
    ASSERT_TRUE(good) << good.error().text();
    EXPECT_THAT((*good)[0].names, ElementsAre("a:1"));
    EXPECT_THAT((*good)[0].layers, ElementsAre("x/layer.tar", "x/layer.tar"));
    EXPECT_TRUE((*good)[1].names.empty());
    for (std::string_view const bad : {"/c", "..", "../c", "a/..", "a/../../b", ""})
        EXPECT_FALSE(read_saved_images(R"([{"Config":")" + std::string(bad) + R"(","Layers":[]}])", "x")) << bad;
}

TEST(OciDocuments, ConfigurationNeedsNoPlatformAndNoMediaType) {
    for (std::string_view const type : {"application/octet-stream", "application/json", "text/html"})
        EXPECT_EQ(document_error(R"({"schemaVersion":2,"config":)" + descriptor(type, 'c') + R"(,"layers":[)" +
                                 descriptor(layer_type, 'a') + "]}"),
                  "none");
    EXPECT_EQ(document_error(R"({"schemaVersion":2,"config":{"digest":")" + digest_of('c') +
                             R"(","size":1},"layers":[)" + descriptor(layer_type, 'a') + "]}"),
              "none");
    std::string const layers = R"("rootfs":{"type":"layers","diff_ids":[")" + digest_of('1') + R"("]}})";
    for (std::string_view const platform : {"", R"("os":"","architecture":"",)", R"("os":"linux",)"}) {
        auto const read = read_oci_config("{" + std::string(platform) + layers, 1, "x");
        ASSERT_TRUE(read) << platform;
        EXPECT_EQ(read->platform, Platform{}) << platform;
    }
}

}  // namespace
}  // namespace triton::image
