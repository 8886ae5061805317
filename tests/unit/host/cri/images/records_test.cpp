#include "host/cri/images/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/image/manifest.h"

namespace {

using namespace triton;
using namespace triton::cri;
using testing::ElementsAre;
using testing::IsEmpty;

std::string digest_of(char digit) { return "sha256:" + std::string(64, digit); }
Uuid uuid_of(char digit) { return *Uuid::parse("00000000-0000-4000-8000-00000000000" + std::string(1, digit)); }

image::Image image_of(char digit, std::string const& user = "", std::string const& reference = "127.0.0.1:5000/app:1") {
    json::Object oci;
    oci.push_back({"config", {digest_of(digit)}});
    oci.push_back({"execution", {json::Object{{"User", {user}}}}});
    auto manifest = image::make_manifest({.uuid = uuid_of(digit),
                                          .name = "app",
                                          .version = "1",
                                          .type = image::ImageType::docker,
                                          .published_at = "2026-01-01T00:00:00Z",
                                          .further = json::Object{{"oci", {std::move(oci)}}}});
    EXPECT_TRUE(manifest) << manifest.error().text();
    return {.manifest = *manifest,
            .tree = "layers/x",
            .source = "127.0.0.1:5000",
            .reference = reference,
            .digest = digest_of('d'),
            .size = 7};
}

TEST(CriRecords, NamesComeFromTagsAndDigests) {
    std::vector const images{image_of('1')};
    std::vector<image::Latch> const latches{{"127.0.0.1:5000/app:2", digest_of('e'), uuid_of('1')},
                                            {"127.0.0.1:5000/app:1", digest_of('d'), uuid_of('1')},
                                            {"oci:/srv/layout:1", digest_of('f'), uuid_of('1')},
                                            {"127.0.0.1:5000/gone:1", digest_of('f'), uuid_of('9')}};
    std::vector<DigestName> const digests{{"other.example/app@" + digest_of('d'), uuid_of('1')},
                                          {"other.example/gone@" + digest_of('d'), uuid_of('9')}};
    auto const records = records_of(images, {latches, digests});
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].id, digest_of('1'));
    EXPECT_EQ(records[0].size, 7U);
    EXPECT_THAT(records[0].repo_tags, ElementsAre("127.0.0.1:5000/app:1", "127.0.0.1:5000/app:2"));
    EXPECT_THAT(records[0].repo_digests,
                ElementsAre("127.0.0.1:5000/app@" + digest_of('d'), "127.0.0.1:5000/app@" + digest_of('e'),
                            "other.example/app@" + digest_of('d')));
}

TEST(CriRecords, ImagesWithoutAConfigurationAreLeftOut) {
    auto image = image_of('1');
    image.manifest = *image::make_manifest(
        {.uuid = uuid_of('1'), .name = "tree", .version = "1", .published_at = "2026-01-01T00:00:00Z"});
    EXPECT_THAT(records_of(std::vector{image}, {{}, {}}), IsEmpty());
}

TEST(CriRecords, TheUserIsANumberOrAName) {
    auto const of = [](std::string const& user) {
        return records_of(std::vector{image_of('1', user)}, {{}, {}}).at(0);
    };
    EXPECT_EQ(of("").user_id, 0);
    EXPECT_EQ(of("1000").user_id, 1000);
    EXPECT_EQ(of("1000:100").user_id, 1000);
    EXPECT_EQ(of("www-data").user_name, "www-data");
    EXPECT_EQ(of("www-data:adm").user_name, "www-data");
    EXPECT_FALSE(of("www-data").user_id);
    EXPECT_FALSE(of("-1").user_id) << "kubelet refuses that name";
    EXPECT_FALSE(of("99999999999999999999").user_id);
}

TEST(CriRecords, AreFoundByIdAndName) {
    std::vector const images{image_of('1'), image_of('2', "", "other.example/b@" + digest_of('d'))};
    std::vector<image::Latch> const latches{{"docker.io/library/nginx:latest", digest_of('e'), uuid_of('2')}};
    auto const records = records_of(images, {latches, {}});
    auto const find = [&records](std::string_view text) -> std::string {
        auto const found = find_record(records, text);
        if (!found) return "error: " + found.error().text();
        return *found ? std::string(1, (*found)->id.back()) : "none";
    };
    EXPECT_EQ(find(digest_of('1')), "1");
    EXPECT_EQ(find(std::string(64, '2')), "2");
    EXPECT_EQ(find("22222222"), "2");
    EXPECT_EQ(find("sha256:11111111"), "1");
    EXPECT_EQ(find(digest_of('3')), "none");
    EXPECT_EQ(find("nginx"), "2");
    EXPECT_EQ(find("docker.io/library/nginx@" + digest_of('e')), "2");
    EXPECT_EQ(find("nginx:2"), "none");
    EXPECT_EQ(find("other.example/b@" + digest_of('d')), "2");
    EXPECT_EQ(find("127.0.0.1:5000/app:7@" + digest_of('d')), "1");
    EXPECT_EQ(find("22222222222"), "2");
    EXPECT_THAT(find("?"), testing::StartsWith("error: "));
}

TEST(CriRecords, ABeginningMustBeUnique) {
    auto first = image_of('1');
    auto second = image_of('2');
    auto records = records_of(std::vector{first, second}, {{}, {}});
    records[1].id = digest_of('1').substr(0, 70) + "2";
    EXPECT_EQ(find_record(records, "11111111").error().text(), "several images have ids that begin with 11111111");
    EXPECT_EQ((*find_record(records, records[1].id))->id, records[1].id);
}

TEST(CriRecords, ANameOfTheImagesOwnRowCanBeHidden) {
    DigestName const own{"127.0.0.1:5000/app@" + digest_of('d'), uuid_of('1')};
    auto const names = [&](NameSources const& sources) {
        return records_of(std::vector{image_of('1')}, sources).at(0).repo_digests;
    };
    EXPECT_THAT(names({{}, {}, {own}}), IsEmpty());
    EXPECT_THAT(names({{}, {}, {{own.name, uuid_of('2')}}}), ElementsAre(own.name)) << "another image's";
    EXPECT_THAT(names({{{"127.0.0.1:5000/app:1", digest_of('d'), uuid_of('1')}}, {}, {own}}), ElementsAre(own.name));
}

/// An image with two tags in one repository, one in another, and a digest of its own in a third.
struct Named {
    std::vector<image::Latch> latches{{"a.example/app:1", digest_of('d'), uuid_of('1')},
                                      {"a.example/app:2", digest_of('e'), uuid_of('1')},
                                      {"b.example/app:1", digest_of('d'), uuid_of('1')},
                                      {"oci:/srv/layout:1", digest_of('f'), uuid_of('1')},
                                      {"a.example/app:3", digest_of('d'), uuid_of('9')}};
    std::vector<DigestName> digests{{"c.example/app@" + digest_of('d'), uuid_of('1')}};
    DigestName first{"127.0.0.1:5000/app@" + digest_of('d'), uuid_of('1')};
};

TEST(CriRecords, AnImageHasTheNamesOfItsTagsAndItsDigests) {
    Named const named;
    auto const records = records_of(std::vector{image_of('1')}, {named.latches, named.digests, {named.first}});
    ImageNames const names = names_of(records.at(0), named.latches);
    EXPECT_THAT(names.references,
                ElementsAre("a.example/app:1", "a.example/app:2", "b.example/app:1", "oci:/srv/layout:1"));
    EXPECT_EQ(names.digests.size(), 4U);
}

}  // namespace
