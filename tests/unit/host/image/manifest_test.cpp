#include "host/image/manifest.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::image {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view its_uuid = "7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b";

std::string with(std::string_view more, std::string_view state = "active", std::string_view type = "lxd",
                 std::string_view os = "linux") {
    return R"({"v":2,"uuid":")" + std::string(its_uuid) + R"(","name":"alpine","version":"3.20","type":")" +
           std::string(type) + R"(","os":")" + std::string(os) + R"(","state":")" + std::string(state) + "\"" +
           std::string(more) + "}";
}

Result<ReadManifest> read(std::string_view text, ManifestUse use = ManifestUse::install) {
    return read_manifest(text, "manifest x", use);
}

std::vector<std::string> problems(std::string_view text, ManifestUse use = ManifestUse::install) {
    auto const result = read(text, use);
    return result ? std::vector<std::string>{} : result.error().details;
}

TEST(Manifest, IsRead) {
    std::string const hex(64, 'b');
    auto const good = read(with(R"(,"files":[{"size":12,"sha256":")" + hex +
                                R"(","compression":"xz"}],"tags":{"a":[1]},"newer":1,"requirements":{"min_ram":64})"));
    ASSERT_TRUE(good) << good.error().text();
    Manifest const& manifest = good->manifest;
    EXPECT_EQ(manifest.uuid->text(), its_uuid);
    EXPECT_EQ(manifest.title(), "alpine@3.20");
    ASSERT_EQ(manifest.files.size(), 1U);
    EXPECT_EQ(manifest.files[0].size, 12U);
    EXPECT_EQ(manifest.files[0].sha256, hex);
    EXPECT_EQ(manifest.files[0].compression, Compression::xz);
    EXPECT_THAT(good->warnings, ElementsAre("unknown key \"newer\""));
    EXPECT_THAT(manifest.text(), HasSubstr(R"("newer":1)"));
    EXPECT_TRUE(check_installable(manifest));
}

TEST(Manifest, TellsEveryProblem) {
    EXPECT_THAT(problems("{}"), ElementsAre("v: required key is missing", "uuid: required key is missing",
                                            "name: required key is missing", "version: required key is missing",
                                            "type: required key is missing", "os: required key is missing"));
    EXPECT_EQ(read("[]").error().text(), "manifest x is not a manifest");
    EXPECT_THAT(problems("[]"), ElementsAre("expected an object (keys: v, uuid, owner, name and more), found array"));
    EXPECT_THAT(problems("{}", ManifestUse::create), ElementsAre());
    EXPECT_THAT(problems(R"({"v":1})", ManifestUse::create),
                ElementsAre("v: manifests of version 1 are not known; 2 is"));
    EXPECT_THAT(problems(with(R"(,"files":[{"size":-1,"sha1":"XY"},{}])")),
                ElementsAre("files[0].size: -1 is not within 0 to 4398046511104",
                            "files[0].sha1: expected 40 lower-case hexadecimal digits, found \"XY\"",
                            "files[1].size: required key is missing"));
    EXPECT_THAT(problems(with(R"(,"files":[{"size":1,"path":"../x"}])")),
                ElementsAre("files[0].path: \"../x\" is not the name of a file"));
    EXPECT_THAT(problems(with(R"(,"origin":"x","owner":3)")),
                ElementsAre("owner: expected a string, found number", "origin: \"x\" is not a UUID"));
    EXPECT_THAT(problems(R"({"name":")" + std::string(513, 'n') + "\"}", ManifestUse::create),
                ElementsAre("name: is longer than 512 bytes"));
    EXPECT_THAT(problems(with(R"(,"uuid":")" + std::string(its_uuid) + "\"")), ElementsAre("uuid: duplicate key"));
    std::string deep;
    for (int i = 0; i < 10000; ++i)
        deep += "[";
    EXPECT_EQ(problems(deep).size(), 1U);
    EXPECT_EQ(problems(std::string(5 << 20, ' ')).size(), 1U);
}

TEST(Manifest, TellsWhyItCannotBeInstalled) {
    auto const reason = [](std::string const& text) {
        auto const good = check_installable(read(text)->manifest);
        return good ? "none" : good.error().text();
    };
    std::string const image = "image " + std::string(its_uuid);
    EXPECT_EQ(reason(with("", "creating")), image + " is not active: its state is creating");
    EXPECT_EQ(reason(with(R"(,"disabled":true)")), image + " is not active: its state is disabled");
    EXPECT_EQ(reason(with("", "active", "zvol")), image + " is a disk (type zvol), not a file system");
    EXPECT_EQ(reason(with("", "active", "lxd", "smartos")), image + " is for smartos, not for Linux");
    EXPECT_EQ(reason(with(R"(,"requirements":{"min_platform":{"7.0":"20150101T000000Z"}})")),
              image + " requires a SmartOS platform, and this is Linux");
}

TEST(Manifest, IsMade) {
    auto const made = make_manifest({.uuid = *Uuid::parse(its_uuid),
                                     .name = "web",
                                     .version = "1",
                                     .files = {{.size = 5, .sha256 = std::string(64, 'c'), .path = "web-1.tar"}}});
    ASSERT_TRUE(made) << made.error().text();
    EXPECT_EQ(
        made->text(),
        R"({"v":2,"uuid":"7b5981c4-1889-11e7-b4c5-3f3bdfc9b88b","owner":"00000000-0000-0000-0000-000000000000",)"
        R"("name":"web","version":"1","state":"active","disabled":false,"public":true,"type":"other","os":"linux",)"
        R"("files":[{"size":5,"sha256":")" +
            std::string(64, 'c') + R"(","compression":"none","path":"web-1.tar"}]})");
    EXPECT_TRUE(make_manifest({.uuid = *Uuid::parse(its_uuid), .name = "a", .version = "1"}));
    EXPECT_FALSE(make_manifest({.uuid = *Uuid::parse(its_uuid), .name = "a", .version = std::string(200, 'v')}));
}

TEST(Manifest, HasAReferencePage) {
    std::string const page = manifest_reference_page();
    EXPECT_THAT(page, HasSubstr("| `uuid` | string | required to install | What the image is known by everywhere. |"));
    EXPECT_THAT(page, HasSubstr("\n## File\n"));
}

}  // namespace
}  // namespace triton::image
